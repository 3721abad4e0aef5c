"""What a detector says about an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from teachaugment.models.boxes import SURE


@dataclass(frozen=True, eq=False, repr=False)
class BoxPrediction:
    """Boxes in pixels of the image, the surest first; all that were found, however unsure."""

    boxes: Tensor  # [N, 4] float, in memory of the CPU: left, upper, right, lower
    scores: Tensor  # [N]
    labels: Tensor  # [N] int64
    classes: Sequence[str]

    number: ClassVar[str] = "score"
    shown: ClassVar[int] = 3

    def sure(self) -> list[dict[str, Any]]:
        """The boxes with a score that counts."""
        rows = zip(self.boxes.tolist(), self.scores.tolist(), self.labels.tolist(), strict=True)
        return [
            {"class": self.classes[k], "score": round(score, 6), "box": [round(side, 2) for side in box]}
            for box, score, k in rows
            if score >= SURE
        ]

    def top(self, count: int) -> list[tuple[str, float]]:
        """The surest ``count`` classes, each with the score of its surest box."""
        best: dict[str, float] = {}
        for box in self.sure():
            best.setdefault(box["class"], box["score"])
        return list(best.items())[:count]

    def picture(self) -> None:
        return None

    def more(self) -> dict[str, Any]:
        return {"boxes": self.sure()}

    def __repr__(self) -> str:
        named = [f"{box['class']} {box['score']:.2f}" for box in self.sure()]
        return f"<{', '.join(named) or 'nothing'}>"
