"""Each table and figure as plain data for a page: ours beside the paper's numbers, sentences, notes and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from teachaugment.commands.compare.rows import Row
from teachaugment.commands.compare.statistics import Group, summarize
from teachaugment.commands.paper.items import ERROR, Item, Place, table_file
from teachaugment.commands.paper.judge import groups_of, order
from teachaugment.config.settings import as_text
from teachaugment.presets import PRESETS
from teachaugment.show.charts import Axis, Figure, ticks
from teachaugment.show.drawing import Circle, Drawing, Line, Polyline, Shape, Text

WIDTH, HEIGHT, LEFT, BOTTOM = 560, 260, 58, 34  # of the chart
ABSENT = "–"


class Cell(NamedTuple):
    text: str
    paper: bool = False  # a number of the paper, shown in grey


@dataclass
class Part:
    """What a page shows of one table or figure."""

    name: str
    title: str
    header: Sequence[Cell] = ()
    rows: Sequence[Sequence[Cell]] = ()
    sentences: Sequence[str] = ()
    notes: Sequence[str] = ()
    pictures: Sequence[tuple[str, Path]] = ()  # in words, and the file
    charts: Sequence[Figure] = field(default_factory=list)


def part_of(item: Item, done: Mapping[str, Row], results: Path) -> Part:
    if item.presets:
        return settings_part(item)
    if item.picture:
        return picture_part(item, results)
    return table_part(item, done)


def table_part(item: Item, done: Mapping[str, Row]) -> Part:
    found = {place.name: groups_of(item, place, done) for place in item.places}
    there = [place for place in item.places if any(group.rows for group in found[place.name].values())]
    columns = [place_columns(item, found[place.name]) for place in there]
    heads = [Cell(f"{place.short}: {name}") for place in there for name in column_names(item)]
    header = [Cell(""), *heads, *(Cell(f"paper, {column}", True) for column in item.columns)]
    rows = []
    for row in item.rows:
        cells = [Cell(text) for column in columns for text in column.get(row.label, (ABSENT, ABSENT))]
        errors = [row.entry.paper.get(column) for column in item.columns]
        rows.append([Cell(row.label), *cells, *(Cell(paper_number(item, error), True) for error in errors)])
    orders = [] if item.times or not item.columns else [order(item, place, done) for place in there]
    charts = [chart for place in there if item.chart and (chart := curve(item, place, found[place.name]))]
    return Part(item.name, item.title, header, rows, orders, notes_of(item, there, found), charts=charts)


def column_names(item: Item) -> tuple[str, str]:
    if item.times:
        return "times as long", "seconds"
    return f"{item.unit}, %", f"to {item.rows[0].label}, with 95 % interval"


def paper_number(item: Item, error: float | None) -> str:
    """As the paper has it: an error, or what is missing from one."""
    return ABSENT if error is None else f"{error if item.unit == ERROR else 100 - error:.1f}"


def place_columns(item: Item, groups: Mapping[str, Group]) -> dict[str, tuple[str, str]]:
    """Two cells for each row that has been measured: the number with its deviation, and the difference."""
    first = item.rows[0].label
    summary = summarize(list(groups.values()))
    columns = {}
    for s in summary["strategies"]:
        seeds = "" if s["runs"] == len(item.seeds) else f" ({s['runs']} of {len(item.seeds)} seeds)"
        if item.times:
            factor = f"{s['relative_time']:.2f}" if s["relative_time"] and groups[first].rows else ABSENT
            columns[s["label"]] = (factor, f"{s['seconds']:.0f}{seeds}")
            continue
        spread = f" ± {s['std']:.1f}" if s["std"] is not None else ""
        value = 100 - s["mean"] if item.unit == ERROR else s["mean"]
        known = s["difference"] if groups[first].rows else None
        columns[s["label"]] = (f"{value:.1f}{spread}{seeds}", difference_text(item, known))
    return columns


def difference_text(item: Item, found: Mapping[str, Any] | None) -> str:
    """In points of the unit: of an error, less than zero is better."""
    if found is None:
        return ABSENT
    sign = -1 if item.unit == ERROR else 1
    between = found["interval"]
    low, high = sorted(sign * end for end in between) if between else (0.0, 0.0)
    return f"{sign * found['mean'] + 0.0:+.1f}" + (f" ({low:+.1f} to {high:+.1f})" if between else "")


def notes_of(item: Item, there: Sequence[Place], found: Mapping[str, Mapping[str, Group]]) -> list[str]:
    """Where the numbers come from, and what is missing and why."""
    notes = [f"Paper: {item.source}."] if item.source else []
    notes += [item.note] if item.note else []
    how = table_file()["data"]
    for place in item.places:
        if place in there:
            about = f" ({place.stands_for})" if place.stands_for else ""
            notes.append(f"{place.short}: {place.title}{about}.")
        else:
            needs = f"; {place.data} is needed: {how[place.data]}" if place.data else ""
            run = f"teachaugment paper --run {item.name} --data DIR"
            notes.append(f"{place.title}: nothing has been measured yet. {run} fills it{needs}.")
    for row in item.rows:
        if row.missing:
            notes.append(f"{row.label} is missing: {row.missing}.")
        elif row.file and any(not found[place.name][row.label].rows for place in there):
            notes.append(
                f"{row.label} is missing: its policy is not part of this project; put {how[row.file]} into DIR."
            )
        elif empty := [place.short for place in there if not found[place.name][row.label].rows]:
            notes.append(f"{row.label} has not been trained yet: {', '.join(empty)}.")
    return notes


def settings_part(item: Item) -> Part:
    """The appendix's settings beside those of the presets."""
    rows, other = [], 0
    for key, values in item.appendix.items():
        cells = [Cell(key)]
        for name, value in zip(item.presets, values, strict=True):
            ours = PRESETS[name].value(key)
            other += ours != value
            cells += [Cell(as_text(ours)), Cell(as_text(value), True)]
        rows.append(cells)
    names = [cell for name in item.presets for cell in (Cell(name), Cell("paper", True))]
    sentence = "All settings of the presets are the appendix's." if not other else f"{other} settings differ."
    return Part(item.name, item.title, [Cell(""), *names], rows, [sentence])


def picture_part(item: Item, results: Path) -> Part:
    """The pictures that have been drawn of a figure."""
    from teachaugment.commands.paper.figures import file_name, label_of, pictures_of

    pictures, notes = [], [item.note] if item.note else []
    for name, parts in pictures_of(item):
        path = results / file_name(item, name, item.scale)
        labels = [label_of(item, place, row) for place, row in parts]
        where = parts[0][0]
        if path.exists():
            pictures.append((f"{where.title}: original, {', '.join(labels)}", path))
        else:
            notes.append(f"{where.title}: not drawn yet; teachaugment paper --run {item.name} --data DIR draws it.")
    return Part(item.name, item.title, notes=notes, pictures=pictures)


def curve(item: Item, place: Place, groups: Mapping[str, Group]) -> Figure | None:
    """Error over the rows, which are numbers, with the deviation over seeds as bars; a ring marks the least."""
    points = []
    for s in summarize(list(groups.values()))["strategies"]:
        number = float(s["label"].rpartition("=")[2])
        points.append((number, 100 - s["mean"], s["std"] or 0.0))
    ends = [end for _, value, spread in points for end in (value - spread, value + spread)]
    marks = ticks(min(ends), max(ends))
    across = Axis(min(x for x, *_ in points), max(x for x, *_ in points), LEFT + 20, WIDTH - 20)
    down = Axis(marks[0], marks[-1], HEIGHT - BOTTOM, 12)
    shapes: list[Shape] = []
    for mark in marks:
        shapes.append(Line(LEFT, down.at(mark), WIDTH - 8, down.at(mark), "grid"))
        shapes.append(Text(LEFT - 8, down.at(mark) + 4, f"{mark:g} %", "tick", "end"))
    shapes.append(Polyline([(across.at(x), down.at(value)) for x, value, _ in points], "line s0"))
    best = min(points, key=lambda point: point[1])
    for x, value, spread in points:
        shapes.append(Line(across.at(x), down.at(value - spread), across.at(x), down.at(value + spread), "line s0"))
        shapes.append(Circle(across.at(x), down.at(value), 7 if (x, value, spread) == best else 3.5, "dot s0"))
        shapes.append(Text(across.at(x), HEIGHT - 12, f"{x:g}", "tick", "middle"))
    words = f"error against ε, {place.short}: least at ε = {best[0]:g}, {best[1]:.1f} %"
    note = "Bars are the standard deviation over seeds; the large dot is the least error."
    return Figure(f"{place.short}: error, % against ε", Drawing(WIDTH, HEIGHT, shapes, words), note)
