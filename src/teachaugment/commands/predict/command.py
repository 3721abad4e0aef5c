"""``teachaugment predict``: class and probability of images, or a mask of each, by the network of a run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from teachaugment.commands.parser import positive
from teachaugment.commands.predict import inputs, outputs
from teachaugment.commands.predict.inputs import Input
from teachaugment.commands.predict.outputs import Row
from teachaugment.engine import directory
from teachaugment.progress import progress, say
from teachaugment.terminal import print_text

if TYPE_CHECKING:
    from teachaugment.data.files import Unlabelled
    from teachaugment.engine.trained import TrainedModel
    from teachaugment.tasks.prediction import Prediction

MASKS = "predictions"  # the folder of masks, unless --output names another
UNREADABLE = 1  # the exit code where images were left out
EXAMPLES = """\
examples:
  teachaugment predict runs/RUN cat.jpg dog.jpg              a line for each image
  teachaugment predict runs/RUN photos --output photos.csv   also .json and .jsonl; --top 3 for three classes of each
  find . -name '*.jpg' | teachaugment predict runs/RUN - --output found.jsonl

Images are read as in the run's evaluation. Where a folder has folders with the names of the run's classes, the share
of right answers is said at the end. The run's best epoch is used where there is one, otherwise its last.

Of a run that learned masks, a mask of each image is written too: a PNG whose values are the numbers of the classes,
with their names and colours in classes.txt beside it. They are in predictions/, or with --output photos.csv in photos/.
Of a run that learned boxes, .json and .jsonl have all boxes of an image, in its pixels, with their scores.

An image that cannot be read is named and left out, and the exit code is 1 then.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument(
        "images",
        metavar="IMAGE|FOLDER|-",
        nargs="+",
        help="images, folders of them, -: their paths from standard input",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="a table: FILE.csv, FILE.json or FILE.jsonl")
    parser.add_argument("--top", metavar="K", type=positive, help="classes of each image [1; with masks 3]")
    parser.add_argument(
        "--checkpoint", choices=("last", "best"), help="best: chosen on the validation split [best where there is one]"
    )
    parser.add_argument(
        "--which", choices=("target", "teacher"), help="teacher: the moving average [the better one, if known]"
    )
    parser.add_argument("--batch-size", metavar="N", type=positive, help="images at once [the run's own setting]")
    parser.add_argument("--device", metavar="TEXT", help="default: the run's own setting")
    parser.add_argument("--workers", metavar="N", help="processes that read images from disk")


def run(arguments: argparse.Namespace) -> int:
    path = directory.existing_run(arguments.run)
    config = directory.settings_of(path, arguments.device, arguments.workers)
    output = Path(arguments.output) if arguments.output else None
    if output is not None:
        outputs.check(output)

    from teachaugment.data.files import Unlabelled
    from teachaugment.engine.trained import load_trained
    from teachaugment.files import write_atomically

    model = load_trained(config, path, arguments.checkpoint, arguments.which)
    images = inputs.find(arguments.images, sys.stdin, model.task)
    folder = (output.with_suffix("") if output else Path(MASKS)) if model.task.predicts_pictures else None
    files = outputs.picture_files(images, folder) if folder else None
    split = Unlabelled.of([image.file for image in images], model.preparation)
    size = arguments.batch_size or model.batch_size
    answers = in_order(model, split, size, config.data.workers)
    if output or not sys.stdout.isatty():  # lines on a terminal show by themselves how far it is
        answers = progress(answers, len(images), "predicting", "images")
    first = next(answers, None)
    if first is None:
        return left_out(split)
    network = f"{model.name}, the {model.which} of epoch {model.epoch} ({model.file.name})"
    say(f"{network}: {len(images):,} image(s), {len(model.classes)} classes, {model.device}")
    if folder:
        outputs.write_classes(folder, model.classes, first[1])
    count = min(arguments.top or first[1].shown, len(model.classes))
    tally = Tally(rows(chain([first], answers), images, files, count))
    if output:
        labelled = any(image.true_class is not None for image in images)
        about = output.suffix.lower(), count, labelled, folder is not None
        write_atomically(output, lambda opened: outputs.write_table(opened, tally, *about))
        print_text(f"{output}  {tally.images:,} image(s)")
    else:
        for line in outputs.lines(tally, images):
            print_text(line)
    if folder:
        print_text(f"{folder}/  a mask of each image, and the names of the classes in {outputs.CLASS_FILE}")
    if tally.known:
        share = f"{100 * tally.right / tally.known:.1f} %"
        say(f"{share} right: {tally.right:,} of the {tally.known:,} images whose folder names a class")
    return left_out(split)


def left_out(split: Unlabelled) -> int:
    """Name the images that could not be read, now that no bar is in the way; the exit code."""
    for message in split.skipped:
        say(f"skipped: {outputs.printable(message)}")
    if split.skipped and len(split) > 1:
        say(f"{len(split.skipped):,} of {len(split):,} images could not be read")
    return UNREADABLE if split.skipped else 0


def in_order(model: TrainedModel, split: Unlabelled, size: int, workers: int) -> Iterator[tuple[int, Prediction]]:
    """The predictions in the order of the images, each with its image's number; those of unreadable images are missing.

    Of a batch with images of several sizes those of one size come together, and have to be put back.
    """
    from teachaugment.data.loader import batches

    def predicted() -> Iterator[tuple[int, Prediction]]:
        for batch in batches(split, size, seed=0, epoch=0, shuffle=False, device=model.device, workers=workers):
            assert batch.index is not None
            yield from zip(batch.index.tolist(), model.predict_batch(batch.image), strict=True)

    for _, together in groupby(predicted(), key=lambda pair: pair[0] // size):
        yield from sorted(together, key=lambda pair: pair[0])


def rows(
    answers: Iterator[tuple[int, Prediction]], images: Sequence[Input], files: Sequence[Path] | None, count: int
) -> Iterator[Row]:
    """A row for each prediction, whose picture is written where there is one."""
    for i, prediction in answers:
        if files is not None:
            outputs.write_picture(files[i], prediction)
        picture = None if files is None else str(files[i])
        yield Row(images[i], prediction.number, prediction.top(count), picture, prediction.more())


class Tally:
    """Rows on their way, and how many there have been, of known class, and right."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self.rows, self.images, self.known, self.right = rows, 0, 0, 0

    def __iter__(self) -> Iterator[Row]:
        for row in self.rows:
            self.images += 1
            self.known += row.right is not None
            self.right += row.right is True
            yield row
