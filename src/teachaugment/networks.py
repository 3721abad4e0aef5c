"""How networks are called that belong to somebody else: found inside their wrappers, frozen, or as in an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DataParallel, DistributedDataParallel

from teachaugment.batch import Batch

Forward = Callable[[Callable[..., Any], Batch], Any]  # (network, batch as the network sees it) -> output


def each_output(network: Callable[..., Any], batch: Batch) -> Any:
    """The network's output for a batch; of several views, one for each."""
    outputs = tuple(network(view.image) for view in batch.each_view())
    return outputs if batch.others else outputs[0]


def frozen(model: nn.Module, *inputs: Any) -> Any:
    """f(x) with gradients to the image only: no weight gradient is computed, no weight or buffer changes."""
    weights = {name: value.detach() for name, value in model.named_parameters()}
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    return functional_call(model, {**weights, **buffers}, inputs)


def frozen_like(model: nn.Module) -> Callable[..., Any]:
    """``frozen``, compiled if the model is."""
    return torch.compile(frozen) if _is_compiled(model) else frozen


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


def in_32_bits(device: torch.device) -> torch.autocast:
    """Augmentation and losses are not for half precision, whatever surrounds them; networks are called as they are."""
    return torch.autocast(device.type, enabled=False)


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """The models in eval mode, and afterwards each of their modules in the mode it was in."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def as_it_trains(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, but with the batch's own statistics in the batch norms that train with them.

    Running statistics are far behind a network that has made few steps. They are neither used nor changed here.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.training]
    norms = [norm for norm in norms if not isinstance(norm, nn.SyncBatchNorm)]  # which would wait for other processes
    tracked = [norm.track_running_stats for norm in norms]
    with evaluating(model):
        for norm in norms:
            norm.training, norm.track_running_stats = True, False
        try:
            yield
        finally:
            for norm, was in zip(norms, tracked, strict=True):
                norm.track_running_stats = was
