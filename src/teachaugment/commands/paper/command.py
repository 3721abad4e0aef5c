"""The command's flags, and what it prints. Nothing slow is imported before they have been checked."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from teachaugment.commands.paper.items import SCALES, Item, chosen, table_file
from teachaugment.commands.parser import positive
from teachaugment.errors import UserError
from teachaugment.presets import PRESETS
from teachaugment.progress import duration
from teachaugment.show.table import Table, text
from teachaugment.terminal import print_text, say_here

if TYPE_CHECKING:
    from teachaugment.commands.compare.rows import Row
    from teachaugment.commands.paper.plan import Task

RESULTS = "experiments/results/paper"
USAGE = "teachaugment paper [--run [ITEM ...]] [--hours H] [--scale laptop|paper] [--data DIR] ..."
EXAMPLES = f"""\
examples:
  teachaugment paper                                     what there is, what has been measured, what is missing
  teachaugment paper --run --data data --hours 4         train what is missing, the most informative rows first
  teachaugment paper --run tab2 fig5 --data data         these only
  teachaugment paper --run --data data --data.root ~/.cache/teachaugment
                                                         CIFAR-10 from torchvision, downloaded if it is not there
  teachaugment paper --scale paper                       the same at full size: the commands, and what they cost

Stop it and give the same command again: finished runs are not repeated, others go on where they were. What has been
measured is kept as JSON lines in {RESULTS}, beside the page that is made of it: paper.html and paper.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(table_file()["items"])
    parser.add_argument("--run", metavar="ITEM", nargs="*", help=f"train what is missing of these, or of all: {names}")
    parser.add_argument("--hours", metavar="H", type=some_hours, default=math.inf, help="stop after so many hours")
    parser.add_argument("--scale", choices=SCALES, default=SCALES[0], help="small enough for a laptop, or full size")
    parser.add_argument("--data", metavar="DIR", default="data", help="the folder with the data sets [data]")
    parser.add_argument(
        "--data.root", metavar="DIR", dest="root", help="where torchvision's CIFAR-10 and CIFAR-100 are, or shall be"
    )
    parser.add_argument("--jobs", metavar="N", type=positive, help="runs side by side [one for each core]")
    parser.add_argument("--output", metavar="DIR", default="runs/paper", help="where runs go [runs/paper]")
    parser.add_argument("--results", metavar="DIR", default=RESULTS, help=f"rows, pictures and the page [{RESULTS}]")


def some_hours(text: str) -> float:
    """The type of --hours."""
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not hours > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours")
    return hours


def run(arguments: argparse.Namespace) -> int:
    asked = arguments.run is not None
    if not asked and (arguments.hours != math.inf or arguments.root or arguments.jobs):
        raise UserError("--hours, --data.root and --jobs are for training; add --run")
    items = chosen(arguments.run or (), arguments.scale)

    from teachaugment.commands.compare.command import cores
    from teachaugment.commands.paper import plan

    folder, results = Path(arguments.data).expanduser(), Path(arguments.results)
    file = results / f"{arguments.scale}.jsonl"
    jobs = arguments.jobs or (1 if arguments.scale == "paper" else cores())
    if asked and arguments.scale == "paper" and not has_gpu():
        raise UserError("full size is for GPUs; teachaugment paper --scale paper has the commands and their cost")
    if asked and arguments.root and arguments.scale == "laptop":
        from teachaugment.commands.paper.arrays import make_missing

        make_missing(folder, Path(arguments.root).expanduser())
    tasks = plan.tasks(items, folder, Path(arguments.output), arguments.root)
    done = plan.read_rows(file)
    code = 0
    if asked:
        code = train(tasks, done, file, Path(arguments.output), jobs, arguments.hours)
    if done:
        from teachaugment.commands.paper import figures, page

        everything = chosen((), arguments.scale)
        if asked:
            figures.make(everything, plan.tasks(everything, folder, Path(arguments.output)), results, arguments.scale)
        say_here(", ".join(map(str, page.write(everything, done, results, arguments.scale))))
    print_text(state(items, tasks, done, folder, jobs))
    if arguments.scale == "paper":
        print_text(commands(items))
    elif not asked:
        print_text("To go on: teachaugment paper --run --data DIR, with the data in DIR (docs/paper.md).")
    return code


def has_gpu() -> bool:
    from teachaugment.engine.build import device

    return device("auto").type != "cpu"


def train(tasks: Sequence[Task], done: dict[str, Row], file: Path, output: Path, jobs: int, hours: float) -> int:
    """The exit code."""
    from teachaugment.commands.paper import training

    missing = [task for task in tasks if task.key not in done]
    say_here(f"{len(missing)} of {len(tasks)} runs to train, {jobs} at a time, one thread each; in {output}")
    try:
        failures = training.train(tasks, done, file, output, jobs, hours)
    except KeyboardInterrupt:
        say_here("teachaugment: interrupted; the same command goes on from here")
        return 130
    for line in failures:
        say_here(f"teachaugment: failed: {line}")
    return 2 if failures else 0


def state(
    items: Mapping[str, Item],
    tasks: Sequence[Task],
    done: Mapping[str, Row],
    folder: Path,
    jobs: int,
) -> str:
    """Every table and figure with the rows that have been measured and the time that the others take, and below it what
    cannot be run here and why."""
    from teachaugment.commands.paper import plan

    lines, reasons, counted = [], dict[str, list[str]](), set[str]()
    longest = max(map(len, items))
    for item in items.values():
        whole, runs, rows = 0, 0, 0
        for place in item.places:
            for row in item.rows:
                if row.missing:
                    reasons.setdefault(row.missing, []).append(f"{item.name} {row.label}")
                    continue
                keys = [plan.row_key(row, place, item.scale, seed) for seed in item.seeds]
                there = sum(key in done for key in keys)
                rows, runs, whole = rows + 1, runs + there, whole + (there == len(keys))
                if there < len(keys) and (why := plan.reason(row, place, folder)):
                    reasons.setdefault(why, []).append(f"{item.name} {place.name}")
        own = [task for task in tasks if item.name in task.serves and task.key not in done]
        left = sum(plan.estimated(task, done) for task in own)
        counted |= {task.key for task in own}
        last = duration(left / jobs) if left else "–"
        name = f"{item.name:<{longest}}  {item.title}"
        lines.append([name, f"{whole} of {rows}", f"{runs} of {rows * len(item.seeds)}", str(len(own)), last])
    total = sum(plan.estimated(task, done) for task in tasks if task.key in counted) / jobs
    header = ["", "rows measured", "runs", "to train here", "takes"]
    told = [text([Table("The paper, measured: tables and figures", header, lines)]), ""]
    if total:
        told.append(f"All of it together, {len(counted)} runs: about {duration(total)}, {jobs} at a time.")
    for why, whom in reasons.items():
        told.append(f"not here: {', '.join(dict.fromkeys(whom))}: {why}")
    return "\n".join(told)


def commands(items: Mapping[str, Item]) -> str:
    """At full size: what each table costs, and how to train one preset of it."""
    lines = []
    for item in items.values():
        for place in item.places:
            if place.preset is None or not item.rows or item.picture:
                continue
            runs = len(item.seeds) * sum(not row.missing for row in item.rows)
            lines.append(
                f"{item.name}: teachaugment paper --run {item.name} --scale paper   {place.preset}: {runs} runs of "
                f"{PRESETS[place.preset].cost}"
            )
    return "\n".join(["", "At full size, with GPUs (the time is that of a step times their number):", *lines])
