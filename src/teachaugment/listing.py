"""What there is by name, for ``teachaugment models`` and ``teachaugment presets``, and the classes in a report."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
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
        about = {"input_size": model.size, "classes": model.classes, "source": model.source}
        found.append({"name": name, "parameters": sum(p.numel() for p in network.parameters()), **about})
    return found


def models_text(found: Sequence[dict[str, Any]]) -> str:
    lines = [f"{'name':<20} {'parameters':>11} {'images':>8} {'classes':>8}  source"]
    for m in found:
        size = f"{m['input_size']}×{m['input_size']}"
        lines.append(f"{m['name']:<20} {m['parameters']:>11,} {size:>8} {m['classes']:>8,}  {m['source']}")
    return "\n".join(
        [*lines, "", "torchvision/NAME, timm/NAME: every classification network of those packages (timm is an extra)"]
    )


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


def class_lines(classes: Sequence[str], accuracy: Sequence[float | None]) -> list[str]:
    """Accuracy of each class, or of the worst ones where there are many."""
    known = [(share, name) for share, name in zip(accuracy, classes, strict=True) if share is not None]
    few = len(known) <= SHOWN
    rows = known if few else sorted(known)[:5]
    title = "classes" if few else f"the {len(rows)} of {len(known)} classes with the lowest accuracy"
    width = max((len(name) for _, name in rows), default=0)
    return [f"{title} (target):", *(f"  {name:<{width}} {100 * share:5.1f} %" for share, name in rows)] if rows else []
