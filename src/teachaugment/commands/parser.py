"""What the flags of all commands have in common: one-line complaints, two spellings, and whole numbers."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any

from teachaugment.errors import UserError

# What other programs call a flag of this one.
ELSEWHERE = {
    "optimizer": "--optim.name",
    "optimiser": "--optim.name",
    "opt": "--optim.name",
    "learningrate": "--lr",
    "scheduler": "--optim.schedule",
    "lrscheduler": "--optim.schedule",
    "wd": "--optim.weight_decay",
    "smoothing": "--optim.label_smoothing",
    "arch": "--model",
    "network": "--model",
    "batch": "--batch-size",
    "numepochs": "--epochs",
    "imgsize": "--data.size",
    "imagesize": "--data.size",
    "resolution": "--data.size",
    "numworkers": "--workers",
    "valsplit": "--val-fraction",
    "outputdir": "--output",
    "outdir": "--output",
    "gpu": "--device",
    "augmentation": "--strategy",
    "fp16": "--amp",
    "droppath": "--model.drop_path",
}


class Parser(argparse.ArgumentParser):
    """argparse, with its complaints as one line like all the others."""

    def error(self, message: str) -> Any:
        raise UserError(message)


def spelling(word: str) -> str:
    """``--batch_size`` as ``--batch-size`` and ``--teach.n-inner`` as ``--teach.n_inner``: both spellings are fine."""
    flag, equals, value = word.partition("=")
    if not flag.startswith("--"):
        return word
    name = flag[2:].replace("-", "_") if "." in flag else flag[2:].replace("_", "-")
    return f"--{name}{equals}{value}"


def flag_meant(flag: str, known: Sequence[str]) -> str | None:
    """The flag that somebody probably means who writes one that is not there."""
    word = plain(flag)
    if ELSEWHERE.get(word) in known:
        return ELSEWHERE[word]
    fields = {plain(name.rpartition(".")[2]): name for name in reversed(known)}  # the first of a name is the one meant
    if word in fields:
        return fields[word]
    close = difflib.get_close_matches(flag, known, n=1, cutoff=0.6)
    return close[0] if close else None


def plain(flag: str) -> str:
    """A name without the signs that people spell differently."""
    return "".join(letter for letter in flag.lower() if letter.isalnum())


def positive(text: str) -> int:
    """The type of a flag that counts something."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
