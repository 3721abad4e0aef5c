"""``teachaugment evaluate``: the metrics of a run's target and teacher, on its own test split or on other images."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from teachaugment.engine import directory
from teachaugment.errors import UserError
from teachaugment.tasks import TASKS
from teachaugment.terminal import print_text, say

EXAMPLES = """\
examples:
  teachaugment evaluate runs/RUN
  teachaugment evaluate runs/RUN --data photos --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("--data", metavar="FOLDER", help="other images of the same classes; default: the run's own")
    parser.add_argument(
        "--checkpoint", choices=("last", "best"), default="last", help="best: chosen on the validation split"
    )
    parser.add_argument("--device", metavar="TEXT", help="default: the run's own setting")
    parser.add_argument("--workers", metavar="N", help="processes that read images from disk")
    parser.add_argument("--json", action="store_true", help="print all metrics as JSON")
    parser.add_argument("--output", metavar="FILE", help="write all metrics to this file as JSON")


def run(arguments: argparse.Namespace) -> int:
    path = directory.existing_run(arguments.run)
    config = directory.settings_of(path, arguments.device, arguments.workers)

    from teachaugment import distributed
    from teachaugment.engine import build, checkpoint, processes, restore

    with processes.session(build.device(config.device)):
        metrics = restore.evaluate_run(config, path, arguments.checkpoint, arguments.data)
        if distributed.is_main():
            show(metrics, arguments.json, arguments.output)
            if arguments.checkpoint == "last" and (path / checkpoint.BEST).exists():
                say("this is the last epoch; predict and export take the best by validation: --checkpoint best")
    return 0


def images_of(metrics: dict[str, Any]) -> str:
    """What the images are that were evaluated on."""
    if metrics["splits"] == ["test"]:
        return "test images"
    return f"images of {metrics['data']}" + (", most of which it was trained on" if metrics["trained_on"] else "")


def show(metrics: dict[str, Any], as_json: bool, output: str | None) -> None:
    """Print the metrics, and write them to the file ``output`` if there is one."""
    from teachaugment.show.results import result_lines

    text = json.dumps(metrics, indent=2)
    if output:
        try:
            Path(output).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write --output {output}: {error.strerror}") from None
    describe, images = TASKS.load(metrics["task"]).describe, images_of(metrics)
    lines = result_lines(metrics["test"], lambda result: describe(result, images))
    if "chosen" in metrics:
        lines.append(f"chosen   the {metrics['chosen']} of epoch {metrics['epoch']}, on the validation split")
    print_text(text if as_json else "\n".join(lines))
