"""Training images of which four in ten have the label of another class: they can never be mastered honestly.

    python experiments/wrong_labels.py development.npz wrong-labels.npz

Which ones is drawn with a fixed seed. The test labels stay as they are.
"""

from __future__ import annotations

import sys

import numpy as np

SHARE = 0.4

if __name__ == "__main__":
    source, target = sys.argv[1:]
    with np.load(source, allow_pickle=False) as file:
        arrays = dict(file)
    labels, random = arrays["y_train"].reshape(-1), np.random.default_rng(0)
    rows, classes = random.permutation(len(labels))[: round(SHARE * len(labels))], int(labels.max()) + 1
    wrong = labels.copy()
    wrong[rows] = (labels[rows] + random.integers(1, classes, len(rows))) % classes
    np.savez(target, **{**arrays, "y_train": wrong})
    print(f"{target}: {np.mean(wrong != labels):.0%} of {len(labels)} training labels are wrong")
