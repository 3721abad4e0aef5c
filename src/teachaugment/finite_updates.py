"""Whether an augmenter may be updated, in a loop of one's own; runs of the command have a guard that knows more."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from teachaugment.errors import UserError


def require_finite(optimizer: torch.optim.Optimizer, measured: Mapping[str, Tensor]) -> bool:
    """Raise where a gradient is not finite, before it gets into the weights; waits for the device.

    Gradients are those of all processes, so that all of them raise.
    """
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if not gradients or bool(torch.stack([gradient.sum() for gradient in gradients]).isfinite().all()):
        return True
    terms = ", ".join(f"{name} {float(value):.3g}" for name, value in measured.items())
    raise UserError(
        f"a gradient of the augmenter is not finite ({terms}), and it was not updated; look at the target's own loss, "
        "or lower its learning rate or lr"
    )
