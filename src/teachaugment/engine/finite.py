"""Losses, gradients and weights that are not finite: noticed in the step they appear in, by name.

Each update is asked about before it is made. On a CPU the answer is there at once. On an accelerator it would make
every step wait for the device; to stop, that is not needed: the device keeps the first step and tensor that were wrong,
and they are read with the other numbers, and before anything is saved. To skip, it is: one short wait for each update.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment import distributed
from teachaugment.errors import UserError

IN_A_ROW = 100  # skipped updates after which a run stops all the same
STEP = 2**24  # more than there are tensors: a step and a tensor in one number

HINTS = {
    "target": "a lower --lr, a longer warm-up (--optim.warmup_epochs) or --optim.clip 5 may help",
    "augmenter": "a lower --teach.lr may help",
}


class Finite:
    """Says whether an update may be made: raises, or with ``on_nan="skip"`` says no, where a number is not finite."""

    def __init__(self, on_nan: str, device: torch.device, at_once: bool | None = None):
        self.skips = on_nan == "skip"
        self.step = 0  # of the training, for messages; told by whoever trains
        self.at_once = (self.skips or device.type == "cpu") if at_once is None else at_once
        self.first = torch.full((), -1, dtype=torch.int64, device=device)  # step and tensor, where it is not at once
        self.names: list[tuple[str, str]] = []  # network and tensor, by number
        self.first_names: dict[tuple[str, str, int], int] = {}  # where the names of one kind of check begin
        self.skipped = 0  # updates, in this epoch
        self.in_a_row: Counter[str] = Counter()  # by network
        self.news: list[str] = []  # what was skipped, to be told

    def update(self, network: str, module: nn.Module, losses: Mapping[str, Tensor], gradients: bool = True) -> bool:
        """Whether the update of ``module`` from these losses and its gradients may be made, in all processes alike."""
        named = {name: p.grad for name, p in module.named_parameters() if gradients and p.grad is not None}
        tensors = [*losses.values(), *named.values()]

        def names() -> list[str]:
            return [f"the {network}'s {name}" for name in losses] + [
                f"the gradient of the {network}'s {name}" for name in named
            ]

        wrong = self._look(network, "update", names, tensors)
        if wrong is None:
            self.in_a_row[network] = 0
            return True
        self.weights(network, module)  # if they are the cause, skipping does not help
        if not self.skips:
            raise self._error(network, wrong)
        self.skipped += 1
        self.in_a_row[network] += 1
        if self.in_a_row[network] == IN_A_ROW:
            raise self._error(network, f"{IN_A_ROW} updates in a row were skipped; {wrong}")
        if self.in_a_row[network] == 1:
            self.news.append(f"step {self.step}: {wrong} is not finite; the {network}'s update is skipped")
        return False

    def weights(self, network: str, module: nn.Module) -> None:
        """Raise if a weight is not finite: there is no update to skip any more."""
        found = dict(module.named_parameters())
        wrong = self._look(
            network,
            "weights",
            lambda: [f"the {network}'s weight {name}" for name in found],
            [p.detach() for p in found.values()],
        )
        if wrong is not None:
            raise self._error(network, wrong)

    def read(self) -> None:
        """Raise if a number was not finite on the device. Waits for it."""
        if self.at_once or (found := int(self.first)) < 0:
            return
        step, number = divmod(found, STEP)
        network, wrong = self.names[number]
        raise self._error(network, wrong, step)

    def _look(self, network: str, kind: str, names: Callable[[], list[str]], tensors: list[Tensor]) -> str | None:
        """The first of the tensors that is not finite, by name, if that is known at once."""
        finite = summary(tensors).isfinite()
        if self.at_once:
            first = int(torch.where(finite.all(), len(tensors), (~finite).int().argmax()))
            if kind == "update":  # weights and gradients are the same in all processes, losses are not
                first = -distributed.largest(-first)[0]
            return names()[first] if first < len(tensors) else None
        key = network, kind, len(tensors)
        if key not in self.first_names:
            self.first_names[key] = len(self.names)
            self.names += [(network, name) for name in names()]
        here = (~finite).int().argmax() + (self.step * STEP + self.first_names[key])
        self.first = torch.where((self.first < 0) & ~finite.all(), here, self.first)
        return None

    def _error(self, network: str, wrong: str, step: int | None = None) -> UserError:
        at = self.step if step is None else step
        return UserError(f"{wrong} is not finite at step {at}; {HINTS[network]}")


def summary(tensors: list[Tensor]) -> Tensor:
    """One number for each tensor, not finite where any number in it is not.

    On a CPU the sum, 20 times faster there than the largest magnitude. It is not finite either where finite numbers add
    up to more than 32 bits can hold, which is as bad. On an accelerator all largest magnitudes together.
    """
    if tensors[0].device.type == "cpu":
        found = [tensor.sum() for tensor in tensors]
    else:
        found = list(torch._foreach_norm(tensors, math.inf))
    return torch.stack([number.float() for number in found])


def check(state: Mapping[str, Any]) -> None:
    """Refuse a state with a number that is not finite: no checkpoint ever holds one. Waits for the device."""
    found = {name: tensor for name, tensor in tensors_in(state) if tensor.is_floating_point() and tensor.numel()}
    if found and not bool((finite := summary(list(found.values())).isfinite()).all()):
        name = list(found)[int((~finite).int().argmax())]
        raise UserError(f"{name} is not finite at step {state.get('step')}: it is not saved")


def tensors_in(tree: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """All tensors in nested dictionaries and lists, named by their path."""
    if isinstance(tree, Tensor):
        yield name, tree.detach()
    elif isinstance(tree, (Mapping, list, tuple)):
        for key, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from tensors_in(value, f"{name}.{key}" if name else str(key))
