"""The paper's tables and figures, from ``items.yaml``. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from teachaugment.commands.compare.comparisons import Entry, entries, find
from teachaugment.errors import UserError, nearest
from teachaugment.presets import PRESETS

FILE = Path(__file__).with_name("items.yaml")
SCALES = ("laptop", "paper")
ERROR = "error"  # the unit in which the paper gives classification; others rise with what is better


@dataclass(frozen=True)
class Place:
    """What is trained on what: the settings that all runs of some tables share."""

    name: str
    title: str
    column: str  # the paper's column that it stands for
    data: str | None = None  # a file or folder in the folder of --data; None: the preset's own data
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)  # of one run, by the beginning of its strategy
    short: str = ""  # a name for the head of a column
    stands_for: str = ""  # in what it is another thing than the paper's

    def estimate(self, strategy: str) -> float | None:
        """Seconds of a run, by the longest beginning that is known; None where none is."""
        known = [start for start in self.seconds if strategy.startswith(start)]
        return self.seconds[max(known, key=len)] if known else None


@dataclass(frozen=True)
class PaperRow:
    """One row of a table: the entry of a comparison, and what keeps it from being run."""

    entry: Entry
    file: str = ""  # of the folder of --data, that its strategy needs
    missing: str = ""  # why it cannot be run by anybody

    @property
    def label(self) -> str:
        return self.entry.label


@dataclass(frozen=True)
class Item:
    """A table or a figure."""

    name: str
    title: str
    rows: tuple[PaperRow, ...]  # the first one is what the others are compared to
    places: tuple[Place, ...]
    scale: str
    unit: str = ERROR
    source: str = ""  # where the paper's numbers stand, and of which network
    note: str = ""
    claims: tuple[Mapping[str, Any], ...] = ()
    picture: str = ""  # "colors" or "images": what is drawn of its runs
    chart: bool = False  # a curve over its rows
    times: bool = False  # shows training times
    appendix: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # settings -> values, one for each preset
    presets: tuple[str, ...] = ()

    @property
    def seeds(self) -> range:
        """A picture is of one run."""
        return range(1 if self.picture else table_file()["seeds"])

    @property
    def columns(self) -> list[str]:
        """The paper's columns, in its order."""
        return list(dict.fromkeys(column for row in self.rows for column in row.entry.paper))


@cache
def table_file() -> Mapping[str, Any]:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def places(scale: str) -> dict[str, Place]:
    made = {}
    for name, about in table_file()[scale].items():
        made[name] = Place(name, **{"title": about.get("preset", ""), "short": about["column"], **about})
    return made


def items(scale: str) -> dict[str, Item]:
    """All tables and figures at one scale, in the paper's order."""
    known = places(scale)
    return {name: item(name, about, scale, known) for name, about in table_file()["items"].items()}


def item(name: str, about: Mapping[str, Any], scale: str, known: Mapping[str, Place]) -> Item:
    here = tuple(known[place] for place in about.get(scale, ()))
    source, note, rows = "", str(about.get("note", "")).strip(), tuple[PaperRow, ...]()
    if "comparison" in about:
        comparison = find(about["comparison"])
        source = comparison.source
        stronger = about.get("stronger", {}).get(scale)
        rows = tuple(PaperRow(entry) for entry in entries(comparison, own_model(here), stronger))
        note = " ".join(part for part in (note, sentence(comparison.note)) if part and "to be trained" not in part)
    elif "rows" in about:
        rows = tuple(_row(row, about, scale) for row in about["rows"])
    kept = {key: about[key] for key in ("unit", "picture", "chart", "times") if key in about}
    return Item(
        name,
        about["title"],
        rows,
        here,
        scale,
        source=source,
        note=note,
        claims=tuple(about.get("claims", ())),
        appendix=about.get("settings", {}),
        presets=tuple(about.get("presets", ())),
        **kept,
    )


def own_model(here: Sequence[Place]) -> str:
    """The network of the places, where they have the same."""
    names = {
        PRESETS[place.preset].value("model.name") if place.preset else place.settings.get("model.name", "")
        for place in here
    }
    return names.pop() if len(names) == 1 else ""


def sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}." if note else ""


def _row(row: Mapping[str, Any], about: Mapping[str, Any], scale: str) -> PaperRow:
    strategy = row.get("strategy", "")
    if scale == "laptop":
        for long, short in about.get("smaller", {}).items():
            strategy = strategy.replace(long, short)
    columns, found = about.get("columns", ()), row.get("error", ())
    paper = {column: value for column, value in zip(columns, found, strict=True)}
    return PaperRow(Entry(row["label"], strategy, paper), row.get("file", ""), row.get("missing", ""))


def chosen(names: Sequence[str], scale: str) -> dict[str, Item]:
    """The items of these names, or all of them."""
    known = items(scale)
    for name in names:
        if name not in known:
            raise UserError(f"unknown table or figure {name!r}{nearest(name, known)}")
    return {name: known[name] for name in known if not names or name in names}
