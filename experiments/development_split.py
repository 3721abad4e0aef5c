"""Another draw of CIFAR-10, for development: python experiments/development_split.py cifar10.npz development.npz

Of each class's training images, numbers 400 to 599 train and 600 to 899 test. The tables of docs/results.md train on
the first 200 and test on the test split, so nothing that is chosen here has seen them.
"""

import sys

import numpy as np


def main(source: str, made: str) -> None:
    data = np.load(source, allow_pickle=False)
    image, label = data["x_train"], data["y_train"]
    rows = [np.flatnonzero(label == k) for k in np.unique(label)]
    parts = {
        name: np.sort(np.concatenate([of_class[start:stop] for of_class in rows]))
        for name, start, stop in (("train", 400, 600), ("test", 600, 900))
    }
    arrays = {f"x_{name}": image[chosen] for name, chosen in parts.items()}
    np.savez(made, **arrays, **{f"y_{name}": label[chosen] for name, chosen in parts.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
