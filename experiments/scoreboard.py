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
from scoreboard_table import OURS, TUNED, by_strategy, mean_of, section

from teachaugment.commands.compare import rows as kept

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "scoreboard", HERE.parent / "docs" / "results.md"
PICTURE = HERE.parent / "docs" / "images" / "scoreboard.png"
BEGIN, END = "<!-- scoreboard: written by experiments/scoreboard.py -->", "<!-- end of the scoreboard -->"


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
    groups = {plan["settings"][name]["title"]: by_strategy(plan, rows) for name, rows in found.items()}
    drawn = draw({title: each for title, each in groups.items() if each[OURS].rows})
    if drawn is not None:
        drawn.save(PICTURE)
    in_place(PAGE, BEGIN, END, section(plan, found, f"images/{PICTURE.name}"))


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
    """First of all settings what matters most, then the rest; of RandAugment's magnitudes, on all seeds only the one
    that is best in the test of the first."""
    tuned = [label for label in plan["strategies"] if label.startswith(TUNED)]
    others = [label for label in plan["strategies"] if label not in (*plan["first"], *tuned)]

    def compare(name: str, labels: list[str], seeds: int | None = None) -> None:
        setting = plan["settings"][name]
        command = ["--strategies", ",".join(plan["strategies"][label] for label in labels)]
        command += ["--seeds", str(seeds or setting["seeds"]), *shlex.split(setting["flags"].format(data="."))]
        command += ["--results", str(RESULTS / f"{name}.jsonl"), "--output", str(output.resolve() / name)]
        run_compare(command, data)

    for name in wanted:
        compare(name, plan["first"])
    for name in wanted:
        compare(name, tuned, seeds=1)
        fitting = [label for label in others if label not in plan["settings"][name].get("without", [])]
        compare(name, [best_of_first_seed(plan, kept.read(RESULTS / f"{name}.jsonl")), *fitting])


def run_compare(flags: list[str], data: str) -> None:
    """In the folder of the data, so that rows name no folder and are the same wherever the data are."""
    command = [sys.executable, "-m", "teachaugment", "compare", "--jobs", "1", *flags]
    subprocess.run(command, check=True, cwd=data, env={**os.environ, "OMP_NUM_THREADS": "1"})


def best_of_first_seed(plan: dict[str, Any], found: list[kept.Row]) -> str:
    """The magnitude of RandAugment that is best in the test of seed 0."""
    first = by_strategy(plan, [row for row in found if row["seed"] == 0])
    return max((label for label in first if label.startswith(TUNED)), key=lambda label: mean_of(first[label]))


if __name__ == "__main__":
    main()
