"""The scoreboard: which way to augment is best where, and where the default is ahead of or behind doing nothing.

    python experiments/scoreboard.py DIR                         # train what is missing; stop and start it as you like
    python experiments/scoreboard.py DIR --only shapes,digits
    python experiments/scoreboard.py                             # only the table of docs/results.md again

``scoreboard.yaml`` has settings, strategies, seeds and budgets. Each setting is a ``teachaugment compare``, whose
finished runs are kept in ``experiments/results/scoreboard/``. One run at a time on one thread: on two cores, start two
with different settings.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from scoreboard_picture import draw

from teachaugment.commands.compare import rows as kept
from teachaugment.commands.compare.statistics import Group, summarize
from teachaugment.show.table import Table, markdown

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "scoreboard", HERE.parent / "docs" / "results.md"
PICTURE = HERE.parent / "docs" / "images" / "scoreboard.png"
BEGIN, END = "<!-- scoreboard: written by experiments/scoreboard.py -->", "<!-- end of the scoreboard -->"
OURS, NOTHING, RIVAL = "adaptive", "none", "TrivialAugment"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", metavar="DIR", help="where the data and weights of scoreboard.yaml are")
    parser.add_argument("--only", metavar="A,B,…", help="these settings only")
    parser.add_argument("--output", metavar="DIR", default="runs/scoreboard", help="where runs go [runs/scoreboard]")
    arguments = parser.parse_args()
    plan = board()
    if arguments.data is not None:
        wanted = arguments.only.split(",") if arguments.only else list(plan["settings"])
        train(plan, wanted, arguments.data, Path(arguments.output))
    found = {name: kept.read(RESULTS / f"{name}.jsonl") for name in plan["settings"]}
    drawn = draw({plan["settings"][name]["title"]: by_strategy(plan, rows) for name, rows in found.items()})
    if drawn is not None:
        drawn.save(PICTURE)
    in_place(PAGE, BEGIN, END, section(plan, found))


def board() -> dict[str, Any]:
    """Settings, strategies, seeds and budgets."""
    return yaml.safe_load((HERE / "scoreboard.yaml").read_text(encoding="utf-8"))


def in_place(page: Path, begin: str, end: str, text: str) -> None:
    """Put a text between two marks of a page."""
    written = page.read_text(encoding="utf-8")
    if begin not in written or end not in written:
        sys.exit(f"{page} has no lines {begin} and {end}")
    before, rest = written.split(begin)
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")


def train(plan: dict[str, Any], wanted: list[str], data: str, output: Path) -> None:
    """First of all settings what matters most, then the rest."""
    others = [name for name in plan["strategies"] if name not in plan["first"]]
    for strategies in (plan["first"], others):
        for name in wanted:
            setting = plan["settings"][name]
            chosen = ",".join(plan["strategies"][label] for label in strategies)
            command = [sys.executable, "-m", "teachaugment", "compare", "--strategies", chosen, "--jobs", "1"]
            command += ["--seeds", str(setting["seeds"]), *shlex.split(setting["flags"].format(data=data))]
            command += ["--results", str(RESULTS / f"{name}.jsonl"), "--output", str(output / name)]
            subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def section(plan: dict[str, Any], found: dict[str, list[kept.Row]]) -> str:
    """What the finished runs say, as Markdown."""
    rows, missing, dates, machines = [], [], set(), set()
    for name, setting in plan["settings"].items():
        dates |= {row["date"] for row in found[name]}
        machines |= {row["machine"] for row in found[name]}
        groups = by_strategy(plan, found[name])
        if any(len(groups[label].rows) < setting["seeds"] for label in plan["strategies"]):
            missing.append(setting["title"])
        if groups[NOTHING].rows and groups[OURS].rows:
            rows.append(row(setting["title"], groups))
    header = ["setting", "none", "Cutout", "RandAugment, best of three", RIVAL, "TeachAugment", f"**{OURS}**"]
    header += [f"{OURS} − none", f"{OURS} − {RIVAL}", "seeds"]
    about = f"Test metric in percent; paired differences with 95 % intervals. {', '.join(sorted(machines))}; "
    about += f"{min(dates)} to {max(dates)}." if dates else "nothing has been trained yet."
    if missing:
        about += f" Of {len(missing)} of the {len(plan['settings'])} settings not all runs are done yet."
    table = markdown([Table("", header, rows, "")]).removeprefix("### \n\n").strip()
    picture = f"![The means and intervals of this table](images/{PICTURE.name})"
    return f"{table}\n\n{picture}\n\n{about}\n"


def by_strategy(plan: dict[str, Any], found: list[kept.Row]) -> dict[str, Group]:
    return {
        label: Group(label, strategy, {row["seed"]: row for row in found if row["strategy"] == strategy})
        for label, strategy in plan["strategies"].items()
    }


def row(title: str, groups: dict[str, Group]) -> list[str]:
    there = {label: g for label, g in groups.items() if g.rows}
    shared = set.intersection(*({*g.rows} for g in there.values()))  # seeds that all have
    there = {label: Group(g.label, g.strategy, {seed: g.rows[seed] for seed in shared}) for label, g in there.items()}
    ordered = [there[NOTHING], *(g for label, g in there.items() if label != NOTHING)]
    means = {s["label"]: s for s in summarize(ordered)["strategies"]}
    randaugment = [s for label, s in means.items() if label.startswith("RandAugment")]
    best = max((s["mean"] for s in randaugment), default=None)

    def mean(label: str) -> str:
        return f"{means[label]['mean']:.1f}" if label in means else "–"

    return [
        title, mean(NOTHING), mean("Cutout"), "–" if best is None else f"{best:.1f}", mean(RIVAL), mean("TeachAugment"),
        f"**{mean(OURS)}**", against(there, NOTHING), against(there, RIVAL), str(len(there[OURS].rows)),
    ]  # fmt: skip


def against(groups: dict[str, Group], other: str) -> str:
    """How far the default is ahead of another strategy, in points."""
    if other not in groups or not groups[other].rows:
        return "–"
    difference = summarize([groups[other], groups[OURS]])["strategies"][1]["difference"]
    if difference is None:
        return "–"
    between = difference["interval"]
    return f"{difference['mean']:+.1f}" + (f" ({between[0]:+.1f} to {between[1]:+.1f})" if between else "")


if __name__ == "__main__":
    main()
