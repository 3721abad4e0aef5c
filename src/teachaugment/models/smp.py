"""Networks of segmentation-models-pytorch by name, ``smp/<architecture>-<encoder>``, where it is installed."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from teachaugment.errors import UserError, nearest

MULTIPLE = 32  # most of them take only images whose sides are multiples of it


class Padded(nn.Module):
    """A network that sees images enlarged to multiples of 32, and whose logits are cut to what they were."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    @property
    def plain(self) -> nn.Module:
        """The package's own network."""
        return self.network

    def forward(self, image: Tensor) -> Tensor:
        height, width = image.shape[-2:]
        right, below = -width % MULTIPLE, -height % MULTIPLE
        if right or below:
            image = F.pad(image, (0, right, 0, below), mode="replicate")
        return self.network(image)[..., :height, :width]


def check(name: str) -> None:
    """Complain about an unknown architecture or encoder, before anything slow is done."""
    architecture, encoder = _parts(name)
    smp = _smp()
    known = smp.MODEL_ARCHITECTURES_MAPPING
    if architecture not in known:
        raise UserError(f"unknown model {name!r}: no architecture {architecture!r}{nearest(architecture, known)}")
    encoders = smp.encoders.get_encoder_names()
    if encoder not in encoders and not encoder.startswith("tu-"):  # tu-: any network of timm
        hint = nearest(encoder, encoders)
        more = hint if "did you mean" in hint else f"; there are {len(encoders)}, such as resnet18, and tu-<timm name>"
        raise UserError(f"unknown model {name!r}: no encoder {encoder!r}{more}")


def create(
    name: str, num_classes: int, channels: int, size: tuple[int, int] | None = None, pretrained: bool = False
) -> nn.Module:
    """A network of the package; images of any size do. ``pretrained``: its encoder begins with weights of ImageNet."""
    check(name)
    architecture, encoder = _parts(name)
    weights = "imagenet" if pretrained else None
    try:
        network = _smp().create_model(architecture, encoder, weights, in_channels=channels, classes=num_classes)
    except Exception as error:  # each network has its own way to refuse what does not suit it
        reason = (" ".join(str(error).split()) or type(error).__name__)[:200]
        raise UserError(f"cannot make {name} for {num_classes} classes and {channels} channels: {reason}") from None
    return Padded(network)


def code(name: str, num_classes: int, channels: int, size: tuple[int, int]) -> tuple[str, str]:
    """How a program makes the network and with which import."""
    architecture, encoder = _parts(name)
    options = f"encoder_weights=None, in_channels={channels}, classes={num_classes}"
    return (
        "import segmentation_models_pytorch as smp",
        f"smp.create_model({architecture!r}, {encoder!r}, {options})",
    )


def _parts(name: str) -> tuple[str, str]:
    """``smp/unet-resnet18`` is unet and resnet18."""
    architecture, dash, encoder = name.removeprefix("smp/").partition("-")
    if not dash:
        raise UserError(f"{name!r} must be smp/<architecture>-<encoder>, such as smp/unet-resnet18")
    return architecture.lower(), encoder


def _smp() -> Any:
    try:
        import segmentation_models_pytorch
    except ImportError:
        raise UserError("segmentation-models-pytorch is not installed; install it with: pip install '.[smp]'") from None
    return segmentation_models_pytorch
