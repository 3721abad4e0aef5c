"""What there is by name, for ``teachaugment models`` and ``teachaugment presets``, and the classes in a report."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from teachaugment.models import MODELS, create
from teachaugment.presets import PRESETS

SHOWN = 20  # classes in a report; of more than that, the worst ones


def models() -> list[dict[str, Any]]:
    """Every network of the table with its parameters, counted without making them."""
    import torch

    found = []
    for name, model in MODELS.items():
        with torch.device("meta"):
            network = create(name, model.classes)
        about = {"task": model.task, "input_size": model.size, "classes": model.classes, "source": model.source}
        found.append({"name": name, "parameters": sum(p.numel() for p in network.parameters()), **about})
    return found


def models_text(found: Sequence[dict[str, Any]]) -> str:
    lines = [f"{'name':<24} {'task':<14} {'parameters':>11} {'images':>9} {'classes':>7}  source"]
    for m in found:
        size = f"{m['input_size']}×{m['input_size']}"
        about = f"{m['task']:<14} {m['parameters']:>11,} {size:>9} {m['classes']:>7,}  {m['source']}"
        lines.append(f"{m['name']:<24} {about}")
    others = (
        "torchvision/NAME, timm/NAME: every classification network of those packages (timm is an extra)",
        "smp/NAME-ENCODER: every network of segmentation-models-pytorch, such as smp/unet-resnet18 (an extra)",
    )
    return "\n".join([*lines, "", *others])


def presets() -> list[dict[str, Any]]:
    return [
        {
            "name": p.name,
            "command": p.command,
            "paper": p.paper,
            "cost": p.cost,
            "gpus": p.gpus,
            "description": p.description,
            "settings": dict(p.settings),
        }
        for p in PRESETS.values()
    ]


def presets_text() -> str:
    parts = []
    for p in PRESETS.values():
        parts.append(p.name)
        parts += textwrap.wrap(p.description, 110, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(parts)


def result_lines(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Metrics of each model on the test split, one line each."""
    lines = []
    for name, result in results.items():
        tell = _segmented if "miou" in result else _compared if "knn" in result else _classified
        lines.append(f"{name:<8} {tell(result)}")
    return lines


def _classified(result: Mapping[str, Any]) -> str:
    return (
        f"{100 * result['accuracy']:5.1f} % of {result['images']:,} test images, loss {result['loss']:.3f}, "
        f"top-5 {100 * result['top5']:.1f} %, calibration error {100 * result['calibration_error']:.1f} %"
    )


def _segmented(result: Mapping[str, Any]) -> str:
    return (
        f"{100 * result['miou']:5.1f} % mIoU on {result['images']:,} test images, loss {result['loss']:.3f}, "
        f"pixel accuracy {100 * result['pixel_accuracy']:.1f} %"
    )


def _compared(result: Mapping[str, Any]) -> str:
    return (
        f"{100 * result['knn']:5.1f} % of {result['images']:,} test images by nearest neighbours (kNN); spread of the "
        f"outputs {result['spread']:.2f} of 1, effective rank {result['rank']:.1f}"
    )


def class_lines(classes: Sequence[str], result: Mapping[str, Any]) -> list[str]:
    """Accuracy or IoU of each class, or of the worst ones where there are many."""
    what, key = ("IoU", "class_iou") if "class_iou" in result else ("accuracy", "class_accuracy")
    known = [(share, name) for share, name in zip(result[key], classes, strict=True) if share is not None]
    few = len(known) <= SHOWN
    rows = known if few else sorted(known)[:5]
    title = f"{what} of each class" if few else f"the {len(rows)} of {len(known)} classes with the lowest {what}"
    width = max((len(name) for _, name in rows), default=0)
    return [f"{title} (target):", *(f"  {name:<{width}} {100 * share:5.1f} %" for share, name in rows)] if rows else []
