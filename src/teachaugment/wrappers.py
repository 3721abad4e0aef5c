"""Modules that wrap another one to train it elsewhere, or faster."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside DataParallel, DistributedDataParallel or torch.compile, which are known by their types: a model
    of yours may have a part called ``module``."""
    while True:
        if isinstance(model, (DataParallel, DistributedDataParallel)):
            model = model.module
        elif _is_compiled(model):
            model = model._orig_mod  # type: ignore[assignment]
        else:
            return model


def _is_compiled(model: nn.Module) -> bool:
    """By its type's name: to import the type takes seconds, and whoever has compiled something has imported it."""
    kind = type(model)
    return kind.__name__ == "OptimizedModule" and kind.__module__.startswith("torch.")
