"""``teachaugment presets``: the experiments there are by name, each with its command, its number and its cost."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any

from teachaugment.terminal import print_text

EXAMPLES = """\
examples:
  teachaugment presets
  teachaugment presets --json                       with all settings
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    print_text(json.dumps(as_data(), indent=2) if arguments.json else as_text())
    return 0


def as_data() -> list[dict[str, Any]]:
    """Every preset of the table as plain data."""
    from teachaugment.presets import PRESETS

    return [
        {
            "name": preset.name,
            "command": preset.command,
            "paper": preset.paper,
            "cost": preset.cost,
            "gpus": preset.gpus,
            "description": preset.description,
            "settings": dict(preset.settings),
        }
        for preset in PRESETS.values()
    ]


def as_text() -> str:
    """The name of each preset with its description below it."""
    from teachaugment.presets import PRESETS

    lines = []
    for preset in PRESETS.values():
        lines.append(preset.name)
        lines += textwrap.wrap(preset.description, 110, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)
