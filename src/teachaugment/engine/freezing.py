"""What of a pretrained target stays as it is: its backbone for some epochs or for good, its batch norms."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from teachaugment.models.parts import backbone_modules, heads, in_head

FOR_GOOD = -1


class Freezing:
    """Which parameters learn in an epoch, and which modules are in training mode: a function of the epoch alone."""

    def __init__(self, target: nn.Module, epochs: int, norms: bool) -> None:
        self.target, self.epochs, self.norms = target, epochs, norms
        self.learning = tuple(p for p in target.parameters() if p.requires_grad)
        self.fixed: set[nn.Parameter] = set()  # in the epoch under way

    def train(self, epoch: int) -> bool:
        """Training mode for all that learns in the epoch, counted from 0; returns whether that has changed.

        What does not learn is as in an evaluation: neither dropout nor new statistics of batch norm.
        """
        self.target.train()
        frozen = self.epochs == FOR_GOOD or epoch < self.epochs
        modules = list(backbone_modules(self.target)) if frozen else []
        fixed: set[nn.Parameter] = set()
        if frozen:
            head = heads(self.target)
            fixed |= {p for name, p in self.target.named_parameters() if not in_head(name, head)}
        if self.norms:
            norms = [module for module in backbone_modules(self.target) if isinstance(module, _BatchNorm)]
            modules += norms
            fixed |= {p for norm in norms for p in norm.parameters()}
        for module in modules:
            module.training = False
        changed, self.fixed = fixed != self.fixed, fixed
        for p in self.learning:
            p.requires_grad_(p not in fixed)
        return changed
