"""Any classifier without its last layer: what it makes of an image before it names a class."""

from __future__ import annotations

from torch import nn

from teachaugment.errors import UserError


def backbone(network: nn.Module, classes: int, name: str) -> tuple[nn.Module, int]:
    """The network with its classifier, the last linear layer, taken out, and the number of features it then gives.

    The names of all other weights stay, so that they load into the same network of torchvision or timm.
    """
    found = [(place, module) for place, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not found or found[-1][1].out_features != classes:
        raise UserError(f"model {name!r} does not end in a linear classifier, so it gives no features; try resnet-50")
    place, last = found[-1]
    parent, _, attribute = place.rpartition(".")
    holder = network.get_submodule(parent)
    if isinstance(holder, nn.Sequential):
        holder[int(attribute)] = nn.Identity()
    else:
        setattr(holder, attribute, nn.Identity())
    return network, last.in_features
