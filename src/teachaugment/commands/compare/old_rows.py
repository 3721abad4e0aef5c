"""Rows of version 0.1, which kept the words of a command line (``flags``) where rows now keep ``settings``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teachaugment import data, tasks
from teachaugment.commands.compare.plan import BASE, shared_settings
from teachaugment.commands.parser import Parser, spelling
from teachaugment.config.flags import add_settings, given_layers
from teachaugment.config.resolve import EARLIER, Layer, default
from teachaugment.errors import UserError
from teachaugment.tasks import TASKS

MODEL = "cnn-4"  # whatever the size of the images
N_BUFFER = 10  # whatever the length of a training


def settings_of(flags: Sequence[str]) -> dict[str, Any]:
    """What such a row would keep today."""
    layers = read_words(flags)
    task = next((layer.values["task"] for layer in reversed(layers) if "task" in layer.values), tasks.DEFAULT)
    own = TASKS[task].defaults
    values = {**EARLIER, "teach.n_buffer": own.get("teach.n_buffer", N_BUFFER)}
    said = {key: value for layer in layers for key, value in layer.values.items()}
    path = str(said.get("data.path", default("data.path")))
    if data.find(path, data.CLASSES) == data.FOLDER:
        values["model.name"] = own.get("model.name", MODEL)
    elif not said.get("data.val_fraction"):
        del values["data.split_seed"]  # nothing was set apart
    return dict(shared_settings([BASE, Layer(values, {key: key for key in values}), *layers]).values)


def read_words(words: Sequence[str]) -> list[Layer]:
    """The settings in flags as they stood on a command line."""
    parser = Parser(allow_abbrev=False)
    parser.add_argument("--preset")
    add_settings(parser)
    found, rest = parser.parse_known_args([spelling(word) for word in words])
    if rest:
        raise UserError(f"unknown flag {rest[0]}")
    return given_layers(found.preset, None, found.chosen)
