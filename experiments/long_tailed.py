"""CIFAR-10's training images with a long tail: 1,000 of them, the first class with fifty times as many as the last.

    python experiments/long_tailed.py cifar10.npz long-tailed.npz

The classes between have numbers in geometric progression. The test images stay as they are, all classes alike, so that
accuracy is the mean recall of the classes.
"""

from __future__ import annotations

import sys

import numpy as np

IMAGES, RATIO, CLASSES = 1000, 50, 10


def counts() -> list[int]:
    shares = [RATIO ** (-k / (CLASSES - 1)) for k in range(CLASSES)]
    return [round(IMAGES * share / sum(shares)) for share in shares]


if __name__ == "__main__":
    source, target = sys.argv[1:]
    with np.load(source, allow_pickle=False) as file:
        arrays = dict(file)
    labels = arrays["y_train"].reshape(-1)
    rows = np.concatenate([np.flatnonzero(labels == k)[:n] for k, n in enumerate(counts())])
    np.savez(target, **{**arrays, "x_train": arrays["x_train"][rows], "y_train": labels[rows]})
    print(f"{target}: {len(rows)} training images, by class {counts()}")
