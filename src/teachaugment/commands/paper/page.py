"""The page of all tables and figures, as HTML in one file and as Markdown, from what is kept of the runs."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from teachaugment import __version__
from teachaugment.commands.compare.rows import Row
from teachaugment.commands.paper.figures import read_numbers
from teachaugment.commands.paper.items import Item
from teachaugment.commands.paper.judge import HOLDS, LIKE, NOT, OPEN, UNTESTED, Verdict, verdicts
from teachaugment.commands.paper.plan import row_key
from teachaugment.commands.paper.sections import Part, part_of
from teachaugment.commands.report.images import InlineImage
from teachaugment.commands.report.page import Page, Section, render
from teachaugment.commands.report.write import save
from teachaugment.data.decode import open_image
from teachaugment.progress import duration
from teachaugment.show.table import Table, markdown

TITLE = "The paper's tables and figures, measured"
CLAIMS = (
    "Each sentence is the paper's. It is as claimed where every mean difference is, and then it holds if one is "
    "clear (its 95 % interval has no zero in it); it does not hold where one is clearly the other way; otherwise it is "
    "not decided. With three seeds intervals are wide. Differences are in points, paired by seed; only rows with all "
    "seeds are judged."
)
READING = (
    "The paper's numbers are in grey: of its networks, data and budgets, not of these. Differences are paired by seed; "
    "of an error, less than zero is better."
)


@dataclass(frozen=True)
class ShownPart:
    """A part with its pictures inside."""

    part: Part
    images: Sequence[tuple[str, InlineImage]]


def write(items: Mapping[str, Item], done: Mapping[str, Row], results: Path, scale: str) -> list[Path]:
    """``paper.html`` and ``paper.md`` beside the rows."""
    parts = [part_of(item, done, results) for item in items.values()]
    found = verdicts(items, done, read_numbers(results, scale))
    tiles = numbers(items, done, found)
    name = "paper" if scale == "laptop" else "paper-full-size"
    written = {
        results / f"{name}.html": as_html(parts, found, tiles, about(done)),
        results / f"{name}.md": as_markdown(parts, found, tiles, about(done), results),
    }
    for path, text in written.items():
        save(text, path)
    return list(written)


def counts(items: Mapping[str, Item], done: Mapping[str, Row]) -> tuple[int, int]:
    """Rows of tables that have been measured with all seeds, and rows of tables, where any of a place has been."""
    whole = total = 0
    for item in items.values():
        for place in item.places if not item.picture else ():
            rows = [row for row in item.rows if not row.missing]
            there = [sum(row_key(row, place, item.scale, seed) in done for seed in item.seeds) for row in rows]
            if any(there):
                whole, total = whole + there.count(len(item.seeds)), total + len(rows)
    return whole, total


def numbers(items: Mapping[str, Item], done: Mapping[str, Row], found: Sequence[Verdict]) -> list[tuple[str, str]]:
    whole, total = counts(items, done)
    told = [("rows with all seeds", f"{whole} of {total}"), ("runs", f"{len(done)}")]
    told.append(("training time", duration(sum(row["seconds"] for row in done.values()))))
    return told + [
        (f"claims: {kind}", str(sum(v.found == kind for v in found))) for kind in (HOLDS, LIKE, OPEN, NOT, UNTESTED)
    ]


def about(done: Mapping[str, Row]) -> str:
    """When and where the rows were measured."""
    dates, machines = ({str(row[key]) for row in done.values() if key in row} for key in ("date", "machine"))
    when = f", {min(dates)} to {max(dates)}" if dates else ""
    return f"{'; '.join(sorted(machines))}{when}. To go on: teachaugment paper --run --data DIR"


def as_html(parts: Sequence[Part], found: Sequence[Verdict], tiles: Sequence[tuple[str, str]], where: str) -> str:
    sections = [Section("claims", "The paper's claims", "paper_claims.html", found, CLAIMS)]
    for part in parts:
        shown = ShownPart(part, [(words, inline(path, words)) for words, path in part.pictures])
        link = part.title.split(",")[0]  # Tab. 1
        sections.append(Section(part.name, part.title, "paper_item.html", shown, link=link))
    foot = f"Written by teachaugment {__version__} from the JSON lines beside it"
    return render(Page(TITLE, READING, sections, foot, tiles, where))


def inline(path: Path, words: str) -> InlineImage:
    with open_image(path) as image:
        width, height = image.size
    source = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    return InlineImage(source, words, width, height, exact=False)


def as_markdown(
    parts: Sequence[Part], found: Sequence[Verdict], tiles: Sequence[tuple[str, str]], where: str, results: Path
) -> str:
    rows = [[v.item, v.says, v.found, v.detail or "–"] for v in found]
    lines = [
        f"# {TITLE}",
        "",
        READING,
        "",
        "; ".join(f"{name}: {value}" for name, value in tiles) + ".",
        "",
        where + ".",
        "",
    ]
    header = ["", "the paper says", "here", "differences"]
    lines += [markdown([Table("The paper's claims", header, rows, CLAIMS, words=True)]), ""]
    for part in parts:
        if part.rows:
            header = [cell.text for cell in part.header]
            table = markdown([Table(part.title, header, [[cell.text for cell in row] for row in part.rows])])
        else:
            table = f"### {part.title}"
        lines += [table, "", *(f"- {line}" for line in (*part.sentences, *part.notes)), ""]
        lines += [f"![{words}]({path.relative_to(results)})\n" for words, path in part.pictures]
    return "\n".join(lines)
