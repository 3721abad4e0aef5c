"""``teachaugment report``: the page of one run, or of several beside each other."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path

from teachaugment.config.resolve import flatten, to_dict
from teachaugment.engine import directory
from teachaugment.errors import UserError
from teachaugment.terminal import print_text

EXAMPLES = """\
examples:
  teachaugment report runs/RUN                        writes runs/RUN/report.html; a run does so itself when it ends
  teachaugment report runs/A runs/B -o compared.html  curves of several runs on one chart, and the settings that differ
"""
COMPARED = "comparison.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run directory; several are compared")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=f"the page [RUN/report.html; of several runs {COMPARED}]"
    )


def has_pictures(page: Path) -> bool:
    """Whether a page is there that shows images."""
    try:
        return b"data:image/" in page.read_bytes()
    except OSError:
        return False


def run(arguments: argparse.Namespace) -> int:
    paths = [directory.existing_run(name) for name in arguments.runs]
    from teachaugment.commands.report.record import read
    from teachaugment.commands.report.write import comparison, observe, other_data, report, save
    from teachaugment.engine import restore

    if len(paths) > 1:
        records = [read(path) for path in paths]
        if warning := other_data(records):
            warnings.warn(warning, stacklevel=2)
        written = save(comparison(records), Path(arguments.output or COMPARED))
    else:
        record, seen, classes, missing = read(paths[0]), None, [], ""
        try:
            config = directory.settings_of(paths[0])
            trainer, _ = restore.load_run(config, paths[0], keep_strategy=True)
            record = replace(record, settings=flatten(to_dict(trainer.config), ""))
            seen, classes = observe(trainer), trainer.data.classes
        except UserError as error:  # the images have gone, or there is no checkpoint yet
            missing = str(error)
        output = Path(arguments.output or paths[0] / directory.REPORT)
        if missing and has_pictures(output):
            kept = f"kept {output}, which has pictures; without them there would be a new page with -o FILE"
            print_text(f"{kept} ({missing})")
            return 0
        written = save(report(record, seen, classes, missing), output)
        if missing:
            print_text(f"without pictures: {missing}")
    print_text(f"{written}  {written.stat().st_size / 1e6:.1f} MB; open it in a browser")
    return 0
