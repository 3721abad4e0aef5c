"""Settings as flags: one for each, by its long name and by the short one people know."""

from __future__ import annotations

import argparse
from collections.abc import Container
from typing import Any

from teachaugment import presets
from teachaugment.config.resolve import SETTINGS, Layer, read_yaml
from teachaugment.config.sections import TASK_DEFAULTS
from teachaugment.config.settings import as_text

KINDS = {bool: "true|false", int: "N", float: "X", str: "TEXT"}  # how the help shows a value
FEW = 5  # choices that stand beside their flag; more of them are listed below it


class Chosen(argparse.Action):
    """Remembers which flag gave a value, so that a message can name it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        namespace.chosen = {**namespace.chosen, self.dest: (option_string, values)}


def add_settings(parser: argparse.ArgumentParser, without: Container[str] = ()) -> None:
    """A flag for every setting: its long name, and the short one people know."""
    groups: dict[str, Any] = {"": parser.add_argument_group("run")}
    for key, setting in SETTINGS.items():
        if key in without:
            continue
        section = key.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        short, choices = setting.metadata["flag"], setting.metadata["choices"] or ()
        few = len(choices) <= FEW
        names = "" if few else f": {', '.join(choices)}"
        shown = as_text(setting.default) or "empty"
        for task, values in TASK_DEFAULTS.items():
            shown += f"; {task}: {as_text(values[key])}" if key in values else ""
        help = f"{setting.metadata['help']}{names} [{shown}]"
        options: dict[str, Any] = {"nargs": "?", "const": "true"} if setting.base is bool else {}
        groups[section].add_argument(
            *([f"--{short}"] if short and short != key else []),
            f"--{key}",
            dest=key,
            action=Chosen,
            default=argparse.SUPPRESS,
            metavar="|".join(choices or (KINDS[setting.base],)) if few else "NAME",
            help=help.replace("%", "%%"),
            **options,
        )
    parser.set_defaults(chosen={})


def flags_layer(chosen: dict[str, tuple[str, str]]) -> Layer:
    return Layer(
        {key: value for key, (_, value) in chosen.items()}, {key: option for key, (option, _) in chosen.items()}
    )


def given_layers(preset: str | None, file: str | None, chosen: dict[str, tuple[str, str]]) -> list[Layer]:
    """What a command line says about settings, the weakest first: preset, file, flags."""
    weak = [presets.layer(preset)] if preset else []
    return [*weak, *([read_yaml(file)] if file else []), flags_layer(chosen)]
