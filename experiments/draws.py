"""A few training images of each class, drawn anew for each seed, as folders.

    python experiments/draws.py sign-digits digits-draws 10     # ten of each class
    python experiments/draws.py cifar10.npz cifar10-draws 10

Which strategy is ahead on so few images depends on which these are. DIR/<seed>/images has those that train, drawn from
all training images, and for every seed the same first 200 of each class of the other splits.
"""

import random
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy
from PIL import Image

DRAWS, TESTED = 10, 200


Split = tuple[str, str, list[Callable[[Path], object]]]  # its name, a class, and for each image how to write it


def of_folder(source: Path) -> Iterator[Split]:
    for folder in sorted(source.glob("*/*/")):
        yield folder.parent.name, folder.name, [partial(shutil.copy, file) for file in sorted(folder.iterdir())]


def of_arrays(source: Path) -> Iterator[Split]:
    arrays = numpy.load(source, allow_pickle=False)
    for split in ("train", "test"):
        images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
        for label in range(int(labels.max()) + 1):
            numbers = numpy.flatnonzero(labels == label)
            yield split, str(label), [partial(save, images[i], f"{i}.png") for i in numbers]


def save(image: numpy.ndarray, name: str, folder: Path) -> None:
    Image.fromarray(image).save(folder / name)


def main(source: str, made: str, each: str) -> None:
    read = of_arrays if source.endswith(".npz") else of_folder
    drawing = [random.Random(seed) for seed in range(DRAWS)]
    for split, label, images in read(Path(source)):
        for seed in range(DRAWS):
            into = Path(made) / str(seed) / "images" / split / label
            into.mkdir(parents=True)
            for write in drawing[seed].sample(images, int(each)) if split == "train" else images[:TESTED]:
                write(into)


if __name__ == "__main__":
    main(*sys.argv[1:])
