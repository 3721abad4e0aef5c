"""Networks by name: a closed table of builders, each module imported only when one of its networks is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from teachaugment.errors import UserError, nearest

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Model:
    """How a network is built, and what ``teachaugment models`` says about it."""

    module: str  # of this package
    builder: str
    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    size: int = 32  # side of the images it was designed for
    classes: int = 10  # of the data set it was designed for
    task: str = "classification"

    def __call__(self, num_classes: int, channels: int, **options: Any) -> nn.Module:
        build = getattr(import_module(f"{__name__}.{self.module}"), self.builder)
        return build(num_classes=num_classes, channels=channels, **self.settings, **options)


def _wide(depth: int, width: int) -> Model:
    source = "Zagoruyko and Komodakis 2016, Wide Residual Networks"
    return Model("wide_resnet", "WideResNet", source, {"depth": depth, "width": width})


def _shake(width: int) -> Model:
    return Model("shake_shake", "ShakeShake", "Gastaldi 2017, Shake-Shake regularization", {"width": width})


def _pyramid(depth: int, alpha: int) -> Model:
    source = "Han et al. 2017, Deep Pyramidal Residual Networks; Yamada et al. 2018, ShakeDrop"
    return Model("pyramidnet", "PyramidNet", source, {"depth": depth, "alpha": alpha})


def _unet(what: str, settings: Mapping[str, int], size: int = 32) -> Model:
    return Model("unet", "UNet", f"{what}, Ronneberger et al. 2015", settings, size, 11, "segmentation")


BACKBONES = {"resnet-101": 1024, "resnet-50": 1024, "resnet-18": 512, "mobilenet-v3": 512}  # and a size of images
SEGMENTERS = {
    "fcn32s": "Long et al. 2015, Fully Convolutional Networks; backbone of torchvision",
    "pspnet": "Zhao et al. 2017, Pyramid Scene Parsing Network; backbone of torchvision",
    "deeplabv3": "Chen et al. 2017, Rethinking Atrous Convolution; torchvision",
}


def _segmenter(head: str, backbone: str) -> Model:
    settings = {"head": head, "backbone": backbone}
    return Model(
        "segmentation", "segmenter", SEGMENTERS[head], settings, BACKBONES[backbone], classes=19, task="segmentation"
    )


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
    "resnet-18-cifar": Model("resnet", "resnet18_cifar", "torchvision, stem for small images; He et al. 2016"),
    "resnet-50": Model("resnet", "resnet50", "torchvision; He et al. 2016", size=224, classes=1000),
    "unet-16": _unet("U-Net", {"width": 16}),
    "unet-16-half": _unet("U-Net at half the resolution", {"width": 16, "half": 1}, size=256),
    **{f"{head}-{backbone}": _segmenter(head, backbone) for head in SEGMENTERS for backbone in BACKBONES},
}


def check(name: str, task: str | None = None) -> None:
    """Complain about a name that is unknown, or of a network for another task, before anything slow is done."""
    if name in MODELS:
        found = MODELS[name].task
    elif name.startswith("smp/"):
        from teachaugment.models import smp

        smp.check(name)
        found = "segmentation"
    elif "/" in name:
        from teachaugment.models import external

        external.check(name)
        found = "classification"
    else:
        hint = nearest(name, [known for known, model in MODELS.items() if task in (None, model.task)])
        elsewhere = {"segmentation": "smp/NAME-ENCODER"}.get(task or "", "torchvision/NAME, timm/NAME")
        raise UserError(f"unknown model {name!r}{hint}" + ("" if "did you mean" in hint else f", {elsewhere}"))
    if task not in (None, found):
        raise UserError(f"model {name!r} is for {found}, not for {task}; see teachaugment models")


def create(
    name: str, num_classes: int, channels: int = 3, size: tuple[int, int] | None = None, pretrained: bool = False
) -> nn.Module:
    """A newly initialised network that maps images [B, channels, H, W] to logits [B, num_classes], or, for
    segmentation, to [B, num_classes, H, W].

    ``size`` is for networks of other packages that are made for one size of images; ``pretrained`` gives the backbone
    of a network for segmentation the ImageNet weights that its package offers.
    """
    check(name)
    if num_classes < 1 or channels < 1:
        raise UserError(f"model {name!r} needs at least one class and one channel, not {num_classes} and {channels}")
    if name.startswith("smp/"):
        from teachaugment.models import smp

        return smp.create(name, num_classes, channels, pretrained)
    if pretrained and (name not in MODELS or "backbone" not in MODELS[name].settings):
        raise UserError(f"model {name!r} has no backbone with pretrained weights; leave out --pretrained")
    if "/" in name:
        from teachaugment.models.external import external

        return external(name, num_classes, channels, size)
    options = {"pretrained": True} if pretrained else {}
    return MODELS[name](num_classes=num_classes, channels=channels, **options)


def pretrained(name: str, num_classes: int, channels: int = 3, size: tuple[int, int] | None = None) -> nn.Module:
    """A network with the weights that its package offers, for exactly the classes it was trained on."""
    check(name)
    if name == "resnet-50":
        name = "torchvision/resnet50"
    if "/" not in name or name.startswith("smp/"):
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
