"""What each part of the default's governor is worth, on data that no other table is measured on.

    python experiments/ablations.py DIR          # train what is missing; stop and start it as you like
    python experiments/ablations.py              # only the table of docs/results.md again

DIR has development.npz (experiments/development_split.py), digits-development (digits_development.py) and
lite0.safetensors. A variant is the default with other constants of ``governor.py``, or with other draws.
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


VARIANTS: dict[str, Callable[[], None]] = {
    DEFAULT: constants(),
    "rises whatever is mastered": constants(RATIO=-1, ASKED=-1),
    "does not ask for the augmented images": constants(RATIO=-1),
    "does not ask for the plain images": constants(ASKED=-1),
    "no plain images at the end": constants(FINISH=1e-9),
    "no faster first climb": constants(CLIMB=1),
    "a strength drawn for each image": drawn_strengths,
}
SETTINGS = {
    "shapes": "--data shapes:7 --data.per_class 50 --epochs 60 --train.eval_every 60",
    "sign digits": "--data {data}/digits-development --data.per_class 10 --data.val_fraction 0 --data.size 64 "
    "--augment.flip false --epochs 100 --train.eval_every 100 --channels-last true",
    "sign digits fine-tuned": "--data {data}/digits-development --data.per_class 5 --data.val_fraction 0 "
    "--data.size 112 --augment.flip false --model timm/tf_efficientnet_lite0 --weights {data}/lite0.safetensors "
    "--epochs 60 --train.eval_every 60 --channels-last true",
    "CIFAR-10": "--data {data}/development.npz --data.per_class 100 --data.val_fraction 0 --epochs 60 "
    "--train.eval_every 60 --channels-last true",
}
SEEDS = 3


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
            for seed in range(SEEDS):
                for variant in VARIANTS:
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
    row = {"setting": setting, "variant": variant, "seed": seed, "accuracy": metrics["test"]["target"]["accuracy"]}
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def section() -> str:
    """What the finished runs say, as Markdown."""
    found = rows()
    if not found:
        return "Nothing has been trained yet."

    def cells(variant: str, setting: str) -> list[str]:
        both = [
            (found[setting, variant, seed], found[setting, DEFAULT, seed])
            for seed in range(SEEDS)
            if (setting, variant, seed) in found and (setting, DEFAULT, seed) in found
        ]
        if not both:
            return ["–", "–"]
        mean, differences = statistics.mean(own for own, _ in both), [100 * (own - default) for own, default in both]
        value = f"{100 * mean:.1f}" + ("" if len(both) == SEEDS else f" ({len(both)} of {SEEDS} seeds)")
        if variant == DEFAULT:
            return [value, "–"]
        between = interval(differences)
        written = f" ({between[0]:+.1f} to {between[1]:+.1f})" if between else ""
        return [value, f"{statistics.mean(differences):+.1f}{written}"]

    tried = [variant for variant in VARIANTS if any(variant == key[1] for key in found)]
    table = [[variant, *(cell for setting in SETTINGS for cell in cells(variant, setting))] for variant in tried]
    header = ["", *(head for setting in SETTINGS for head in (setting, "difference"))]
    written = markdown([Table("", header, table, "")]).removeprefix("### \n\n").strip()
    return f"{written}\n\nTest accuracy in percent, seeds 0 to {SEEDS - 1}; paired differences with 95 % intervals."


if __name__ == "__main__":
    main()
