"""What the flags of all commands have in common: one-line complaints, two spellings, and whole numbers."""

from __future__ import annotations

import argparse
from typing import Any

from teachaugment.errors import UserError


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


def positive(text: str) -> int:
    """The type of a flag that counts something."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
