"""The parts of a network that fine-tuning treats apart: its head, which is new for new classes, and its layers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from torch import nn

from teachaugment.models.segmentation import Segmenter
from teachaugment.models.smp import Padded

NUMBERED = re.compile(r"[^.]*\d")  # layer1, 3, encoder_layer_11: what tells one layer from the next


def heads(network: nn.Module) -> tuple[str, ...]:
    """The names of the modules that belong to the classes: all else is what pretrained weights are for.

    What a network says itself (``head_modules``); of one for segmentation with a backbone, everything that stands on
    it; of networks of timm what timm says; of all others the last linear or convolutional layer.
    """
    if isinstance(own := getattr(network, "head_modules", None), tuple):
        return own
    if isinstance(network, Segmenter):
        return ("head", "auxiliary")
    if isinstance(network, Padded):
        return tuple(f"network.{name}" for name, _ in network.network.named_children() if name != "encoder")
    classifier = (getattr(network, "pretrained_cfg", None) or {}).get("classifier")
    if classifier:
        return (classifier,) if isinstance(classifier, str) else tuple(classifier)
    found = [name for name, module in network.named_modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
    return tuple(found[-1:])


def in_head(name: str, head: tuple[str, ...]) -> bool:
    """Whether a parameter, a buffer or a module of this name belongs to the head."""
    return any(name == part or name.startswith(f"{part}.") for part in head)


def backbone_modules(network: nn.Module) -> Iterator[nn.Module]:
    """The modules that are not in the head and have no part of it inside."""
    head = heads(network)
    for name, module in network.named_modules():
        if not in_head(name, head) and not any(
            part == name or part.startswith(f"{name}.") or not name for part in head
        ):
            yield module


def layers(network: Any) -> dict[str, int]:
    """The number of the layer that each parameter is in, from the input to the head, which is the last.

    Networks of timm say it themselves; in others a layer is what the first number in a name counts (layer1,
    features.3), and what comes before, between and after such modules, each by its own name.
    """
    if hasattr(network, "group_matcher"):
        from timm.models import group_parameters

        found = dict(group_parameters(network, network.group_matcher(coarse=False), reverse=True))
    else:
        numbers: dict[str, int] = {}
        found = {name: numbers.setdefault(_layer(name), len(numbers)) for name, _ in network.named_parameters()}
    head, last = heads(network), max(found.values())
    return {name: last if in_head(name, head) else number for name, number in found.items()}


def _layer(name: str) -> str:
    parts = name.split(".")[:-1]
    for depth, part in enumerate(parts):
        if NUMBERED.fullmatch(part):
            return ".".join(parts[: depth + 1])
    return parts[0] if parts else name
