"""Write the tables of a benchmark into a document: python benchmarks/write_tables.py RESULT.json docs/performance.md

The document marks their place with the lines ``<!-- bench -->`` and ``<!-- /bench -->``; all else in it stays.
"""

from __future__ import annotations

import sys
from pathlib import Path

from teachaugment.commands.bench.command import read, show

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


def main(result: str, document: str) -> None:
    path = Path(document)
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        sys.exit(f"{document} needs the lines {BEGIN} and {END} where the tables go")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{BEGIN}\n\n{show(read(result), True)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
