"""Sign digits of other students, for development.

    python experiments/digits_development.py sign-digits digits-development

Of each class's training photographs, which are in the order of the students, numbers 20 to 29 train; the validation
photographs and numbers 10 to 19 and 30 to 39 test, 400 in all. The tables of docs/results.md with 10 photographs per
class train on the first 10 and test on the test split, so nothing that is chosen here has seen them.
"""

import shutil
import sys
from pathlib import Path


def main(source: str, made: str) -> None:
    for folder in sorted((Path(source) / "train").iterdir()):
        own, others = sorted(folder.iterdir()), sorted((Path(source) / "val" / folder.name).iterdir())
        parts = {"train": own[20:30], "test": [*own[10:20], *own[30:40], *others]}
        for part, files in parts.items():
            into = Path(made) / part / folder.name
            into.mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copy(file, into)


if __name__ == "__main__":
    main(*sys.argv[1:])
