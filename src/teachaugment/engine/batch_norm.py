"""How fast the running statistics of batch norm follow: fast enough for the training that there is."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

FASTEST = 0.1  # torch's own
FRACTION = 0.1  # of the training, its last part, that the statistics are of


def let_statistics_settle(network: nn.Module, steps: int) -> None:
    """Some networks are made for long trainings: the statistics of MobileNetV3 follow by 0.01, over a hundred steps.

    After a training of a few hundred they would be those of weights that are long gone.
    """
    least = min(FASTEST, 1 / (FRACTION * max(steps, 1)))
    for module in network.modules():
        if isinstance(module, _BatchNorm) and module.momentum is not None:
            module.momentum = max(module.momentum, least)
