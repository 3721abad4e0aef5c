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
    header = ["strategy", f"{split} {metric}{chosen}, %", f"to {baseline}", "95 % interval", "wins"]
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
            found = f"{d['mean']:+.2f} points from {{0}} on one seed, which says little"
        elif d["interval"][0] > 0:
            found = f"better than {{0}} by {size}"
        elif d["interval"][1] < 0:
            found = f"worse than {{0}} by {size}"
        else:
            found = (
                f"not clearly different from {{0}}: {d['mean']:+.2f} points, by chance or not, on {d['pairs']} seeds"
            )
        lines.append(f"{s['label']} is {found.format(summary['baseline'])}.")
    return lines


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
