"""Whether an augmenter may be updated, in a loop of one's own; runs of the command have a guard that knows more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from teachaugment.errors import UserError


def require_finite(optimizer: torch.optim.Optimizer, measured: Mapping[str, Tensor]) -> bool:
    """Keep a gradient that is not finite out of the weights. Gradients are those of all processes: they agree.

    On a CPU it raises. An accelerator is not waited for: there the gradients become zero, and ``measured`` shows it.
    """
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if not gradients:
        return True
    finite = torch.stack([gradient.sum() for gradient in gradients]).isfinite().all()
    if finite.device.type != "cpu":
        clear_unless(finite, gradients)
        return True
    if bool(finite):
        return True
    terms = ", ".join(f"{name} {float(value):.3g}" for name, value in measured.items())
    raise UserError(
        f"a gradient of the augmenter is not finite ({terms}), and it was not updated; look at the target's own loss, "
        "or lower its learning rate or lr"
    )


def clear_unless(finite: Tensor, gradients: Sequence[Tensor]) -> None:
    """Zero in place of all gradients unless all of them are finite; nothing is read back from the device."""
    for gradient in gradients:
        gradient.masked_fill_(~finite, 0.0)
