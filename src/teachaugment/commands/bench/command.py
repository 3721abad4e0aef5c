"""The command's flags and what it prints. Nothing slow is imported before they have been checked."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from teachaugment.commands.bench.plan import PARTS, Plan
from teachaugment.commands.parser import positive
from teachaugment.errors import UserError
from teachaugment.terminal import print_text, say_here

EXAMPLES = """\
examples:
  teachaugment bench                                everything, half an hour on two cores
  teachaugment bench --part training --model wrn-28-10 --repeats 5
  teachaugment bench --json bench.json              keep the numbers
  teachaugment bench --from bench.json --markdown   the tables of earlier numbers, for a document
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    models = ",".join(plan.models)
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all", help="what to measure [all]")
    parser.add_argument("--model", metavar="NAMES", default=models, help=f"for the training part, by commas [{models}]")
    for flag, value, help in (
        ("--batch-size", plan.batch_size, "images in a batch"),
        ("--size", plan.size, "height and width of the images"),
        ("--repeats", plan.repeats, "rounds; quick measurements get more"),
    ):
        parser.add_argument(flag, metavar="N", type=positive, default=value, help=f"{help} [{value}]")
    parser.add_argument("--device", metavar="TEXT", help="default: the accelerator if there is one")
    parser.add_argument("--json", metavar="FILE", nargs="?", const="-", help="write all numbers; -: to standard output")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--from", metavar="FILE", dest="source", help="show the numbers of an earlier --json instead")


def run(arguments: argparse.Namespace) -> int:
    if arguments.json and arguments.json != "-" and not Path(arguments.json).resolve().parent.is_dir():
        raise UserError(f"cannot write --json {arguments.json}: its folder does not exist")  # said before, not after
    results = read(arguments.source) if arguments.source else _measure(arguments)
    shown = show(results, arguments.markdown)
    if arguments.json == "-":
        say_here(shown)
        print_text(json.dumps(results, indent=1))
        return 0
    if arguments.json:
        try:
            Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            print_text(shown)
            raise UserError(f"cannot write --json {arguments.json}: {error.strerror}") from None
    print_text(shown)
    return 0


def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # the profiler warns of tensors older than itself
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # and that there is no GPU
    import torch

    from teachaugment.commands.bench.measure import choose_device, measure
    from teachaugment.models import create

    models = tuple(name.strip() for name in arguments.model.split(",") if name.strip())
    with torch.device("meta"):
        for name in models:
            create(name, Plan.classes)  # an unknown name is an error now, not after the first minutes
    try:
        torch.empty(1, device=choose_device(arguments.device))
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(f"cannot use --device {arguments.device!r}; for example cpu, cuda, cuda:1, mps") from None
    return measure(
        Plan(
            parts=PARTS if arguments.part == "all" else (arguments.part,),
            models=models,
            batch_size=arguments.batch_size,
            size=arguments.size,
            repeats=arguments.repeats,
            device=arguments.device,
        )
    )


def read(name: str) -> dict[str, Any]:
    try:
        results = json.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read --from {name}: {error.strerror}") from None
    except ValueError:
        raise UserError(f"--from {name} is not JSON; it must be a file that teachaugment bench --json wrote") from None
    if not isinstance(results, dict) or not {"machine", "plan", "targets"} <= results.keys():
        raise UserError(f"--from {name} holds other data; it must be a file that teachaugment bench --json wrote")
    return results


def show(results: dict[str, Any], as_markdown: bool) -> str:
    from teachaugment.commands.bench.tables import tables
    from teachaugment.show import table

    return (table.markdown if as_markdown else table.text)(tables(results))
