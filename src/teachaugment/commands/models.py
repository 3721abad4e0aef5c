"""``teachaugment models``: the networks there are by name, with their sizes and where they come from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from teachaugment.terminal import print_text

EXAMPLES = """\
examples:
  teachaugment models
  teachaugment models --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    found = as_data()
    print_text(json.dumps(found, indent=2) if arguments.json else as_text(found))
    return 0


def as_data() -> list[dict[str, Any]]:
    """Every network of the table with its parameters, counted without making them."""
    import torch

    from teachaugment.models import MODELS, create

    found = []
    for name, model in MODELS.items():
        with torch.device("meta"):
            network = create(name, model.classes)
        about = {"task": model.task, "input_size": model.size, "classes": model.classes, "source": model.source}
        found.append({"name": name, "parameters": sum(p.numel() for p in network.parameters()), **about})
    return found


def as_text(found: Sequence[dict[str, Any]]) -> str:
    """One line for each network, and where there are more."""
    lines = [f"{'name':<24} {'task':<14} {'parameters':>11} {'images':>9} {'classes':>7}  source"]
    for model in found:
        size = f"{model['input_size']}×{model['input_size']}"
        about = f"{model['task']:<14} {model['parameters']:>11,} {size:>9} {model['classes']:>7,}  {model['source']}"
        lines.append(f"{model['name']:<24} {about}")
    others = (
        "torchvision/NAME, timm/NAME: every classification network of those packages (timm is an extra)",
        "smp/NAME-ENCODER: every network of segmentation-models-pytorch, such as smp/unet-resnet18 (an extra)",
    )
    return "\n".join([*lines, "", *others])
