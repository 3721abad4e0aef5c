"""``teachaugment linear RUN``: what a linear classifier makes of a run's frozen features."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from teachaugment.engine import directory
from teachaugment.errors import UserError
from teachaugment.progress import progress
from teachaugment.terminal import print_text

if TYPE_CHECKING:
    from teachaugment.batch import Batch
    from teachaugment.engine.trainer import Trainer

EPOCHS, BATCH = 90, 4096  # of the protocol "simsiam"
CACHED_BYTES = 10**9  # of features: up to here they are kept, so that each image passes once
EXAMPLES = """\
examples:
  teachaugment linear runs/RUN
  teachaugment linear runs/RUN --protocol simsiam --batch-size 1024

Two protocols, of which 'auto' takes the first that suits the data:
  cached    each image passes once, unchanged; logistic regression on standardised features, fitted by L-BFGS with
            scikit-learn's default penalty. For images in memory whose features fit into a gigabyte.
  simsiam   random crops and flips, LARS, 90 epochs, batch 4,096, learning rate 0.1 for each 256 images, cosine.

Beside the target stand the teacher and the same network with its initial weights: what was learned is the difference.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("--protocol", choices=("auto", "cached", "simsiam"), default="auto", help="see below [auto]")
    parser.add_argument("--epochs", type=int, metavar="N", help=f"of the protocol simsiam [{EPOCHS}]")
    parser.add_argument("--batch-size", type=int, metavar="N", help=f"of the protocol simsiam [{BATCH}]")
    parser.add_argument("--lr", type=float, metavar="X", help="of the protocol simsiam [0.1 × batch size / 256]")
    parser.add_argument(
        "--checkpoint", choices=("last", "best"), default="last", help="best: chosen on the validation split"
    )
    parser.add_argument("--device", metavar="TEXT", help="default: the run's own setting")
    parser.add_argument("--workers", metavar="N", help="processes that read images from disk")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    path = directory.existing_run(arguments.run)
    for name in ("epochs", "batch_size", "lr"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            raise UserError(f"--{name.replace('_', '-')} must be above 0, not {value:g}")
        if value is not None and arguments.protocol == "cached":
            raise UserError(f"--{name.replace('_', '-')} is for --protocol simsiam")
    config = directory.settings_of(path, arguments.device, arguments.workers)

    from teachaugment.engine import restore
    from teachaugment.engine.features import features_of, untrained_features
    from teachaugment.files import write_atomically

    config, state, file = restore.checkpoint_of(config, path, arguments.checkpoint)
    trainer, name = restore.from_checkpoint(config, state, file, path)
    found = {name: features_of(network, trainer) for name, network in trainer.models().items()}
    found["untrained"] = untrained_features(trainer)
    networks = {model: trainer.precision.call(network) for model, (network, _) in found.items()}
    widths = {model: width for model, (_, width) in found.items()}
    protocol = arguments.protocol
    wanted = any(getattr(arguments, name) is not None for name in ("epochs", "batch_size", "lr"))
    if protocol == "auto":
        protocol = "simsiam" if wanted or not small(trainer, widths) else "cached"
    if protocol == "cached":
        settings: dict[str, Any] = {}
        results = cached(trainer, networks)
    else:
        size = min(arguments.batch_size or BATCH, len(trainer.data.train))
        settings = {"epochs": arguments.epochs or EPOCHS, "batch_size": size}
        settings["lr"] = arguments.lr or 0.1 * size / 256
        results = simsiam(trainer, networks, widths, **settings)
    about = {"run": str(path), "checkpoint": name, "epoch": trainer.epoch, "data": config.data.path}
    about |= {"strategy": config.augment.strategy, "task": config.task, "seed": config.seed}
    result = {**about, "protocol": protocol, **settings, "features": widths["target"], "test": results}
    text = json.dumps(result, indent=2) + "\n"
    write_atomically(path / directory.LINEAR, lambda file: file.write(text.encode()))
    print_text(text.rstrip() if arguments.json else "\n".join(lines(result)))
    return 0


def small(trainer: Trainer, widths: dict[str, int]) -> bool:
    """Whether the features of all images can be kept."""
    images = len(trainer.data.train) + len(trainer.data.test)
    return trainer.data.train.in_memory and 4 * images * sum(widths.values()) <= CACHED_BYTES


def cached(trainer: Trainer, networks: dict[str, Any]) -> dict[str, dict[str, Any]]:
    from teachaugment.engine import probe

    size = trainer.config.train.batch_size
    train, test = trainer.data.train, trainer.data.test
    return probe.cached(
        networks,
        progress(trainer.reference(None), -(-len(train) // size), "features of the training split", "batches"),
        progress(trainer.batches("test"), -(-len(test) // size), "features of the test split", "batches"),
        trainer.task.normalize,
        len(trainer.data.classes),
    )


def simsiam(
    trainer: Trainer, networks: dict[str, Any], widths: dict[str, int], epochs: int, batch_size: int, lr: float
) -> dict[str, dict[str, Any]]:
    from teachaugment import seeds
    from teachaugment.data.loader import batches
    from teachaugment.engine import probe

    data, config = trainer.data, trainer.config

    train = data.train.with_crops(probe.LEAST_AREA)

    def one_epoch(epoch: int) -> Iterable[Batch]:
        return batches(
            train,
            batch_size,
            seed=config.seed,
            epoch=epoch,
            shuffle=True,
            device=trainer.device,
            workers=config.data.workers,
            drop_last=True,
        )

    return probe.simsiam(
        networks,
        map(one_epoch, progress(range(epochs), epochs, "linear classifier", "epochs")),
        trainer.batches("test"),
        trainer.task.normalize,
        len(data.classes),
        widths=widths,
        steps=epochs * (len(data.train) // batch_size),
        lr=lr,
        cropped=train.cropped,
        generator=lambda step: seeds.generator(trainer.device, config.seed, "linear", step),
        at_once=config.train.batch_size,
    )


def lines(result: dict[str, Any]) -> list[str]:
    """What a person wants to know."""
    what = {
        "target": "",
        "teacher": "its moving average",
        "untrained": "the same network with its initial weights",
    }
    made = [
        f"{name:<10} {100 * r['accuracy']:5.1f} % of {r['images']:,} test images, top-5 {100 * r['top5']:.1f} %"
        + (f"   ({what[name]})" if what[name] else "")
        for name, r in result["test"].items()
    ]
    if result["protocol"] == "cached":
        how = "logistic regression on cached features"
    else:
        how = f"LARS, {result['epochs']} epochs, batch {result['batch_size']:,}, learning rate {result['lr']:g}"
    return [
        *made,
        f"linear classifier on {result['features']:,} frozen features: {how}; see {result['run']}/{directory.LINEAR}",
    ]
