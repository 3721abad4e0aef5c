"""The three-layer perceptron of the augmenter, in the two forms in which it is needed.

* :meth:`MLP.forward`: one vector per image, ordinary dropout. For noise.
* :meth:`MLP.select`: many vectors per image, the pixels, that share one dropout mask, so that within an image the
  colour map is one function of the colour. The mask keeps a fixed number of units (a fifth of them at the paper's
  drop ratio of 0.8), so the kept weights can be cut out: a small network per image, at 1/25 of the price per pixel.

Both read weights from a :class:`Source`: the augmenter itself, or snapshots of it, another one for each image.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLOPE = 0.2  # of the leaky ReLU (appendix)


class Source(Protocol):
    """Where weights are read from, by parameter name."""

    def linear(self, layer: str, x: Tensor) -> Tensor:
        """The linear layer of that name on one vector per image, [B, inputs] to [B, outputs]."""
        ...

    def rows(self, name: str, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        """Of a parameter, per image: the given rows [B, R], and of those the given columns [B, K] if any."""
        ...

    def blend(self, name: str, weights: Tensor) -> Tensor:
        """Of a table with one row per class, per image: its rows weighted by ``weights`` [B, classes]."""
        ...


class Live:
    """A :class:`Source` that reads an augmenter's own parameters, with gradient, in float32 at least."""

    def __init__(self, augmenter: nn.Module) -> None:
        self.parameters = dict(augmenter.named_parameters())

    def __getitem__(self, name: str) -> Tensor:
        value = self.parameters[name]
        return value.to(torch.promote_types(value.dtype, torch.float32))

    def linear(self, layer: str, x: Tensor) -> Tensor:
        return F.linear(x, self[f"{layer}.weight"], self[f"{layer}.bias"])

    def rows(self, name: str, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        # embedding and gather, because the gradient of indexing adds up in another order on each run
        table = self[name]
        if table.ndim == 1:
            return F.embedding(rows, table[:, None])[..., 0]
        taken = F.embedding(rows, table)
        return taken if columns is None else taken.gather(2, columns[:, None, :].expand(-1, rows.shape[1], -1))

    def blend(self, name: str, weights: Tensor) -> Tensor:
        return weights.to(self[name].dtype) @ self[name]


def context_rows(source: Source, table: str, context: Tensor) -> Tensor:
    """What a per-class table says for each image: its label's row, or a blend for vectors of class weights."""
    if context.is_floating_point():
        return source.blend(table, context)
    return source.rows(table, context[:, None])[:, 0]


class SubNetwork(NamedTuple):
    """One small perceptron per image, ready to run over many inputs."""

    weights: tuple[Tensor, Tensor, Tensor]  # [B, kept, inputs], [B, kept, kept], [B, outputs, kept]
    biases: tuple[Tensor, Tensor, Tensor]  # [B, kept], [B, kept], [B, outputs]
    shift: Tensor | None  # [B, inputs], from the context

    def __call__(self, x: Tensor) -> Tensor:
        """[B, inputs, P] (or [1, inputs, P]: the same inputs everywhere) to [B, outputs, P]."""
        if self.shift is not None:
            x = x + self.shift[:, :, None]
        x = x.expand(len(self.weights[0]), -1, -1)
        for weight, bias in zip(self.weights[:2], self.biases[:2], strict=True):
            x = F.leaky_relu(torch.baddbmm(bias[:, :, None], weight, x), SLOPE)
        return torch.baddbmm(self.biases[2][:, :, None], self.weights[2], x)


class MLP(nn.Module):
    """Linear, dropout, leaky ReLU, twice, then a linear layer that starts at zero. A context shifts the input."""

    def __init__(self, inputs: int, hidden: int, outputs: int, classes: int | None, dropout: float) -> None:
        super().__init__()
        self.hidden, self.outputs, self.dropout = hidden, outputs, dropout
        self.kept = max(1, round(hidden * (1 - dropout)))
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, outputs)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        self.context = nn.Parameter(0.1 * torch.randn(classes, inputs)) if classes else None

    def forward(
        self, x: Tensor, context: Tensor | None, source: Source, name: str, generator: torch.Generator | None = None
    ) -> Tensor:
        """[B, inputs] to [B, outputs] with the weights that ``source`` holds for the network ``name``."""
        if context is not None:
            x = x + context_rows(source, f"{name}.context", context)
        for layer in ("first", "second"):
            kept = torch.rand(len(x), self.hidden, device=x.device, generator=generator) >= self.dropout
            x = F.leaky_relu(source.linear(f"{name}.{layer}", x), SLOPE) * (kept / (1 - self.dropout))
        return source.linear(f"{name}.last", x)

    def draw_units(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """For each of ``n`` images the units kept in either hidden layer, [n, kept] each."""
        scores = torch.rand(2, n, self.hidden, device=self.first.weight.device, generator=generator)
        first, second = scores.topk(self.kept, sorted=False).indices
        return first, second

    def select(self, context: Tensor | None, source: Source, name: str, units: tuple[Tensor, Tensor]) -> SubNetwork:
        """Cut each image's sub-network out of the weights that ``source`` holds for the network ``name``."""
        first, second = units
        scale = self.hidden / self.kept  # keeps the expectation, as 1 / (1 - dropout) does in ordinary dropout
        outputs = torch.arange(self.outputs, device=first.device).expand(len(first), -1)
        return SubNetwork(
            weights=(
                source.rows(f"{name}.first.weight", first),
                source.rows(f"{name}.second.weight", second, first) * scale,
                source.rows(f"{name}.last.weight", outputs, second) * scale,
            ),
            biases=(
                source.rows(f"{name}.first.bias", first),
                source.rows(f"{name}.second.bias", second),
                source.rows(f"{name}.last.bias", outputs),
            ),
            shift=None if context is None else context_rows(source, f"{name}.context", context),
        )
