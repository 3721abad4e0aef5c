"""The three-layer perceptron of the augmenter and its dropout, which keeps a fixed number of units.

At the paper's drop ratio of 0.8 a draw uses one fifth of the hidden units. Keeping exactly that many (and not each unit
with probability 0.2) changes nothing in expectation, and lets :meth:`MLP.select` cut the kept weights out: a network of
1/25 of the size, several of them at once, each with weights from another snapshot if need be.

* The RGB network has one sub-network per image, so that within an image the colour map is one function of the colour.
* A noise network has one per group of images; its hidden activations are normalised over the kept units (layer norm
  without weights). Without that, the mean of the activations, which does not depend on the noise, outgrows what does,
  and the augmenter ends in one constant warp for all images.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLOPE = 0.2  # of the leaky ReLU (appendix)


class Source(Protocol):
    """Where the weights of N sub-networks are read from, by parameter name."""

    def rows(self, name: str, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        """The given rows [N, R] of a parameter, and of those the given columns [N, K] if any."""
        ...

    def blend(self, name: str, weights: Tensor) -> Tensor:
        """The rows of a table with one row per class, weighted by ``weights`` [N, classes]."""
        ...


class Live:
    """A :class:`Source` that reads an augmenter's own parameters, with gradient, in float32 at least."""

    def __init__(self, augmenter: nn.Module) -> None:
        self.parameters = dict(augmenter.named_parameters())

    def __getitem__(self, name: str) -> Tensor:
        value = self.parameters[name]
        return value.to(torch.promote_types(value.dtype, torch.float32))

    def rows(self, name: str, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        # embedding and gather, because the gradient of indexing adds up in another order on each run
        table = self[name]
        taken = F.embedding(rows, table.reshape(len(table), -1)).reshape(*rows.shape, *table.shape[1:])
        return taken if columns is None else taken.gather(2, columns[:, None, :].expand(-1, rows.shape[1], -1))

    def blend(self, name: str, weights: Tensor) -> Tensor:
        return weights.to(self[name].dtype) @ self[name]


class Sources(NamedTuple):
    """The same weights, addressed once per group of images and once per image."""

    groups: Source
    images: Source


def context_rows(source: Source, table: str, context: Tensor) -> Tensor:
    """What a per-class table says for each image: its label's row, or a blend for vectors of class weights."""
    if context.is_floating_point():
        return source.blend(table, context)
    return source.rows(table, context[:, None])[:, 0]


def class_biases(source: Source, table: str, context: Tensor, units: Tensor) -> Tensor:
    """What a table classes x hidden adds to the given units [N, kept] of the first layer, for each image's class."""
    if context.is_floating_point():
        return source.blend(table, context).gather(1, units)
    return source.rows(table, context[:, None], units)[:, 0]


class SubNetwork(NamedTuple):
    """N small perceptrons, ready to run over P inputs each."""

    weights: tuple[Tensor, Tensor, Tensor]  # [N, kept, inputs], [N, kept, kept], [N, outputs, kept]
    biases: tuple[Tensor, Tensor, Tensor]  # [N, kept, 1], [N, kept, 1], [N, outputs, 1]

    def of(self, rows: Tensor) -> SubNetwork:
        """Some of the perceptrons."""
        (a, b, c), (d, e, f) = self
        return SubNetwork((a[rows], b[rows], c[rows]), (d[rows], e[rows], f[rows]))

    def __call__(self, x: Tensor, normalize: bool = False) -> Tensor:
        """[N, inputs, P] to [N, outputs, P]."""
        for weight, bias in zip(self.weights[:2], self.biases[:2], strict=True):
            # in place, and not baddbmm: that would first copy the bias to every pixel
            x = F.leaky_relu((weight @ x).add_(bias), SLOPE, inplace=True)
            if normalize:
                x = F.layer_norm(x.mT, x.shape[1:2]).mT
        return (self.weights[2] @ x).add_(self.biases[2])


class MLP(nn.Module):
    """Linear, dropout, leaky ReLU, twice, then a linear layer that starts at zero.

    A context has a learned row per class. It shifts the input, or with ``class_bias`` it is added to the first layer's
    biases, which is what a one-hot vector beside the input comes to. ``normalized`` puts layer norm behind each ReLU.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        outputs: int,
        classes: int | None,
        dropout: float,
        *,
        class_bias: bool = False,
        normalized: bool = True,
    ) -> None:
        super().__init__()
        self.hidden, self.outputs, self.class_bias, self.normalized = hidden, outputs, class_bias, normalized
        self.kept = max(1, round(hidden * (1 - dropout)))
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, outputs)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        self.context = nn.Parameter(0.1 * torch.randn(classes, hidden if class_bias else inputs)) if classes else None

    def draw_units(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """For each of ``n`` sub-networks the units kept in either hidden layer, [n, kept] each."""
        return self.units(self.scores(n, generator))

    def scores(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """The random numbers [2, n, hidden] that decide which units ``n`` sub-networks keep."""
        return torch.rand(2, n, self.hidden, device=self.first.weight.device, generator=generator)

    def units(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Those with the highest scores."""
        first, second = scores.topk(self.kept, sorted=False).indices
        return first, second

    def select(
        self, source: Source, name: str, units: tuple[Tensor, Tensor], context: Tensor | None = None
    ) -> SubNetwork:
        """Cut the sub-networks out of the weights that ``source`` holds for the network ``name``.

        ``context``: the class of each sub-network's image, where the classes have biases of their own.
        """
        first, second = units
        bias = source.rows(f"{name}.first.bias", first)
        if self.class_bias and context is not None:
            bias = bias + class_biases(source, f"{name}.context", context, first)
        scale = self.hidden / self.kept  # keeps the expectation, as 1 / (1 - dropout) does in ordinary dropout
        outputs = torch.arange(self.outputs, device=first.device).expand(first.shape[0], -1)
        return SubNetwork(
            weights=(
                source.rows(f"{name}.first.weight", first),
                source.rows(f"{name}.second.weight", second, first) * scale,
                source.rows(f"{name}.last.weight", outputs, second) * scale,
            ),
            biases=(
                bias[:, :, None],
                source.rows(f"{name}.second.bias", second)[:, :, None],
                source.rows(f"{name}.last.bias", outputs)[:, :, None],
            ),
        )

    def from_noise(self, noise: Tensor, sources: Sources, name: str, group: int, scores: Tensor) -> Tensor:
        """One noise vector per image, [B, inputs] to [B, outputs]; each group of images shares a sub-network."""
        n, inputs = noise.shape
        groups = scores.shape[1]
        network = self.select(sources.groups, name, self.units(scores))
        columns = F.pad(noise, (0, 0, 0, groups * group - n)).reshape(groups, group, inputs).mT
        return network(columns, self.normalized).mT.reshape(groups * group, self.outputs)[:n]
