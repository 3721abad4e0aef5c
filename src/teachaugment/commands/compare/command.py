"""The command's flags and what it prints. Nothing slow is imported before they have been checked."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from teachaugment.commands.compare.comparisons import COMPARISONS, Comparison, Entry, entries, find
from teachaugment.commands.compare.plan import (
    BASE,
    Run,
    configure,
    identity,
    plan,
    shared_settings,
    split_strategies,
)
from teachaugment.commands.parser import positive
from teachaugment.config.flags import add_settings, given_layers
from teachaugment.config.resolve import Config, resolve
from teachaugment.engine.directory import short_name
from teachaugment.errors import UserError
from teachaugment.terminal import print_text, say_here, say_to_people

if TYPE_CHECKING:
    from teachaugment.commands.compare.rows import Row

SEEDS, MOST_UNTIL_SURE = 5, 10
STRATEGIES = "none,trivialaugment,teachaugment,adaptive"
RESULTS, TABLE = "results.jsonl", "table"  # files in the output directory
USAGE = "teachaugment compare [NAME] [--strategies A,B,…] [--seeds N] [--FLAG VALUE | --SECTION.FIELD VALUE] ..."
EXAMPLES = """\
examples:
  teachaugment compare --data photos --strategies none,trivialaugment,teachaugment --seeds 5 --epochs 100
  teachaugment compare --strategies none,teachaugment:teach.n_inner=1,teachaugment --data.per_class 50
  teachaugment compare objectives --data photos --seeds 3            a comparison of the paper
  teachaugment compare --data photos --until-sure --seeds 12         no more seeds than the answer needs
  teachaugment compare teachers --model wrn-16-1 --stronger wrn-16-2
  teachaugment compare --from runs/compare-photos-cnn-4/results.jsonl --markdown

For each seed all strategies have the same initial weights, data order and budget. A strategy may carry settings of its
own, after colons. Stop it and give the same command again: finished runs are not repeated, others go on where they
were. The first strategy is the one the others are compared to.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(COMPARISONS)
    parser.add_argument("name", metavar="NAME", nargs="?", help=f"a comparison of the paper: {names}")
    parser.add_argument("--strategies", metavar="A,B,…", help=f"what to compare, the baseline first [{STRATEGIES}]")
    parser.add_argument("--seeds", metavar="N", type=positive, help="runs of each strategy, from --seed on [5]")
    parser.add_argument(
        "--until-sure",
        action="store_true",
        help="seed by seed, and no more once every difference is clear; --seeds is the most [10]",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=positive, help="runs side by side [one on a GPU, one for each core]"
    )
    parser.add_argument("--output", metavar="DIR", help="where runs and tables go [a name under runs/]")
    parser.add_argument("--results", metavar="FILE", help=f"JSON lines of the finished runs [OUTPUT/{RESULTS}]")
    parser.add_argument("--from", metavar="FILE", dest="source", help="train nothing; the tables of a results file")
    parser.add_argument("--split", choices=("test", "val"), default="test", help="which metric the table shows [test]")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--stronger", metavar="MODEL", help="for the comparison teachers: the stronger network")
    parser.add_argument("--preset", metavar="PRESET", help="an experiment by name; see teachaugment presets")
    parser.add_argument("--config", metavar="FILE", help="settings in YAML")
    add_settings(parser, without=("output", "augment.strategy"))


def run(arguments: argparse.Namespace) -> int:
    named = find(arguments.name) if arguments.name else None
    if named and arguments.strategies:
        raise UserError(f"the comparison {arguments.name} has its strategies; leave out --strategies or the name")
    if arguments.stronger and not (named and named.stronger):
        raise UserError("--stronger belongs to the comparison teachers; write it as teachaugment compare teachers")
    return show(arguments, named) if arguments.source else train(arguments, named)


def train(arguments: argparse.Namespace, named: Comparison | None) -> int:
    """Train what is missing, then print and write the table."""
    layers = [BASE, *given_layers(arguments.preset, arguments.config, arguments.chosen)]
    config, shared = resolve(*layers), shared_settings(layers)
    wanted = wanted_entries(arguments, named, config.model.name)
    count = arguments.seeds or (MOST_UNTIL_SURE if arguments.until_sure else SEEDS)
    seeds: Sequence[int] = range(config.seed, config.seed + count)
    output = Path(arguments.output) if arguments.output else Path("runs") / f"compare-{short_name(config)}"
    runs = plan(shared, [entry.strategy for entry in wanted], seeds, output)
    results = Path(arguments.results) if arguments.results else output / RESULTS
    say_to_people(f"comparing {len(wanted)} strategies with {config.model.name} on {config.data.path} …")

    from teachaugment.commands.compare import report, rows, runner
    from teachaugment.commands.compare.display import ComparisonDisplay
    from teachaugment.commands.compare.statistics import CONFIDENCE, FEWEST, confidence_of_each
    from teachaugment.commands.compare.summary import summary_of

    jobs, threads = jobs_and_threads(config, arguments.jobs, len(runs))
    with runner.locked_directory(output) as lock:
        done = {key: row for row in rows.read(results) if (key := rows.key(row)) is not None}

        def keep(run: Run) -> None:
            done[run.key] = rows.collect(run, shared.values, threads)
            rows.append(results, done[run.key])

        for each in runs:
            if each.key not in done and rows.finished(each):
                keep(each)  # it ended, but was not noted any more
        needed = {each.needs for each in runs if each.key not in done}
        todo = [r for r in runs if r.key not in done or (r in needed and not rows.finished(r))]
        say_here(announcement(config, wanted, runs, todo, jobs, threads, output))
        stages, confidence = [seeds], CONFIDENCE
        if arguments.until_sure:
            stages = [seeds[:n] for n in range(min(FEWEST, count), count + 1)]
            confidence = confidence_of_each(len(stages))
        for stage in stages:
            some = [r for r in runs if r.seed in stage]
            try:
                display = ComparisonDisplay(some, done, jobs)
                runner.train_all([r for r in todo if r in some], jobs, threads, keep, display, lock)
            except KeyboardInterrupt:
                say_here("teachaugment: interrupted; the same command goes on from here")
                return 130
            todo = [r for r in todo if r not in some]
            summary = summary_of(wanted, shared, stage, done, named, arguments.split, confidence)
            if arguments.until_sure and report.sure(summary):
                break
        report.write(summary, output, arguments.name or TABLE)
    print_text(report.as_markdown(summary) if arguments.markdown else report.as_text(summary))
    say_here(f"\n{output}/")
    files = {f"{arguments.name or TABLE}{ending}": what for ending, what in report.FILES.items()}
    files |= {"runs": "the runs, each with its model, log and pictures"}
    files |= {RESULTS: "what is kept of each run"} if not arguments.results else {}
    say_here("\n".join(f"  {name:<14} {what}" for name, what in files.items()))
    return 0


def show(arguments: argparse.Namespace, named: Comparison | None) -> int:
    """The tables of a results file, one for each set of settings that its rows share."""
    from teachaugment.commands.compare import report, rows
    from teachaugment.commands.compare.summary import summary_of

    source = Path(arguments.source)
    found = rows.read(source)
    if not found:
        raise UserError(f"--from {source} {'has no rows' if source.exists() else 'does not exist'}")
    known = [(key, row) for row in found if (key := rows.key(row)) is not None]
    if len(known) < len(found):
        say_here(f"teachaugment: {len(found) - len(known)} rows have settings of another version")
    by_settings: dict[str, list[tuple[str, Row]]] = {}
    for key, row in known:
        by_settings.setdefault(identity(configure(rows.settings_layer(row), "none", 0)), []).append((key, row))
    for number, some in enumerate(by_settings.values()):
        shared = rows.settings_layer(some[0][1])
        written = dict.fromkeys(row["strategy"] for _, row in some)
        wanted = wanted_entries(arguments, named, resolve(shared).model.name, list(written))
        seeds = sorted({row["seed"] for _, row in some})
        summary = summary_of(wanted, shared, seeds, dict(some), named, arguments.split)
        shown = report.as_markdown(summary) if arguments.markdown else report.as_text(summary)
        print_text(f"\n{shown}" if number else shown)
        if arguments.output:
            name = arguments.name or TABLE
            report.write(summary, Path(arguments.output), f"{name}-{number + 1}" if len(by_settings) > 1 else name)
    return 0


def wanted_entries(
    arguments: argparse.Namespace, named: Comparison | None, model: str, found: Sequence[str] = ()
) -> list[Entry]:
    """The rows of the table: the comparison's, or those of --strategies, or of the strategies that were found."""
    if named is not None:
        return entries(named, model, arguments.stronger)
    if arguments.strategies or not found:
        found = split_strategies(arguments.strategies or STRATEGIES)
    return [Entry(strategy, strategy) for strategy in found]


def jobs_and_threads(config: Config, jobs: int | None, runs: int) -> tuple[int, int]:
    """Runs at a time, and threads of each: a GPU is for one run, a core of a CPU too. OMP_NUM_THREADS holds if set."""
    from teachaugment.engine.build import device

    jobs = jobs or (min(cores(), runs) if device(config.device).type == "cpu" else 1)
    given = os.environ.get("OMP_NUM_THREADS", "")
    return jobs, int(given) if given.isdigit() else max(1, cores() // jobs)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def announcement(
    config: Config, wanted: Sequence[Entry], runs: list[Run], todo: list[Run], jobs: int, threads: int, output: Path
) -> str:
    """What is going to happen."""
    seeds = len({run.seed for run in runs})
    before = f", {len(runs) - len(todo)} of them done before" if len(todo) < len(runs) else ""
    side = "one run at a time" if jobs == 1 else f"{jobs} runs side by side"
    return (
        f"{len(wanted)} strategies on {seeds} seed{'s' * (seeds > 1)}: {len(runs)} runs of {config.train.epochs} "
        f"epochs{before}; {side}, {threads} thread{'s' * (threads > 1)} each; in {output}"
    )
