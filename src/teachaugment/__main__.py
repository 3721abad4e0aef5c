"""``python -m teachaugment`` is the command ``teachaugment``."""

from __future__ import annotations

import sys

from teachaugment.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
