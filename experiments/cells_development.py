"""Blood cells for development: python experiments/cells_development.py bccd-cells cells-development

Of the training images, in the order of their list, every third tests and the others train. The tables of
docs/results.md test on the validation images, so nothing that is chosen here has seen them.
"""

import shutil
import sys
from pathlib import Path


def main(source: str, made: str) -> None:
    names = (Path(source) / "ImageSets" / "Main" / "train.txt").read_text(encoding="utf-8").split()
    parts = {"train": [name for i, name in enumerate(names) if i % 3], "val": names[::3]}
    for folder, ending in (("Annotations", "xml"), ("JPEGImages", "jpg")):
        into = Path(made) / folder
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(Path(source) / folder / f"{name}.{ending}", into)
    lists = Path(made) / "ImageSets" / "Main"
    lists.mkdir(parents=True, exist_ok=True)
    for part, chosen in parts.items():
        (lists / f"{part}.txt").write_text("\n".join(chosen) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
