"""What target and teacher say of the augmented images, and the gradient of the objective at these images (line 11).

An objective that is a sum of a term of each network (``Sum``) lets one pass end before the other begins: the gradient
at the images through the target, whose memory is then free, then through the teacher. So an update of the augmenter
needs the memory of one network's pass and of the augmenter's own, which counts where the network is small. An objective
that needs both outputs at once has both passes alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment.batch import Batch
from teachaugment.losses import Loss
from teachaugment.networks import in_32_bits
from teachaugment.objectives.passes import Objective, Passes, Sum, Terms


class Cut:
    """A batch with its graph cut: gradients gather at its images, until ``backward`` takes them on to where it came
    from. Boxes that have moved with their images, and all views, are cut as well."""

    def __init__(self, batch: Batch) -> None:
        self.ends: list[tuple[Tensor, Tensor]] = []
        self.batch = batch.map(self._end)

    def _end(self, tensor: Tensor) -> Tensor:
        if not tensor.requires_grad:
            return tensor
        leaf = tensor.detach().requires_grad_()
        self.ends.append((tensor, leaf))
        return leaf

    def backward(self, besides: Tensor) -> None:
        """One pass back from the images, with what has gathered there, and from a loss besides."""
        gathered = [(tensor, leaf.grad) for tensor, leaf in self.ends if leaf.grad is not None]
        ends = [(besides, None), *gathered] if besides.requires_grad else gathered
        if ends:
            torch.autograd.backward([tensor for tensor, _ in ends], [gradient for _, gradient in ends])


def judge(
    objective: Objective,
    networks: tuple[nn.Module, nn.Module],
    losses: tuple[Loss, Loss],
    outputs: Callable[[nn.Module, Batch], Any],
    seen: Batch,
    weight: float,
    plain: Callable[[], tuple[Any, Any]],
) -> Terms:
    """The objective's terms; the gradient of minus the objective, times ``weight``, is added at the images ``seen``.

    ``networks`` and ``losses`` are the target's and the teacher's; ``outputs`` calls a network. The networks run in the
    precision of the loop that surrounds this, losses in 32 bits.
    """

    def output(network: nn.Module, gradient: bool = True) -> Any:
        with torch.set_grad_enabled(gradient):
            return outputs(network, seen)

    def ascend(value: Tensor) -> None:
        if value.requires_grad:
            (-weight * value).backward()

    def in_turn(network: nn.Module, loss: Loss, share: float) -> Tensor:
        said = output(network, share != 0)  # a network that has no say needs no gradient
        with torch.set_grad_enabled(share != 0), in_32_bits(seen.image.device):
            value = loss(said, seen.truth)
            ascend(share * value)
        return value.detach()  # and all that the pass kept is gone

    if isinstance(objective, Sum):
        shares = (objective.target, objective.teacher)
        return objective.terms(*map(in_turn, networks, losses, shares))
    target, teacher = map(output, networks)
    with torch.enable_grad(), in_32_bits(seen.image.device):
        terms = objective(Passes(target, teacher, seen.truth, *losses, plain))
    ascend(terms.objective)
    return terms
