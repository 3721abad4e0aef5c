"""What a trained network says about one image, whatever the task."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from teachaugment.show.pictures import Picture


class Prediction(Protocol):
    """One answer. Commands and files know it by this; a task's own has more."""

    number: ClassVar[str]  # what stands beside a class, in a word: its probability, its share of the pixels
    shown: ClassVar[int]  # how many classes a person wants to see

    def top(self, count: int) -> list[tuple[str, float]]:
        """At most ``count`` classes, each with its number, the largest first."""
        ...

    def picture(self) -> Picture | None:
        """The answer itself, where it is a picture."""
        ...

    def more(self) -> dict[str, Any]:
        """What a file of JSON says besides, by name."""
        ...
