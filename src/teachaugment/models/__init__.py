"""Networks by name: those of this package, each with its builder, and those of other packages by their own names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from teachaugment.errors import UserError, nearest
from teachaugment.tables import Entry, Table
from teachaugment.terminal import say

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Model(Entry):
    """How a network is built, and what ``teachaugment models`` says about it; ``help`` is where it comes from."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    size: int = 32  # side of the images it was designed for
    classes: int = 10  # of the data set it was designed for
    task: str = "classification"  # what kind of network it is: see ``networks`` in the table of tasks
    backbone: bool = False  # it has one, which may begin with weights of ImageNet

    @property
    def source(self) -> str:
        return self.help


@dataclass(frozen=True)
class Pretraining:
    """The images that pretrained weights know."""

    size: int  # side of the square images
    mean: tuple[float, ...]
    std: tuple[float, ...]
    centre: float  # share of the shorter side that the centre crop of an evaluation keeps
    interpolation: str


@dataclass(frozen=True)
class Package(Entry):
    """Networks of another package; its module has ``check`` and ``create``, and ``pretraining`` if it is ``whole``."""

    pattern: str = ""  # how they are named
    task: str = "classification"
    whole: bool = True  # the package has weights of whole networks, not of backbones


def _wide(depth: int, width: int) -> Model:
    source = "Zagoruyko and Komodakis 2016, Wide Residual Networks"
    return Model("wide_resnet:WideResNet", source, {"depth": depth, "width": width})


def _shake(width: int) -> Model:
    return Model("shake_shake:ShakeShake", "Gastaldi 2017, Shake-Shake regularization", {"width": width})


def _pyramid(depth: int, alpha: int) -> Model:
    source = "Han et al. 2017, Deep Pyramidal Residual Networks; Yamada et al. 2018, ShakeDrop"
    return Model("pyramidnet:PyramidNet", source, {"depth": depth, "alpha": alpha})


def _unet(what: str, settings: Mapping[str, int], size: int = 32) -> Model:
    return Model("unet:UNet", f"{what}, Ronneberger et al. 2015", settings, size, 11, "segmentation")


BACKBONES = {"resnet-101": 1024, "resnet-50": 1024, "resnet-18": 512, "mobilenet-v3": 512}  # and a size of images
SEGMENTERS = {
    "fcn32s": "Long et al. 2015, Fully Convolutional Networks; backbone of torchvision",
    "pspnet": "Zhao et al. 2017, Pyramid Scene Parsing Network; backbone of torchvision",
    "deeplabv3": "Chen et al. 2017, Rethinking Atrous Convolution; torchvision",
}


DETECTORS = {
    "ssdlite": "Sandler et al. 2018, MobileNetV2: SSDlite; torchvision",
    "fasterrcnn": "Ren et al. 2015, Faster R-CNN; torchvision",
    "retinanet": "Lin et al. 2017, Focal Loss for Dense Object Detection; torchvision",
    "fcos": "Tian et al. 2019, FCOS; torchvision",
}


def _detector(head: str, backbone: str) -> Model:
    settings = {"head": head, "backbone": backbone}
    return Model("detection:detector", DETECTORS[head], settings, 320, 20, "detection", backbone=True)


def _segmenter(head: str, backbone: str) -> Model:
    settings = {"head": head, "backbone": backbone}
    return Model(
        "segmentation:segmenter", SEGMENTERS[head], settings, BACKBONES[backbone], 19, "segmentation", backbone=True
    )


MODELS: Table[Model] = Table(
    "model",
    __name__,
    {
        "cnn-4": Model("small:SmallCNN", "four convolutions"),
        "wrn-16-1": _wide(16, 1),
        "wrn-16-2": _wide(16, 2),
        "wrn-28-10": _wide(28, 10),
        "wrn-40-2": _wide(40, 2),
        "shake-26-2x16d": _shake(16),
        "shake-26-2x32d": _shake(32),
        "shake-26-2x96d": _shake(96),
        "pyramidnet-29-24": _pyramid(29, 24),
        "pyramidnet-272-200": _pyramid(272, 200),
        "resnet-18-cifar": Model("resnet:resnet18_cifar", "torchvision, stem for small images; He et al. 2016"),
        "resnet-50": Model("resnet:resnet50", "torchvision; He et al. 2016", size=224, classes=1000),
        "unet-16": _unet("U-Net", {"width": 16}),
        "unet-16-half": _unet("U-Net at half the resolution", {"width": 16, "half": 1}, size=256),
        **{f"{head}-{backbone}": _segmenter(head, backbone) for head in SEGMENTERS for backbone in BACKBONES},
        "fcos-small": Model(
            "detection:SmallDetector", "FCOS with one level; Tian et al. 2019", {}, 96, 10, "detection"
        ),
        "ssdlite-mobilenet-v3": _detector("ssdlite", "mobilenet-v3"),
        **{
            f"{head}-{backbone}": _detector(head, backbone)
            for head in ("fasterrcnn", "retinanet", "fcos")
            for backbone in ("resnet-50", "mobilenet-v3")
        },
    },
)
PACKAGES: Table[Package] = Table(
    "source of models",
    __name__,
    {
        "torchvision": Package("external", "every classification network of torchvision", "torchvision/NAME"),
        "timm": Package("external", "every classification network of timm, which is an extra", "timm/NAME"),
        "smp": Package(
            "smp",
            "every network of segmentation-models-pytorch, such as smp/unet-resnet18, which is an extra",
            "smp/NAME-ENCODER",
            "segmentation",
            whole=False,
        ),
    },
)
SAME_WEIGHTS = {"resnet-50": "torchvision/resnet50"}  # networks whose weights another package offers


def _package(name: str) -> str | None:
    """The package that a name such as ``timm/resnet18`` names."""
    package, slash, _ = name.partition("/")
    if slash and package not in PACKAGES:
        raise UserError(f"unknown source of models {package!r} in {name!r}{nearest(package, PACKAGES)}")
    return package if slash else None


def check(name: str, task: str | None = None) -> None:
    """Complain about a name that is unknown, or of a network for another task, before anything slow is done."""
    package = _package(name)
    if package is not None:
        PACKAGES.load(package).check(name)
        found = PACKAGES[package].task
    elif name in MODELS:
        found = MODELS[name].task
    else:
        if task in (None, Model.task) and (elsewhere := _in_a_package(name)):
            raise UserError(f"unknown model {name!r}; did you mean {elsewhere!r}?")
        hint = nearest(name, [known for known, model in MODELS.items() if task in (None, model.task)])
        others = [p.pattern for p in PACKAGES.values() if p.task == (task or Model.task)]
        raise UserError(f"unknown model {name!r}{hint}" + ("" if "did you mean" in hint else f", {', '.join(others)}"))
    if task not in (None, found):
        raise UserError(f"model {name!r} is for {found}, not for {task}; see teachaugment models")


def _in_a_package(name: str) -> str | None:
    """The network of another package that has this name, but for signs in it; of its own packages only those there."""
    from teachaugment.models import external

    wanted = "".join(letter for letter in name.lower().partition(".")[0] if letter.isalnum())
    for source in ("torchvision", "timm"):
        with suppress(UserError):  # timm may not be installed
            for known in external.names(source):
                if known.replace("_", "") == wanted:
                    return f"{source}/{known}{name[name.find('.') :] if '.' in name and source == 'timm' else ''}"
    return None


def create(
    name: str,
    num_classes: int,
    channels: int = 3,
    size: tuple[int, int] | None = None,
    pretrained: bool = False,
    dropout: float | None = None,
    drop_path: float | None = None,
) -> nn.Module:
    """A network that maps images [B, channels, H, W] to logits [B, num_classes], or, for segmentation, to
    [B, num_classes, H, W]: newly initialised, or ``pretrained``.

    ``size`` is for networks of other packages that are made for one size of images. ``pretrained`` gives it the weights
    that its package offers, all but those of a head for other classes; a network for segmentation gets those of its
    backbone. ``dropout`` and ``drop_path`` are for networks of timm.
    """
    check(name)
    if num_classes < 1 or channels < 1:
        raise UserError(f"model {name!r} needs at least one class and one channel, not {num_classes} and {channels}")
    package = _package(name)
    regularization = {k: v for k, v in (("dropout", dropout), ("drop_path", drop_path)) if v is not None}
    if regularization and package != "timm":
        raise UserError(f"model.{next(iter(regularization))} is for networks of timm, not for {name}; leave it out")
    of_backbone = pretrained and (MODELS[name].backbone if package is None else not PACKAGES[package].whole)
    weights = downloaded(name, channels, size) if pretrained and not of_backbone else None
    if package is not None:
        network = PACKAGES.load(package).create(name, num_classes, channels, size, of_backbone, **regularization)
    else:
        options = {"pretrained": True} if of_backbone else {}
        network = MODELS.load(name)(num_classes=num_classes, channels=channels, **MODELS[name].settings, **options)
    if weights is not None:
        from teachaugment.models.weights import take

        say(take(network, weights, f"the pretrained {name}", name))
    return network


def downloaded(name: str, channels: int, size: tuple[int, int] | None) -> dict[str, Tensor]:
    """The weights of a whole network that its package offers."""
    found = SAME_WEIGHTS.get(name, name)
    package = _package(found)
    if package is None or not PACKAGES[package].whole:
        raise UserError(
            f"there are no pretrained weights of {name}; leave out --pretrained, name a file with --weights, or choose "
            "a network of timm or torchvision"
        )
    return PACKAGES.load(package).create(found, 0, channels, size, pretrained=True).state_dict()


def load_weights(network: nn.Module, file: str, name: str) -> None:
    """Put the weights in a file into the network ``name``, and say what was taken."""
    from teachaugment.models.weights import read_weights, take

    say(take(network, read_weights(file), file, name))


def pretraining(name: str) -> Pretraining | None:
    """How the images were read that the pretrained weights of a network have learned from, where that is known."""
    name = SAME_WEIGHTS.get(name, name)
    package = _package(name)
    return PACKAGES.load(package).pretraining(name) if package is not None and PACKAGES[package].whole else None


def pretrained(name: str, num_classes: int, channels: int = 3, size: tuple[int, int] | None = None) -> nn.Module:
    """A network with the weights that its package offers, for exactly the classes it was trained on."""
    check(name)
    package = _package(name := SAME_WEIGHTS.get(name, name))
    if package is None or not PACKAGES[package].whole:
        raise UserError(
            f"there are no pretrained weights of {name}; train it (teachaugment train --model {name} --strategy none) "
            "and name its run directory"
        )
    model = PACKAGES.load(package).create(name, num_classes, channels, size, pretrained=True)
    known = getattr(model, "num_classes", None) or len(list(model.parameters())[-1])
    if known != num_classes:
        raise UserError(f"the pretrained {name} knows {known} classes, and the data have {num_classes}")
    return model


def plain(network: nn.Module) -> nn.Module:
    """The network as its own package makes it, without what was put around it here."""
    return getattr(network, "plain", network)


def plain_code(name: str, num_classes: int, channels: int, size: tuple[int, int]) -> tuple[str, str]:
    """How a program makes such a network without this package, where another one has it.

    An import, and a call.
    """
    package = _package(other := SAME_WEIGHTS.get(name, name))
    if package is None:
        made = f"teachaugment.models.create({name!r}, {num_classes}, {channels}, {size})"
        return "import teachaugment.models", made
    return PACKAGES.load(package).code(other, num_classes, channels, size)
