"""Experience replay: the target trains with augmenters of the past as well as the present (Sec. 3.3).

All snapshots lie in one stack of tensors, so that a batch in which every image has its weights from another snapshot
is one gather, at the same price for one snapshot and for five hundred. Weight matrices are kept in eight bits with a
scale per row: a quarter of the memory and of the checkpoint, at an error far below what dropout adds.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from teachaugment.augment.augmenter import Augmenter
from teachaugment.augment.mlp import Sources

CHUNK = 16  # snapshots by which the stack grows


def quantize(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix [R, C] to eight bits and a scale per row [R, 1]."""
    scale = weight.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127
    return (weight / scale).round().to(torch.int8), scale


class Replay:
    """Snapshots of an augmenter with priorities γ^(S-i), and the augmenter itself with priority 1."""

    def __init__(self, augmenter: Augmenter, decay: float = 0.99) -> None:
        self.augmenter, self.decay = augmenter, decay
        self.count = 0
        self.values: dict[str, Tensor] = {}
        self.scales: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return self.count

    def push(self) -> None:
        """Keep a snapshot of the augmenter as it is now."""
        self._reserve(self.count + 2)
        self._write(self.count)
        self.count += 1
        self.refresh()

    def refresh(self) -> None:
        """Say that the augmenter has changed: the slot behind the snapshots follows it."""
        if self.count:
            self._write(self.count)

    def priorities(self) -> Tensor:
        """γ^(S-i) for snapshots i = 1 … S, then 1 for the augmenter itself; not normalised."""
        device = self.augmenter.device
        ages = torch.arange(self.count - 1, -1, -1, device=device)
        return torch.cat([self.decay ** ages.float(), torch.ones(1, device=device)])

    def draw(self, n: int, generator: torch.Generator | None = None) -> Sources | None:
        """For ``n`` images the weights to use, one draw per group of images; None while there are no snapshots."""
        if not self.count:
            return None
        group = self.augmenter.settings.group
        slots = self.slots(-(-n // group), generator)
        per_image = slots.repeat_interleave(group, output_size=len(slots) * group)[:n]
        return Sources(Slots(self, slots), Slots(self, per_image))

    def slots(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """The numbers of ``n`` snapshots, drawn by their priorities; the last is that of the augmenter itself."""
        cumulative = self.priorities().cumsum(0)
        point = torch.rand(n, device=cumulative.device, generator=generator) * cumulative[-1]
        return torch.searchsorted(cumulative, point, right=True).clamp_max(self.count)

    def nbytes(self) -> int:
        return sum(t.nbytes for t in (*self.values.values(), *self.scales.values()))

    def shapes(self, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Shape and type of each tensor in a state of ``count`` snapshots: of the values, and of the scales."""
        encoded = [(name, *self._encode(parameter)) for name, parameter in self.augmenter.named_parameters()]
        values = {name: (torch.Size((count, *v.shape)), v.dtype) for name, v, _ in encoded}
        scales = {name: (torch.Size((count, *s.shape)), s.dtype) for name, _, s in encoded if s is not None}
        return values, scales

    def state_dict(self) -> dict[str, Any]:
        return {
            "values": {name: value[: self.count].clone() for name, value in self.values.items()},
            "scales": {name: scale[: self.count].clone() for name, scale in self.scales.items()},
            "count": self.count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the snapshots exactly; the slot behind them follows the augmenter, which must be restored first."""
        self.count, self.values, self.scales = 0, {}, {}
        if state["count"]:
            self._reserve(int(state["count"]) + 1)
            self.count = int(state["count"])
            for stack, saved in ((self.values, state["values"]), (self.scales, state["scales"])):
                for name, value in saved.items():
                    stack[name][: self.count] = value
            self.refresh()

    def _reserve(self, slots: int) -> None:
        """Make room for at least ``slots`` slots."""
        have = len(next(iter(self.values.values()))) if self.values else 0
        if slots <= have:
            return
        room = -(-slots // CHUNK) * CHUNK
        for name, parameter in self.augmenter.named_parameters():
            stored, scale = self._encode(parameter)
            for stack, part in ((self.values, stored), (self.scales, scale)):
                if part is not None:
                    grown = part.new_zeros(room, *part.shape)
                    if have:
                        grown[:have] = stack[name]
                    stack[name] = grown

    @torch.no_grad()
    def _write(self, slot: int) -> None:
        for name, parameter in self.augmenter.named_parameters():
            stored, scale = self._encode(parameter)
            self.values[name][slot] = stored
            if scale is not None:
                self.scales[name][slot] = scale

    @staticmethod
    def _encode(parameter: Tensor) -> tuple[Tensor, Tensor | None]:
        """Matrices in eight bits; all else is small and stays as it is, the two columns of log-odds too."""
        value = parameter.detach()
        return quantize(value) if value.ndim == 2 and value.shape[1] > 2 else (value, None)


def look_up(table: Tensor, rows: Tensor) -> Tensor:
    """``table[rows]``, several times faster on a CPU."""
    return table.index_select(0, rows.flatten()).reshape(*rows.shape, *table.shape[1:])


class Slots:
    """One slot of a replay for each of N sub-networks: a :class:`~teachaugment.augment.mlp.Source` of their weights."""

    def __init__(self, replay: Replay, slots: Tensor) -> None:
        self.values, self.scales, self.slots = replay.values, replay.scales, slots

    def rows(self, name: str, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        value = self.values[name]
        row = self.slots[:, None] * value.shape[1] + rows  # in the stack seen as one long table
        if columns is None:
            taken = look_up(value.flatten(0, 1), row)
        else:
            taken = look_up(value.flatten(), row[:, :, None] * value.shape[2] + columns[:, None, :])
        return taken * look_up(self.scales[name].flatten(0, 1), row) if name in self.scales else taken

    def blend(self, name: str, weights: Tensor) -> Tensor:
        table = self.values[name][self.slots]
        if name in self.scales:
            table = table * self.scales[name][self.slots]
        return torch.einsum("bk,bk...->b...", weights.to(table.dtype), table)
