"""``python -m teachaugment`` is the command ``teachaugment``."""

from __future__ import annotations

from teachaugment.commands.cli import entry

if __name__ == "__main__":
    entry()
