"""Networks by name: a closed table of builders, each module imported only when one of its networks is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from teachaugment.errors import UserError, nearest

if TYPE_CHECKING:
    from torch import nn


def _build(module: str, builder: str, num_classes: int, channels: int, **settings: int) -> nn.Module:
    """Call `builder` of the module `module` of this package."""
    build = getattr(import_module(f"{__name__}.{module}"), builder)
    return build(num_classes=num_classes, channels=channels, **settings)


MODELS: dict[str, Callable[..., nn.Module]] = {
    "cnn-4": partial(_build, "small", "SmallCNN"),
    "wrn-16-1": partial(_build, "wide_resnet", "WideResNet", depth=16, width=1),
    "wrn-16-2": partial(_build, "wide_resnet", "WideResNet", depth=16, width=2),
    "wrn-28-10": partial(_build, "wide_resnet", "WideResNet", depth=28, width=10),
    "wrn-40-2": partial(_build, "wide_resnet", "WideResNet", depth=40, width=2),
}


def create(name: str, num_classes: int, channels: int = 3) -> nn.Module:
    """A newly initialised network that maps images [B, channels, H, W] to logits [B, num_classes]."""
    if name not in MODELS:
        raise UserError(f"unknown model {name!r}{nearest(name, MODELS)}")
    if num_classes < 1 or channels < 1:
        raise UserError(f"model {name!r} needs at least one class and one channel, not {num_classes} and {channels}")
    return MODELS[name](num_classes=num_classes, channels=channels)
