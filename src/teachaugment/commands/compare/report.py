"""A comparison's summary as a table, as an answer in words, and as files."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from teachaugment.commands.compare.picture import draw
from teachaugment.commands.compare.rows import CHOSEN
from teachaugment.files import write_atomically
from teachaugment.show.table import Table, markdown, text

WORTH_SAYING = 0.05  # points that one test image is worth
FILES = {
    ".txt": "the table",
    ".json": "the same with every seed",
    ".csv": "the same for a spreadsheet",
    ".png": "every seed as a dot, and the intervals",
}


def as_table(summary: dict[str, Any]) -> Table:
    metric, split, baseline = summary["metric"], summary["split"], summary["baseline"]
    strategies = summary["strategies"]
    papers = list(dict.fromkeys(data for s in strategies for data in s["paper_error"]))
    own = summary["own_column"]
    also = "own" if own else "train"  # a second number
    chosen = " of the chosen epoch" if summary["model"] == CHOSEN else ""
    interval = f"{100 * summary['confidence']:.3g} % interval"
    header = ["strategy", f"{split} {metric}{chosen}, %", f"to {baseline}", interval, "wins"]
    header += [own or also, "time", "seeds"]
    rows = []
    for s in strategies:
        spread = f" ± {s['std']:.2f}" if s["std"] is not None else ""
        difference, wins, between = "–", "–", "–"
        if d := s["difference"]:
            difference, wins = f"{d['mean']:+.2f}", f"{d['wins']}/{d['pairs']}"
            between = f"{d['interval'][0]:+.2f} to {d['interval'][1]:+.2f}" if d["interval"] else "–"
        second = f"{s[also]:.1f}" if s[also] is not None else "–"
        time = f"{s['relative_time']:.2f}×" if s["relative_time"] is not None else "–"
        errors = [s["paper_error"].get(data) for data in papers]
        paper = [f"{100 - error:.1f}" if error is not None else "–" for error in errors]
        rows.append(
            [s["label"], f"{s['mean']:.2f}{spread}", difference, between, wins, second, time, str(s["runs"]), *paper]
        )
    return Table(summary["title"], [*header, *(f"paper {data}" for data in papers)], rows, summary["note"])


def verdicts(summary: dict[str, Any]) -> list[str]:
    """A sentence for each strategy but the first: does it help?"""
    lines = []
    for s in summary["strategies"]:
        if (d := s["difference"]) is None:
            continue
        size = f"{abs(d['mean']):.2f} points"
        if d["interval"] is None:
            seeds = "one seed" if d["pairs"] == 1 else f"{d['pairs']} seeds"
            found = f"{d['mean']:+.2f} points from {{0}} on {seeds}, which says little"
        elif d["interval"][0] > 0:
            found = f"better than {{0}} by {size}"
        elif d["interval"][1] < 0:
            found = f"worse than {{0}} by {size}"
        else:
            found = (
                f"not clearly different from {{0}}: {d['mean']:+.2f} points, by chance or not, on {d['pairs']} seeds"
            )
        lines.append(f"{s['label']} is {found.format(summary['baseline'])}.{_more_seeds(d)}")
    if (one := summary["one_image"]) is not None and one >= WORTH_SAYING:
        lines.append(f"One test image is worth {one:.2f} points: a smaller difference is less than one image a seed.")
    return lines


def sure(summary: dict[str, Any]) -> bool:
    """Whether every difference is clear, in one direction or the other."""
    found = [s["difference"] for s in summary["strategies"] if s["difference"] is not None]
    return bool(found) and all(
        d["interval"] is not None and not d["interval"][0] <= 0 <= d["interval"][1] for d in found
    )


def _more_seeds(difference: dict[str, Any]) -> str:
    """How many seeds would decide what these have not decided."""
    between, count = difference["interval"], difference["seeds_to_decide"]
    if difference["pairs"] < 2 or (between is not None and not between[0] <= 0 <= between[1]):
        return ""
    if count is None:
        return " No number of seeds that anybody would train is likely to decide it."
    return f" About {count} seeds would decide it, if the difference is what it seems (--seeds {count})."


def as_csv(summary: dict[str, Any]) -> str:
    """One line for each strategy; numbers in percent."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    papers = list(dict.fromkeys(data for s in summary["strategies"] for data in s["paper_error"]))
    metric, own = (f"{summary['split']}_{name}" for name in (summary["metric"], summary["own_metric"] or "own"))
    writer.writerow(
        ["label", "strategy", "runs", f"{metric}_mean", f"{metric}_std", "difference", "interval_low", "interval_high"]
        + [
            "wins",
            "pairs",
            f"train_{summary['metric']}",
            own,
            "seconds",
            "relative_time",
        ]
        + [f"paper_error_{data}" for data in papers]
    )
    for s in summary["strategies"]:
        d = s["difference"] or {"mean": None, "interval": None, "wins": None, "pairs": None}
        numbers = [s["mean"], s["std"], d["mean"], *(d["interval"] or (None, None)), d["wins"], d["pairs"]]
        numbers += [
            s["train"],
            s["own"],
            s["seconds"],
            s["relative_time"],
            *(s["paper_error"].get(data) for data in papers),
        ]
        shown = [f"{n:.4f}" if isinstance(n, float) else n for n in numbers]
        writer.writerow([s["label"], s["strategy"], s["runs"], *shown])
    return file.getvalue()


def as_markdown(summary: dict[str, Any]) -> str:
    """The table for a document."""
    return markdown([as_table(summary)])


def as_text(summary: dict[str, Any]) -> str:
    """The table for a terminal, and the answer in words below it."""
    return "\n".join([text([as_table(summary)]), "", *verdicts(summary)])


def _put(content: str, file: BinaryIO) -> None:
    file.write(content.encode())


def write(summary: dict[str, Any], output: Path, name: str) -> None:
    """The files of ``FILES``."""
    output.mkdir(parents=True, exist_ok=True)
    contents = {
        ".txt": as_text(summary) + "\n",
        ".json": json.dumps(summary, indent=1, ensure_ascii=False) + "\n",
        ".csv": as_csv(summary),
    }
    for ending, content in contents.items():
        write_atomically(output / f"{name}{ending}", partial(_put, content))
    write_atomically(output / f"{name}.png", lambda file: draw(summary).save(file, "PNG"))
