"""Settings as flags: one for each, by its long name and by the short one people know."""

from __future__ import annotations

import argparse
from collections.abc import Container
from typing import Any

from teachaugment import presets
from teachaugment.config.defaults import other_defaults
from teachaugment.config.resolve import SETTINGS, Layer, read_yaml
from teachaugment.config.settings import Setting, as_text
from teachaugment.tables import Table
from teachaugment.tasks import TASKS

KINDS = {bool: "true|false", int: "N", float: "X", str: "TEXT"}  # how the help shows a value
FEW = 5  # choices that stand beside their flag; more of them are listed below it
Chosen = dict[str, tuple[str, str]]  # the key of a setting -> the flag that gave it, and its text


class RememberFlag(argparse.Action):
    """Remembers which flag gave a value, so that a message can name it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        namespace.chosen = {**namespace.chosen, self.dest: (option_string, values)}


def add_settings(parser: argparse.ArgumentParser, without: Container[str] = ()) -> None:
    """A flag for every setting: its long name, and the short one people know. Their values are in ``chosen``."""
    groups: dict[str, Any] = {"": parser.add_argument_group("run")}
    for key, setting in SETTINGS.items():
        if key in without:
            continue
        section = key.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        short = setting.metadata["flag"]
        options: dict[str, Any] = {"nargs": "?", "const": "true"} if setting.base is bool else {}
        groups[section].add_argument(
            *([f"--{short}"] if short and short != key else []),
            f"--{key}",
            dest=key,
            action=RememberFlag,
            default=argparse.SUPPRESS,
            metavar=metavar(setting),
            help=help_text(setting).replace("%", "%%"),
            **options,
        )
    parser.set_defaults(chosen={})


def choices_of(setting: Setting) -> tuple[str, ...]:
    """The names a setting may have: those of a tuple or of a table; none where it may be anything of its type."""
    return tuple(setting.metadata["choices"] or ())


def metavar(setting: Setting) -> str:
    """What stands beside the flag."""
    choices = choices_of(setting)
    return "NAME" if len(choices) > FEW else "|".join(choices) or KINDS[setting.base]


def help_text(setting: Setting) -> str:
    """What stands below the flag: the setting's help, its choices where there are many, and its defaults."""
    choices, table = choices_of(setting), setting.metadata["choices"]
    names = f": {', '.join(choices)}" if len(choices) > FEW else ""
    if isinstance(table, Table):  # which says of each of its names what it stands for
        names = ": " + ", ".join(f"{name} ({entry.help})" for name, entry in table.items())
    own = {task: entry.defaults for task, entry in TASKS.items() if setting.key in entry.defaults}
    tasks = [f"; {task}: {as_text(defaults[setting.key])}" for task, defaults in own.items()]
    tuned = other_defaults({"model.weights": "FILE"})
    if setting.key in tuned:
        tasks.append(f"; fine-tuning: {as_text(tuned[setting.key])}")
    return f"{setting.metadata['help']}{names} [{as_text(setting.default) or 'empty'}{''.join(tasks)}]"


def flags_layer(chosen: Chosen) -> Layer:
    """The settings that flags gave, each under the name of its flag."""
    return Layer({key: text for key, (_, text) in chosen.items()}, {key: flag for key, (flag, _) in chosen.items()})


def given_layers(preset: str | None, file: str | None, chosen: Chosen) -> list[Layer]:
    """What a command line says about settings, the weakest first: preset, file, flags."""
    weak = [presets.layer(preset)] if preset else []
    return [*weak, *([read_yaml(file)] if file else []), flags_layer(chosen)]
