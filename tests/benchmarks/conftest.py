"""The scripts in benchmarks/ are no package: they find each other in their own folder, and tests find them there."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
