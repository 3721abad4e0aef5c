"""What each part of the default's governor is worth, on data that no other table is measured on.

    python experiments/ablations.py DIR          # train what is missing; stop and start it as you like
    python experiments/ablations.py              # only the table of docs/results.md again

DIR has development.npz (experiments/development_split.py), digits-development (digits_development.py),
camvid-development (camvid_development.py) and lite0.safetensors. A variant is the default with other constants of
``governor.py``, with other draws, or with one of the two parts that were in it and have been taken out because of this
table.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from scoreboard import HERE, PAGE, in_place

from teachaugment import governor
from teachaugment.augment.one_operation import Draw, OneOperation
from teachaugment.commands.cli import entry
from teachaugment.commands.compare.statistics import interval
from teachaugment.governor import Governor
from teachaugment.show.table import Table, markdown

RESULTS = HERE / "results" / "ablations.jsonl"
BEGIN, END = "<!-- ablations: written by experiments/ablations.py -->", "<!-- end of the ablations -->"
DEFAULT = "as it is"
VARIANT = "--variant"


def constants(**values: float) -> Callable[[], None]:
    """Another governor: its constants are read when they are used."""
    return lambda: vars(governor).update(values)


def drawn_strengths() -> None:
    """Each image is changed by a strength between zero and the governor's, not by all of it."""
    sample = OneOperation.sample

    def weaker(self: OneOperation, n: int, context: Any = None, generator: Any = None, snapshots: Any = None) -> Draw:
        drawn = sample(self, n, context, generator, snapshots)
        return drawn._replace(strength=drawn.strength * torch.rand(n, generator=generator, device=self.device))

    OneOperation.sample = weaker  # type: ignore[method-assign]


def faster_first_climb() -> None:
    """Until a condition fails for the first time, the strength rises three times as fast."""
    decide = Governor.decide

    def faster(self: Governor, plain: float, augmented: float) -> None:
        before = self.strength
        decide(self, plain, augmented)
        if before > 0 and min(self.margins()) < 0:
            vars(self)["failed"] = True
        if "failed" not in vars(self):
            self.strength = min(1.0, before + 3 * (self.strength - before))

    Governor.decide = faster  # type: ignore[method-assign]


def plain_at_the_end() -> None:
    """In the last tenth of the training the strength goes to zero."""
    step, last = Governor.step, 0.1

    def falling(self: Governor, ask: Callable[[], tuple[torch.Tensor, torch.Tensor]]) -> None:
        ends = self.progress > 1 - last
        step(self, ask)
        if not ends:
            vars(self)["found"] = self.strength
        self.strength = vars(self)["found"] * min(1.0, (1 - self.progress) / last)

    Governor.step = falling  # type: ignore[method-assign]


def both_of_these() -> None:
    faster_first_climb()
    plain_at_the_end()


CONDITIONS = {
    "rises whatever is mastered": constants(RATIO=-1, ASKED=-1),
    "does not ask for the augmented images": constants(RATIO=-1),
    "does not ask for the plain images": constants(ASKED=-1),
}
BOTH = "with both of these"
VARIANTS: dict[str, Callable[[], None]] = {
    DEFAULT: constants(),
    **CONDITIONS,
    "a strength drawn for each image": drawn_strengths,
    "with a faster first climb": faster_first_climb,
    "with plain images at the end": plain_at_the_end,
    BOTH: both_of_these,
}
MASKS, CAMVID = "masks", "CamVid"
SETTINGS = {
    "shapes": "--data shapes:7 --data.per_class 50 --epochs 60 --train.eval_every 60",
    "sign digits": "--data {data}/digits-development --data.per_class 10 --data.val_fraction 0 --data.size 64 "
    "--augment.flip false --epochs 100 --train.eval_every 100 --channels-last true",
    "sign digits fine-tuned": "--data {data}/digits-development --data.per_class 5 --data.val_fraction 0 "
    "--data.size 112 --augment.flip false --model timm/tf_efficientnet_lite0 --weights {data}/lite0.safetensors "
    "--epochs 60 --train.eval_every 60 --channels-last true",
    MASKS: "--task segmentation --data shapes:7 --data.per_class 10 --model unet-16 --epochs 100 "
    "--train.eval_every 100",
    CAMVID: "--task segmentation --data {data}/camvid-development --data.val_fraction 0 --data.ignore 11 "
    "--data.crop 128 --model unet-16-half --optim.schedule poly --epochs 80 --train.eval_every 80",
    "CIFAR-10": "--data {data}/development.npz --data.per_class 100 --data.val_fraction 0 --epochs 60 "
    "--train.eval_every 60 --channels-last true",
}
SEEDS, MORE = 3, 5  # of a variant; of the two between which was decided


def main() -> None:
    if sys.argv[1:2] == [VARIANT]:  # a training of its own, which this script has started
        VARIANTS[sys.argv[2]]()
        del sys.argv[1:3]
        entry()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", metavar="DIR", help="where the data are")
    parser.add_argument("--only", metavar="A,B,…", help=f"these settings only, of {', '.join(SETTINGS)}")
    parser.add_argument("--output", metavar="DIR", default="runs/ablations", help="where runs go [runs/ablations]")
    arguments = parser.parse_args()
    if arguments.data is not None:
        for setting in arguments.only.split(",") if arguments.only else SETTINGS:
            for seed in range(MORE):
                for variant in VARIANTS:
                    if seed < seeds_of(variant, setting):
                        train(setting, variant, seed, arguments.data, Path(arguments.output))
    in_place(PAGE, BEGIN, END, section())


def seeds_of(variant: str, setting: str) -> int:
    """How many a setting has of a variant; those with masks have not all of them."""
    if setting == CAMVID:
        return SEEDS if variant in (DEFAULT, *CONDITIONS) else 0
    if variant in (DEFAULT, BOTH):
        return MORE
    return SEEDS if setting != MASKS or variant in CONDITIONS else 0


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
    row = {"setting": setting, "variant": variant, "seed": seed, "accuracy": tested.get("accuracy", tested.get("miou"))}
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
        missing = seeds_of(variant, setting) - len(both)
        return (
            f"{statistics.mean(differences):+.1f}"
            + (f" ({between[0]:+.1f} to {between[1]:+.1f})" if between else "")
            + (f", {missing} seeds missing" if missing else "")
        )

    table = [
        [variant, *(cell(variant, setting) for setting in SETTINGS), str(seeds_of(variant, "shapes"))]
        for variant in VARIANTS
    ]
    written = markdown([Table("", ["", *SETTINGS, "seeds"], table, "")]).removeprefix("### \n\n").strip()
    note = "Test accuracy (masks, CamVid: mIoU) in percent; below it, paired differences to it with 95 % intervals."
    note += f" CamVid has {SEEDS} seeds of all."
    return f"{written}\n\n{note}"


if __name__ == "__main__":
    main()
