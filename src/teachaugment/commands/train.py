"""``teachaugment train``: train a model, or go on with a run.

Nothing slow is imported before the settings have been checked.
"""

from __future__ import annotations

import argparse
import os
import textwrap
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from teachaugment.commands import COMMANDS
from teachaugment.config.flags import add_settings, given_layers
from teachaugment.config.resolve import Config, resolve
from teachaugment.config.unused import check_used
from teachaugment.engine import directory
from teachaugment.errors import UserError
from teachaugment.tasks import TASKS
from teachaugment.terminal import print_text, say, say_to_people

USAGE = "teachaugment train [PRESET] [--config FILE] [--resume RUN] [--FLAG VALUE | --SECTION.FIELD VALUE] ..."
EXAMPLES = """\
examples:
  teachaugment train
  teachaugment train --data photos --model wrn-16-2 --lr 0.1 --epochs 200 --seed 1
  teachaugment train cifar10-small --seed 1         a preset, with one setting changed
  teachaugment train --strategy none                the same training without TeachAugment
  teachaugment train --task segmentation            a class for every pixel, on generated images and masks
  teachaugment train --task simsiam                 features without labels; then: teachaugment linear runs/RUN
  teachaugment train --policy runs/RUN --data more  with what an earlier run learned, at the speed of plain training
  teachaugment train --config my.yaml --teach.replay false
  teachaugment train --resume runs/RUN --epochs 300

A folder of images holds one folder per class, or train/ and val/ or test/ with one folder per class in each. For
segmentation it holds images/ and masks/, with train/ and val/ or test/ in both or around both, or train/ and
trainannot/.
Settings come from the defaults, then the preset, then the file of --config, then the flags. Every setting has a
long name, --section.field; in the file it is written 'section: {field: value}'.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("preset", metavar="PRESET", nargs="?", help="an experiment by name; see teachaugment presets")
    parser.add_argument("--preset", dest="named", metavar="PRESET", help="the same as a flag")
    parser.add_argument("--config", metavar="FILE", help="settings in YAML")
    parser.add_argument("--resume", metavar="RUN", help="continue the run in this directory")
    parser.add_argument("--force", action="store_true", help="resume although settings or data are not the run's own")
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    config = settings(arguments)
    if not arguments.resume:
        directory.check_output(config)
    say_to_people(f"starting {config.model.name} on {config.data.path} …")  # what comes now takes seconds

    from teachaugment import distributed
    from teachaugment.commands.report.write import write_report
    from teachaugment.engine import build, lock, processes, restore
    from teachaugment.engine.interrupts import Interrupts, Stopped
    from teachaugment.engine.run import run

    path: Path | None = None
    try:
        with (
            Interrupts() as interrupts,
            processes.session(build.device(config.device), stopping=lambda: bool(interrupts.asked)),
            ExitStack() as locks,
        ):
            if arguments.resume:
                into = Path(config.output or "") if "output" in arguments.chosen else None
                processes.share(lambda: [locks.enter_context(lock.held(at)) for at in to_lock(arguments.resume, into)])
                trainer, path = restore.resume(config, Path(arguments.resume), into, arguments.force)
                say(f"continuing {path} after {build.how_far(trainer)}")
            else:
                trainer = build.build(config)
                path = processes.share(lambda: directory.create_run(trainer.config, locks))
            say(build.describe(trainer, path))
            metrics = run(trainer, path, interrupts, write_report)
            if distributed.is_main():
                print_text(outcome(config.task, metrics, path), needed=False)
    except Stopped as stopped:
        say(f"teachaugment: {stopped}" + (f"; continue with: teachaugment train --resume {path}" if path else ""))
        return stopped.code
    return 0


def to_lock(resumed: str, into: Path | None) -> list[Path]:
    """The directories that a resumed run writes, and the one that it copies, unless nobody can write that."""
    found = [Path(resumed)]
    if into is not None and into.resolve() != found[0].resolve():
        try:
            into.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write the run directory {into}: {error.strerror}") from None
        found = [into, *(path for path in found if os.access(path, os.W_OK))]
    return found


def settings(arguments: argparse.Namespace) -> Config:
    """The settings that the command line asks for; a resumed run's own are weaker than all that is said."""
    preset = arguments.preset or arguments.named
    if arguments.preset and arguments.named:
        raise UserError(f"two presets, {arguments.preset} and {arguments.named}; name one")
    if preset and arguments.resume:
        raise UserError(f"a resumed run has its settings; leave out the preset {preset}")
    layers = given_layers(preset, arguments.config, arguments.chosen)
    if arguments.resume:
        layers.insert(0, directory.whole_settings(directory.existing_run(arguments.resume)))
    config = resolve(*layers)
    check_used(config, layers[-1].names)
    return config


def outcome(task: str, metrics: dict[str, Any], path: Path) -> str:
    """What a person wants to know when a run has ended: results, what was learned, and which files there are."""
    from teachaugment.engine import checkpoint, snapshots
    from teachaugment.show.results import class_lines, result_lines, strength_lines

    entry, target = TASKS[task], metrics["test"]["target"]
    lines = ["", *result_lines(metrics["test"], TASKS.load(task).describe)]
    if "best" in metrics:
        best = metrics["best"]
        right = 100 * best["test"][best["model"]][entry.metric]
        lines.append(f"chosen   {right:5.1f} %, the {best['model']} of epoch {best['epoch']}, on the validation split")
    found = metrics.get("probabilities") or {}
    lines += strength_lines(found)
    odds = ", ".join(f"{name} {value:.2f}" for name, value in found.items() if name.startswith("p_"))
    lines += textwrap.wrap(odds, 110, initial_indent="learned  ", subsequent_indent=" " * 9)
    lines += ["", *class_lines(metrics["classes"], target.get(entry.class_metric, []), entry.class_words)]
    lines += ["", f"{path}/"]
    files = {
        directory.CONFIG: "every setting of this run",
        directory.LOG: "one line per epoch",
        directory.METRICS: "final metrics, per class too",
        checkpoint.LAST: f"the last epoch; train on with: teachaugment train --resume {path} --epochs N",
        checkpoint.PREVIOUS: "the one before it, in case that file is damaged",
        checkpoint.BEST: "the best epoch on the validation split",
        snapshots.FOLDER: "the augmenters of earlier epochs, which the checkpoints name",
        directory.POLICY: f"the augmentation; see it with: teachaugment preview {path} IMAGE",
        directory.CARD: "what it is, for those who get it",
        directory.REPORT: "curves, images through the epochs, what was learned: open it in a browser",
        directory.SECOND_POLICY: "that of the second view",
        directory.PICTURE: "originals beside augmented images",
        directory.PREDICTIONS: "test images, what is true of them and what the target makes of them",
        "tensorboard": f"curves; see them with: tensorboard --logdir {path}",
    }
    lines += [f"  {name:<19} {what}" for name, what in files.items() if (path / name).exists()]
    if entry.follow_up:
        lines += ["", f"{COMMANDS[entry.follow_up].help}: teachaugment {entry.follow_up} {path}"]
    if not entry.refused_predictions:
        lines += ["", f"use it on new images: teachaugment predict {path} FOLDER"]
    return "\n".join(lines)
