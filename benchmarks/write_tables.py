"""Write the tables of a benchmark into a document: python benchmarks/write_tables.py RESULT.json docs/performance.md

The document marks their place with the lines ``<!-- bench -->`` and ``<!-- /bench -->``; all else in it stays.
"""

from __future__ import annotations

import sys
from pathlib import Path

from marked_place import write_between_marks

from teachaugment.commands.bench.command import read, show

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_between_marks(Path(sys.argv[2]), "bench", show(read(sys.argv[1]), as_markdown=True))
