"""What each part of the default's governor is worth, on data that no other table is measured on.

    python experiments/ablations.py DIR          # train what is missing; stop and start it as you like
    python experiments/ablations.py              # only the table of docs/results.md again

DIR has development.npz (experiments/development_split.py), wrong-labels.npz (wrong_labels.py, of that),
brightness-development.npz (brightness_classes.py, of that), digits-development (digits_development.py),
camvid-development (camvid_development.py), cells-development (cells_development.py) and lite0.safetensors. A variant is
the default with other constants of ``governor.py``. One run at a time: on two cores, start two with different settings.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from scoreboard import HERE, PAGE, in_place

from teachaugment import governor
from teachaugment.commands.cli import entry
from teachaugment.commands.compare.statistics import interval
from teachaugment.show.table import Table, markdown

RESULTS = HERE / "results" / "ablations.jsonl"
BEGIN, END = "<!-- ablations: written by experiments/ablations.py -->", "<!-- end of the ablations -->"
DEFAULT = "as it is"
VARIANT = "--variant"
VARIANTS: dict[str, dict[str, float]] = {
    DEFAULT: {},
    "the same strength for all operations": {"ARM_RATIO": -1},
    "does not ask for the augmented images": {"RATIO": -1},
    "does not ask for the plain images": {"ASKED": -1},
    "foresees nothing of them": {"FORESEEN": 2},
    "rises whatever is mastered": {"RATIO": -1, "ASKED": -1},
}
SETTINGS = {
    "shapes": "--data shapes:7 --data.per_class 50 --epochs 60 --train.eval_every 60",
    "sign digits": "--data {data}/digits-development --data.per_class 10 --data.val_fraction 0 --data.size 64 "
    "--augment.flip false --epochs 100 --train.eval_every 100 --channels-last true",
    "sign digits fine-tuned": "--data {data}/digits-development --data.per_class 5 --data.val_fraction 0 "
    "--data.size 112 --augment.flip false --model timm/tf_efficientnet_lite0 --weights {data}/lite0.safetensors "
    "--epochs 60 --train.eval_every 60 --channels-last true",
    "masks": "--task segmentation --data shapes:7 --data.per_class 10 --model unet-16 --epochs 100 "
    "--train.eval_every 100",
    "CamVid": "--task segmentation --data {data}/camvid-development --data.val_fraction 0 --data.ignore 11 "
    "--data.crop 128 --model unet-16-half --optim.schedule poly --epochs 80 --train.eval_every 80",
    "CIFAR-10": "--data {data}/development.npz --data.per_class 100 --data.val_fraction 0 --epochs 60 "
    "--train.eval_every 60 --channels-last true",
    "wrong labels": "--data {data}/wrong-labels.npz --data.per_class 100 --data.val_fraction 0 --epochs 60 "
    "--train.eval_every 60 --channels-last true",
    "brightness": "--data {data}/brightness-development.npz --data.val_fraction 0 --epochs 60 --train.eval_every 60 "
    "--channels-last true",
    "cells": "--task detection --data {data}/cells-development --bad-images skip --data.size 192 --epochs 24 "
    "--train.eval_every 24",
    "SimSiam": "--task simsiam --data {data}/development.npz --data.per_class 100 --data.val_fraction 0 --epochs 40 "
    "--train.eval_every 40 --channels-last true",
}
SEEDS = 3
# Where three left it open whether a part is worth anything: seeds of the settings, and of the variants that were close.
MORE = {"sign digits": 10, "masks": 6, "cells": 6, "brightness": 5}
CLOSE = (DEFAULT, "the same strength for all operations", "does not ask for the augmented images")


def main() -> None:
    if sys.argv[1:2] == [VARIANT]:  # a training of its own, which this script has started
        vars(governor).update(VARIANTS[sys.argv[2]])  # its constants are read when they are used
        del sys.argv[1:3]
        entry()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", metavar="DIR", help="where the data are")
    parser.add_argument("--only", metavar="A,B,…", help=f"these settings only, of {', '.join(SETTINGS)}")
    parser.add_argument("--output", metavar="DIR", default="runs/ablations", help="where runs go [runs/ablations]")
    arguments = parser.parse_args()
    if arguments.data is not None:
        for variant in VARIANTS:
            for setting in arguments.only.split(",") if arguments.only else SETTINGS:
                for seed in range(MORE.get(setting, SEEDS) if variant in CLOSE else SEEDS):
                    train(setting, variant, seed, arguments.data, Path(arguments.output))
    in_place(PAGE, BEGIN, END, section())


def rows() -> dict[tuple[str, str, int], float]:
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {(row["setting"], row["variant"], row["seed"]): row["accuracy"] for row in map(json.loads, lines)}


def train(setting: str, variant: str, seed: int, data: str, output: Path) -> None:
    if (setting, variant, seed) in rows():
        return
    run = output / f"{setting}-{variant}-{seed}".replace(" ", "-")
    shutil.rmtree(run, ignore_errors=True)  # one that was stopped
    flags = ["train", *shlex.split(SETTINGS[setting].format(data=data)), "--seed", str(seed), "--output", str(run)]
    command = [sys.executable, __file__, VARIANT, variant, *flags]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    tested = metrics["test"]["target"]
    row = {"setting": setting, "variant": variant, "seed": seed, "accuracy": tested[metrics["metric"]]}
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def section() -> str:
    """What the finished runs say, as Markdown."""
    found = rows()
    if not found:
        return "Nothing has been trained yet."

    def cell(variant: str, setting: str) -> str:
        own, default = (
            {seed: 100 * value for (of, name, seed), value in found.items() if (of, name) == (setting, which)}
            for which in (variant, DEFAULT)
        )
        both = own.keys() & default.keys()
        if not both:
            return "–"
        if variant == DEFAULT:
            return f"{statistics.mean(own.values()):.1f}"
        differences = [own[seed] - default[seed] for seed in both]
        between = interval(differences)
        return (
            f"{statistics.mean(differences):+.1f}"
            + (f" ({between[0]:+.1f} to {between[1]:+.1f})" if between else "")
            + (f", {len(both)} seeds" if len(both) != SEEDS else "")
        )

    trained = [setting for setting in SETTINGS if any((setting, DEFAULT, seed) in found for seed in range(SEEDS))]
    table = [[variant, *(cell(variant, setting) for setting in trained)] for variant in VARIANTS]
    written = markdown([Table("", ["", *trained], table, "")]).removeprefix("### \n\n").strip()
    note = "Test accuracy (masks, CamVid: mIoU; cells: mAP) in percent; below it, paired differences to it with 95 % "
    note += "intervals."
    note += f" {SEEDS} seeds of each, where nothing else is said; the first line is the mean of all seeds of a setting."
    if missing := [setting for setting in SETTINGS if setting not in trained]:
        note += f" Not trained yet: {', '.join(missing)}."
    return f"{written}\n\n{note}"


if __name__ == "__main__":
    main()
