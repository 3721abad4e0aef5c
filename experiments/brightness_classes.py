"""Images told apart by what augmentation changes.

    python experiments/brightness_classes.py cifar10.npz brightness.npz

The class of an image is how bright it is, in five classes of equal sizes, as where the ripeness of fruit is graded. It
is a function of the mean of its pixels, so that a network can learn it from few images, and brightening, posterizing,
solarizing or equalizing an image changes what is true of it.
"""

import sys

import numpy as np

CLASSES, IMAGES = 5, 1000


def main(source: str, made: str) -> None:
    with np.load(source, allow_pickle=False) as file:
        arrays = dict(file)
    arrays["x_train"] = arrays["x_train"][np.random.default_rng(0).permutation(len(arrays["x_train"]))[:IMAGES]]
    brightness = {part: arrays[f"x_{part}"].mean(axis=(1, 2, 3)) for part in ("train", "test")}
    borders = np.quantile(brightness["train"], np.arange(1, CLASSES) / CLASSES)
    labels = {f"y_{part}": np.searchsorted(borders, mean) for part, mean in brightness.items()}
    np.savez(made, **{**arrays, **labels})


if __name__ == "__main__":
    main(*sys.argv[1:])
