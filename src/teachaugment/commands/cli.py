"""The command ``teachaugment``. Nothing slow is imported before the settings have been checked."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from teachaugment import __version__
from teachaugment.commands import explore, export, linear, preview
from teachaugment.commands.bench import command as bench
from teachaugment.commands.compare import command as compare
from teachaugment.commands.report import command as report
from teachaugment.config.flags import Parser, add_settings, given_layers, spelling
from teachaugment.config.resolve import Config, Layer, read_yaml, resolve
from teachaugment.errors import UserError, nearest

COMMANDS = (
    *("train", "evaluate", "linear", "compare", "export", "preview", "explore", "report", "bench"),
    *("models", "presets"),
)

OVERVIEW = """\
examples:
  teachaugment train                                train a small network on generated images, in minutes
  teachaugment train --data photos --epochs 100     train on your own folder of images
  teachaugment train cifar10-wrn-28-10              an experiment of the paper, by the name of its preset
  teachaugment train --help                         every setting
  teachaugment models, teachaugment presets         what there is by name
  teachaugment evaluate runs/RUN                    accuracy of a finished run
  teachaugment linear runs/RUN                      accuracy of a linear classifier on its features
  teachaugment compare --data photos --seeds 5      does it help on your images? Strategies side by side
  teachaugment report runs/RUN                      what it learned, on one page; several runs are compared
  teachaugment export runs/RUN                      what was learned, as files to take along
  teachaugment preview runs/RUN cat.jpg             your images beside what was learned makes of them
  teachaugment explore runs/RUN                     the same on a page, with sliders
  teachaugment bench                                what it costs on this machine
"""

TRAIN_EXAMPLES = """\
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
segmentation it holds images/ and masks/, with train/ and val/ or test/ in both or around both.
Settings come from the defaults, then the preset, then the file of --config, then the flags. Every setting has a
long name, --section.field; in the file it is written 'section: {field: value}'.
"""

EVALUATE_EXAMPLES = """\
examples:
  teachaugment evaluate runs/RUN
  teachaugment evaluate runs/RUN --data photos --json
"""


def make_parser() -> Parser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="teachaugment",
        description="Learns the data augmentation while a vision model trains.",
        epilog=OVERVIEW,
        formatter_class=raw,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"teachaugment {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    train = commands.add_parser(
        "train",
        help="train a model",
        usage="teachaugment train [PRESET] [--config FILE] [--resume RUN] [--FLAG VALUE | --SECTION.FIELD VALUE] ...",
        epilog=TRAIN_EXAMPLES,
        formatter_class=raw,
        allow_abbrev=False,
    )
    train.add_argument("preset", metavar="PRESET", nargs="?", help="an experiment by name; see teachaugment presets")
    train.add_argument("--preset", dest="named", metavar="PRESET", help="the same as a flag")
    train.add_argument("--config", metavar="FILE", help="settings in YAML")
    train.add_argument("--resume", metavar="RUN", help="continue the run in this directory")
    train.add_argument("--force", action="store_true", help="resume although settings or data are not the run's own")
    add_settings(train)
    evaluate = commands.add_parser(
        "evaluate", help="evaluate a run", epilog=EVALUATE_EXAMPLES, formatter_class=raw, allow_abbrev=False
    )
    evaluate.add_argument("run", metavar="RUN", help="a run directory")
    evaluate.add_argument("--data", metavar="FOLDER", help="other images of the same classes; default: the run's own")
    evaluate.add_argument(
        "--checkpoint", choices=("last", "best"), default="last", help="best: chosen on the validation split"
    )
    evaluate.add_argument("--device", metavar="TEXT", help="default: the run's own setting")
    evaluate.add_argument("--workers", metavar="N", help="processes that read images from disk")
    evaluate.add_argument("--json", action="store_true", help="print all metrics as JSON")
    evaluate.add_argument("--output", metavar="FILE", help="write all metrics to this file as JSON")
    compare.add_arguments(
        commands.add_parser(
            "compare",
            help="train strategies side by side, over seeds",
            usage=compare.USAGE,
            epilog=compare.EXAMPLES,
            formatter_class=raw,
            allow_abbrev=False,
        )
    )
    for name, command, what in (
        ("linear", linear, "train a linear classifier on a run's features"),
        ("export", export, "what a run has learned, as files to take along"),
        ("preview", preview, "images beside what a policy makes of them"),
        ("explore", explore, "the same on a page of this machine, with sliders"),
        ("report", report, "what a run did and learned, as a page"),
        ("bench", bench, "measure speed and memory"),
    ):
        command.add_arguments(
            commands.add_parser(name, help=what, epilog=command.EXAMPLES, formatter_class=raw, allow_abbrev=False)
        )
    for name, what in (("models", "networks"), ("presets", "experiments")):
        listed = commands.add_parser(name, help=f"list the {what} there are by name", allow_abbrev=False)
        listed.add_argument("--json", action="store_true", help="as JSON")
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        raise UserError(f"unknown command {argv[0]!r}{nearest(argv[0], COMMANDS)}")
    parser = make_parser()
    if not argv:
        parser.print_help()
        raise SystemExit(0)
    arguments, rest = parser.parse_known_args([spelling(word) for word in argv])
    if rest:
        flags = [word.partition("=")[0] for word in rest if word.startswith("-")]
        if not flags:
            raise UserError(f"unexpected argument {rest[0]!r}; see teachaugment {arguments.command} --help")
        known = parser._subparsers._group_actions[0].choices[arguments.command]._option_string_actions  # type: ignore
        hint = nearest(flags[0], [name for name in known if name.startswith("--")])
        short = hint if "did you mean" in hint else f"; see teachaugment {arguments.command} --help"
        raise UserError(f"unknown flag {flags[0]}{short}")
    return arguments


def run_train(arguments: argparse.Namespace) -> int:
    from teachaugment.engine import directory

    preset = arguments.preset or arguments.named
    if arguments.preset and arguments.named:
        raise UserError(f"two presets, {arguments.preset} and {arguments.named}; name one")
    if preset and arguments.resume:
        raise UserError(f"a resumed run has its settings; leave out the preset {preset}")
    layers = given_layers(preset, arguments.config, arguments.chosen)
    if arguments.resume:
        layers.insert(0, read_yaml(directory.existing_run(arguments.resume) / directory.CONFIG))
    config = resolve(*layers)
    if not arguments.resume:
        directory.check_output(config)

    from teachaugment import distributed
    from teachaugment.engine import build, processes, restore
    from teachaugment.engine.interrupts import Interrupts, Stopped
    from teachaugment.engine.run import run

    path: Path | None = None
    try:
        with (
            Interrupts() as interrupts,
            processes.session(build.device(config.device), stopping=lambda: bool(interrupts.asked)),
        ):
            if arguments.resume:
                into = Path(config.output or "") if "output" in arguments.chosen else None
                trainer, path = restore.resume(config, Path(arguments.resume), into, arguments.force)
                say(f"continuing {path} after {build.how_far(trainer)}")
            else:
                trainer = build.build(config)
                path = processes.share(lambda: directory.create_run(config))
            say(build.describe(trainer, path))
            metrics = run(trainer, path, interrupts)
            if distributed.is_main():
                print(outcome(config, metrics, path))
    except Stopped as stopped:
        say(f"teachaugment: {stopped}" + (f"; continue with: teachaugment train --resume {path}" if path else ""))
        return stopped.code
    return 0


def say(text: str) -> None:
    """On standard error, by the first of several processes; torchrun numbers them in RANK."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr, flush=True)


def run_list(arguments: argparse.Namespace) -> int:
    from teachaugment.commands import listing

    if arguments.command == "models":
        found = listing.models()
        print(json.dumps(found, indent=2) if arguments.json else listing.models_text(found))
    else:
        print(json.dumps(listing.presets(), indent=2) if arguments.json else listing.presets_text())
    return 0


def run_evaluate(arguments: argparse.Namespace) -> int:
    from teachaugment.engine import directory

    path = directory.existing_run(arguments.run)
    names = {"device": "--device", "data.workers": "--workers"}
    values = {"device": arguments.device, "data.workers": arguments.workers}
    given = {key: value for key, value in values.items() if value is not None}
    config = resolve(read_yaml(path / directory.CONFIG), Layer(given, names))

    from teachaugment import distributed
    from teachaugment.engine import build, processes, restore

    with processes.session(build.device(config.device)):
        metrics = restore.evaluate_run(config, path, arguments.checkpoint, arguments.data)
        if distributed.is_main():
            show_evaluation(metrics, arguments.json, arguments.output)
    return 0


def show_evaluation(metrics: dict[str, Any], as_json: bool, output: str | None) -> None:
    from teachaugment.commands import listing

    text = json.dumps(metrics, indent=2)
    if output:
        try:
            Path(output).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write --output {output}: {error.strerror}") from None
    print(text if as_json else "\n".join(listing.result_lines(metrics["test"])))


def outcome(config: Config, metrics: dict[str, Any], path: Path) -> str:
    """What a person wants to know when a run has ended."""
    from teachaugment.commands import listing
    from teachaugment.engine import checkpoint, directory

    lines = ["", *listing.result_lines(metrics["test"])]
    if "best" in metrics:
        best = metrics["best"]
        right = 100 * best["test"]["target"][metrics["metric"]]
        lines.append(f"best     {right:5.1f} %, target of epoch {best['epoch']}, chosen on the validation split")
    if metrics.get("probabilities"):
        shares = ", ".join(f"{name} {value:.2f}" for name, value in metrics["probabilities"].items())
        lines += textwrap.wrap(shares, 110, initial_indent="learned  ", subsequent_indent=" " * 9)
    lines += ["", *listing.class_lines(metrics["classes"], metrics["test"]["target"])]
    lines += ["", f"{path}/"]
    files = {
        directory.CONFIG: "every setting of this run",
        directory.LOG: "one line per epoch",
        directory.METRICS: "final metrics, per class too",
        checkpoint.LAST: f"the last epoch; train on with: teachaugment train --resume {path} --epochs N",
        checkpoint.PREVIOUS: "the one before it, in case that file is damaged",
        checkpoint.BEST: "the best epoch on the validation split",
        directory.POLICY: f"the augmentation; see it with: teachaugment preview {path} IMAGE",
        directory.CARD: "what it is, for those who get it",
        directory.REPORT: "curves, images through the epochs, what was learned: open it in a browser",
        directory.SECOND_POLICY: "that of the second view",
        directory.PICTURE: "originals beside augmented images",
        directory.PREDICTIONS: "test images, their masks and what the target makes of them",
        "tensorboard": f"curves; see them with: tensorboard --logdir {path}",
    }
    lines += [f"  {name:<19} {what}" for name, what in files.items() if (path / name).exists()]
    if "knn" in metrics["test"]["target"]:
        lines += ["", f"a linear classifier on these features: teachaugment linear {path}"]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, 2 after a mistake the user can put right, 130 after Ctrl-C, 143 after SIGTERM."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*decompression bomb")  # Pillow's: such an image is refused by name
        warnings.formatwarning = lambda message, *_, **__: f"teachaugment: warning: {message}\n"
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    try:
        arguments = parse(sys.argv[1:] if argv is None else list(argv))
        commands = {"train": run_train, "evaluate": run_evaluate, "linear": linear.run, "compare": compare.run}
        commands |= {
            "export": export.run,
            "preview": preview.run,
            "explore": explore.run,
            "report": report.run,
            "bench": bench.run,
        }
        return commands.get(arguments.command, run_list)(arguments)
    except UserError as error:
        say(f"teachaugment: error: {error}")
        return 2
    except KeyboardInterrupt:
        say("teachaugment: interrupted")
        return 130
