"""What a classifier says about an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class ClassPrediction:
    """The probability of every class."""

    probabilities: Tensor  # [K], float32, in memory of the CPU
    classes: Sequence[str]

    number: ClassVar[str] = "probability"
    shown: ClassVar[int] = 1

    @property
    def index(self) -> int:
        """The number of the most probable class."""
        return int(self.probabilities.argmax())

    @property
    def label(self) -> str:
        """The name of the most probable class."""
        return self.classes[self.index]

    @property
    def probability(self) -> float:
        """That of the most probable class."""
        return float(self.probabilities[self.index])

    def top(self, count: int) -> list[tuple[str, float]]:
        """The ``count`` most probable classes, each with its probability."""
        best = self.probabilities.topk(min(count, len(self.classes)))
        return [(self.classes[k], p) for p, k in zip(best.values.tolist(), best.indices.tolist(), strict=True)]

    def picture(self) -> None:
        return None

    def more(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        return f"<{self.label}, {100 * self.probability:.1f} %>"
