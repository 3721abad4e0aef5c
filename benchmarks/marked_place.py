"""Writing into the middle of a document, between the lines ``<!-- NAME -->`` and ``<!-- /NAME -->``."""

from __future__ import annotations

import sys
from pathlib import Path


def write_between_marks(document: Path, name: str, content: str) -> None:
    """Replace what stands between the two marks; all else in the document stays."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found_begin, rest = document.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        sys.exit(f"{document} needs the lines {begin} and {end} where the tables go")
    document.write_text(f"{before}{begin}\n\n{content}\n\n{end}{after}", encoding="utf-8")
