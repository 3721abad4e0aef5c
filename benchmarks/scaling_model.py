"""Write the cost model's tables into a document: python benchmarks/scaling_model.py docs/scaling.md

The document marks their place with the lines ``<!-- model -->`` and ``<!-- /model -->``; all else in it stays. Without
a document the tables are printed. It takes a minute: it counts, and measures one number, how fast a core decodes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from teachaugment.commands.bench.cluster import Machine, tables
from teachaugment.commands.bench.counts import count, decode_rate
from teachaugment.show.table import markdown, text

NETWORKS = ("resnet-50", "torchvision/vit_l_16", "torchvision/vit_h_14")
BEGIN, END = "<!-- model -->", "<!-- /model -->"


def main(document: str | None = None) -> None:
    found = tables([count(name) for name in NETWORKS], Machine(), decode_rate())
    if document is None:
        print(text(found))
        return
    path = Path(document)
    whole = path.read_text(encoding="utf-8")
    if BEGIN not in whole or END not in whole:
        sys.exit(f"{document} needs the lines {BEGIN} and {END} where the tables go")
    before, after = whole.split(BEGIN, 1)[0], whole.split(END, 1)[1]
    path.write_text(f"{before}{BEGIN}\n\n{markdown(found)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2])
