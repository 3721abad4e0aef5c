"""The scoreboard at equal time: every strategy gets as long as plain training takes, in fewer epochs if it is slower.

    python experiments/equal_time.py DIR                # train what is missing; stop and start it as you like
    python experiments/equal_time.py DIR --only shapes
    python experiments/equal_time.py                    # only the table of docs/results.md again

How much slower a strategy is comes from short trainings (a fifth of the epochs) that are made one after the other
before: its quickest by the quickest without augmentation. Those of the scoreboard were made on other days, beside other
programs. The default's strength is still zero in most of so short a training, so it counts as slow as at full strength
(``AT_FULL_STRENGTH``), or slower. A strategy that is no slower than none has the scoreboard's rows here too.
``equal_time`` in ``scoreboard.yaml`` names the settings.
"""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import Any

from scoreboard import HERE, PAGE, RESULTS, board, in_place, run_compare
from scoreboard_table import NOTHING, OURS, against, by_strategy, mean_of

from teachaugment.commands.compare import rows as kept
from teachaugment.commands.compare.statistics import Group
from teachaugment.show.table import Table, markdown

EQUAL = HERE / "results" / "equal-time"
SHORTER, TIMED = 5, 2  # times, and how many seeds of each strategy are timed
AT_FULL_STRENGTH = 1.06  # times plain training: the most that `bench --part training` has measured (performance.md)
BEGIN, END = "<!-- equal time: written by experiments/equal_time.py -->", "<!-- end of equal time -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", metavar="DIR", help="where the data and weights of scoreboard.yaml are")
    parser.add_argument("--only", metavar="A,B,…", help="these settings only")
    parser.add_argument("--output", metavar="DIR", default="runs/equal-time", help="where runs go [runs/equal-time]")
    arguments = parser.parse_args()
    plan = board()
    if arguments.data is not None:
        for name in arguments.only.split(",") if arguments.only else plan["equal_time"]:
            train(plan, name, arguments.data, Path(arguments.output))
    in_place(PAGE, BEGIN, END, section(plan))


def train(plan: dict[str, Any], name: str, data: str, output: Path) -> None:
    setting = plan["settings"][name]
    flags = shlex.split(setting["flags"].format(data="."))
    short = ["--strategies", ",".join(plan["strategies"][label] for label in plan["first"]), "--seeds", str(TIMED)]
    short += with_epochs(flags, epochs_of(setting) // SHORTER)
    run_compare([*short, "--results", str(costs_of(name)), "--output", str(output.resolve() / f"{name}-costs")], data)
    budget = budgets(plan, name)
    for label, epochs in budget.items():
        if epochs == budget[NOTHING]:
            continue
        command = ["--strategies", plan["strategies"][label]]
        command += ["--seeds", str(setting["seeds"]), *with_epochs(flags, epochs)]
        command += ["--results", str(EQUAL / f"{name}.jsonl"), "--output", str(output.resolve() / f"{name}-{label}")]
        run_compare(command, data)


def with_epochs(flags: list[str], epochs: int) -> list[str]:
    """The flags with other values of ``--epochs`` and, where it is the same, of ``--train.eval_every``."""
    return [
        str(epochs) if before in ("--epochs", "--train.eval_every") else flag
        for before, flag in zip(["", *flags[:-1]], flags, strict=True)
    ]


def epochs_of(setting: dict[str, Any]) -> int:
    found = re.search(r"--epochs (\d+)", setting["flags"])
    assert found is not None
    return int(found[1])


def costs_of(name: str) -> Path:
    """The rows of the short trainings of a setting."""
    return EQUAL / f"{name}-costs.jsonl"


def budgets(plan: dict[str, Any], name: str) -> dict[str, int]:
    """Epochs of each strategy in the time of those of none; empty before the short trainings."""
    groups = by_strategy(plan, kept.read(costs_of(name)))
    seconds = {
        label: min((row["train_seconds"] for row in groups[label].rows.values()), default=None)
        for label in plan["first"]
    }
    plain, epochs = seconds[NOTHING], epochs_of(plan["settings"][name])
    if plain is None:
        return {}
    if (ours := seconds[OURS]) is not None:
        seconds[OURS] = max(ours, AT_FULL_STRENGTH * plain)
    return {
        label: max(1, round(epochs * min(1.0, plain / found))) for label, found in seconds.items() if found is not None
    }


def section(plan: dict[str, Any]) -> str:
    """What the finished runs say, as Markdown."""
    rows = []
    for name in plan["equal_time"]:
        groups = rows_at_equal_time(plan, name)
        if all(groups[label].rows for label in plan["first"]):
            cells = [cell(groups[label]) for label in plan["first"]]
            rows.append(
                [plan["settings"][name]["title"], *cells, *(against(groups, o) for o in (NOTHING, "TrivialAugment"))]
            )
    if not rows:
        return "Nothing has been trained yet."
    header = ["setting, and epochs of none", *plan["first"], f"{OURS} − {NOTHING}", f"{OURS} − TrivialAugment"]
    table = markdown([Table("", header, rows, "")]).removeprefix("### \n\n").strip()
    return f"{table}\n\nTest metric in percent, in brackets the epochs; paired differences with 95 % intervals."


def rows_at_equal_time(plan: dict[str, Any], name: str) -> dict[str, Group]:
    """The rows of each strategy: those of the scoreboard for one that is no slower than none."""
    own, board = (by_strategy(plan, kept.read(folder / f"{name}.jsonl")) for folder in (EQUAL, RESULTS))
    budget = budgets(plan, name)
    as_long = [label for label in own if label in budget and budget[label] == budget[NOTHING]]
    return {label: board[label] if label in as_long else own[label] for label in own}


def cell(group: Group) -> str:
    if not group.rows:
        return "–"
    epochs = next(iter(group.rows.values()))["settings"]["train.epochs"]
    return f"{mean_of(group):.1f} ({epochs})"


if __name__ == "__main__":
    main()
