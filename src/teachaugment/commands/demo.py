"""``teachaugment demo``: a small network on built-in images, with and without its augmentation, side by side."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from teachaugment import strategies
from teachaugment.commands.parser import Parser
from teachaugment.config.flags import add_settings
from teachaugment.engine import directory
from teachaugment.terminal import print_text

EXAMPLES = """\
examples:
  teachaugment demo                      minutes on two cores; the same command shows it again
  teachaugment demo --epochs 10          any setting of teachaugment train
"""
USAGE = "teachaugment demo [--output DIR] [--FLAG VALUE ...]"
OUTPUT = "runs/demo"
BASELINE = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", metavar="DIR", default=OUTPUT, help=f"where both runs go [{OUTPUT}]")
    add_settings(parser, without=("output", "augment.strategy"))


def run(arguments: argparse.Namespace) -> int:
    from teachaugment.commands.compare import command as compare
    from teachaugment.commands.report import command as report

    parser = Parser(allow_abbrev=False)
    compare.add_arguments(parser)
    words = ["--strategies", f"{BASELINE},{strategies.DEFAULT}", "--seeds", "1", "--output", arguments.output]
    compared = parser.parse_args(words)
    compared.chosen = arguments.chosen
    if code := compare.run(compared):
        return code
    (learned,) = Path(arguments.output, "runs").glob(f"{strategies.DEFAULT}-seed0-*/")
    report.run(argparse.Namespace(runs=[str(learned)], output=None))  # once more: now the baseline is there
    summary = json.loads(Path(arguments.output, f"{compare.TABLE}.json").read_text(encoding="utf-8"))
    print_text(f"\n{sentence(summary['strategies'], learned)}")
    return 0


def sentence(found: list[dict[str, Any]], learned: Path) -> str:
    """Both accuracies, and where to look."""
    without, with_it = (strategy["mean"] for strategy in found)
    return (
        f"With its augmentation {with_it:.1f} % of the test images are right, without it {without:.1f} % (one "
        f"seed); augmented images are to be seen in {learned / directory.PICTURE}, all about it in "
        f"{learned / directory.REPORT}."
    )
