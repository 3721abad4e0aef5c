"""Networks by name: a closed table of builders, each module imported only when one of its networks is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from teachaugment.errors import UserError, nearest

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Model:
    """How a network is built, and what ``teachaugment models`` says about it."""

    module: str  # of this package
    builder: str
    source: str
    settings: Mapping[str, int] = field(default_factory=dict)
    size: int = 32  # side of the images it was designed for
    classes: int = 10  # of the data set it was designed for

    def __call__(self, num_classes: int, channels: int) -> nn.Module:
        build = getattr(import_module(f"{__name__}.{self.module}"), self.builder)
        return build(num_classes=num_classes, channels=channels, **self.settings)


def _wide(depth: int, width: int) -> Model:
    source = "Zagoruyko and Komodakis 2016, Wide Residual Networks"
    return Model("wide_resnet", "WideResNet", source, {"depth": depth, "width": width})


def _shake(width: int) -> Model:
    return Model("shake_shake", "ShakeShake", "Gastaldi 2017, Shake-Shake regularization", {"width": width})


def _pyramid(depth: int, alpha: int) -> Model:
    source = "Han et al. 2017, Deep Pyramidal Residual Networks; Yamada et al. 2018, ShakeDrop"
    return Model("pyramidnet", "PyramidNet", source, {"depth": depth, "alpha": alpha})


MODELS: dict[str, Model] = {
    "cnn-4": Model("small", "SmallCNN", "four convolutions"),
    "wrn-16-1": _wide(16, 1),
    "wrn-16-2": _wide(16, 2),
    "wrn-28-10": _wide(28, 10),
    "wrn-40-2": _wide(40, 2),
    "shake-26-2x16d": _shake(16),
    "shake-26-2x32d": _shake(32),
    "shake-26-2x96d": _shake(96),
    "pyramidnet-29-24": _pyramid(29, 24),
    "pyramidnet-272-200": _pyramid(272, 200),
    "resnet-50": Model("resnet", "resnet50", "torchvision; He et al. 2016", size=224, classes=1000),
}


def check(name: str) -> None:
    """Complain about an unknown name, before anything slow is done."""
    if "/" in name:
        from teachaugment.models import external

        external.check(name)
    elif name not in MODELS:
        hint = nearest(name, MODELS)
        others = "" if "did you mean" in hint else ", torchvision/NAME, timm/NAME"
        raise UserError(f"unknown model {name!r}{hint}{others}")


def create(name: str, num_classes: int, channels: int = 3, size: tuple[int, int] | None = None) -> nn.Module:
    """A newly initialised network that maps images [B, channels, H, W] to logits [B, num_classes].

    ``size`` is for networks of other packages that are made for one size of images.
    """
    check(name)
    if num_classes < 1 or channels < 1:
        raise UserError(f"model {name!r} needs at least one class and one channel, not {num_classes} and {channels}")
    if "/" in name:
        from teachaugment.models.external import external

        return external(name, num_classes, channels, size)
    return MODELS[name](num_classes=num_classes, channels=channels)


def pretrained(name: str, num_classes: int, channels: int = 3, size: tuple[int, int] | None = None) -> nn.Module:
    """A network with the weights that its package offers, for exactly the classes it was trained on."""
    check(name)
    if name == "resnet-50":
        name = "torchvision/resnet50"
    if "/" not in name:
        raise UserError(
            f"there are no pretrained weights of {name}; train it (teachaugment train --model {name} --strategy none) "
            "and name its run directory"
        )
    from teachaugment.models.external import external

    model = external(name, num_classes, channels, size, pretrained=True)
    known = getattr(model, "num_classes", None) or len(list(model.parameters())[-1])
    if known != num_classes:
        raise UserError(f"the pretrained {name} knows {known} classes, and the data have {num_classes}")
    return model
