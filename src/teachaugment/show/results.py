"""The metrics of a run in words, one way for each task: a line for each model, and the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SHOWN = 20  # classes at most; of more than that, the worst ones
WORST = 5


def result_lines(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The metrics of each model on the test split, one line each."""
    return [f"{name:<8} {_words(result)}" for name, result in results.items()]


def _words(result: Mapping[str, Any]) -> str:
    if "miou" in result:
        return _segmentation(result)
    return _self_supervised(result) if "knn" in result else _classification(result)


def _classification(result: Mapping[str, Any]) -> str:
    return (
        f"{100 * result['accuracy']:5.1f} % of {result['images']:,} test images, loss {result['loss']:.3f}, "
        f"top-5 {100 * result['top5']:.1f} %, calibration error {100 * result['calibration_error']:.1f} %"
    )


def _segmentation(result: Mapping[str, Any]) -> str:
    return (
        f"{100 * result['miou']:5.1f} % mIoU on {result['images']:,} test images, loss {result['loss']:.3f}, "
        f"pixel accuracy {100 * result['pixel_accuracy']:.1f} %"
    )


def _self_supervised(result: Mapping[str, Any]) -> str:
    return (
        f"{100 * result['knn']:5.1f} % of {result['images']:,} test images by nearest neighbours (kNN); spread of the "
        f"outputs {result['spread']:.2f} of 1, effective rank {result['rank']:.1f}"
    )


def class_lines(classes: Sequence[str], result: Mapping[str, Any]) -> list[str]:
    """Accuracy or IoU of each class, or of the worst ones where there are many; nothing where none is known."""
    what, key = ("IoU", "class_iou") if "class_iou" in result else ("accuracy", "class_accuracy")
    known = [(share, name) for share, name in zip(result[key], classes, strict=True) if share is not None]
    if not known:
        return []
    few = len(known) <= SHOWN
    rows = known if few else sorted(known)[:WORST]
    title = f"{what} of each class" if few else f"the {len(rows)} of {len(known)} classes with the lowest {what}"
    width = max(len(name) for _, name in rows)
    return [f"{title} (target):", *(f"  {name:<{width}} {100 * share:5.1f} %" for share, name in rows)]
