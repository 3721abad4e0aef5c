"""How networks are called that belong to somebody else: found inside their wrappers, frozen, or as in an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.func import functional_call

from teachaugment.batch import Batch


def each_output(network: Callable[..., Any], batch: Batch) -> Any:
    """The network's output for a batch; of several views, one for each."""
    outputs = tuple(network(view.image) for view in batch.each_view())
    return outputs if batch.others else outputs[0]


def frozen(model: nn.Module, *inputs: Any) -> Any:
    """f(x) with gradients to the image only: no weight gradient is computed, no weight or buffer changes."""
    weights = {name: value.detach() for name, value in model.named_parameters()}
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    return functional_call(model, {**weights, **buffers}, inputs)


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside DataParallel, DistributedDataParallel or torch.compile."""
    while True:
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


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
