"""What the terminal shows while a run trains."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from teachaugment import progress
from teachaugment.progress import duration

RECENT = 120  # seconds that the pace is taken from
SPOKEN_EVERY = 30  # seconds between two lines within an epoch, where there is no terminal


class TrainingDisplay(progress.Display):
    """Epoch, step, the metrics so far, speed and the time left."""

    def __init__(self, total: int, done: int = 0, epochs: int = 1, stream: TextIO | None = None):
        super().__init__(total, done, "{desc} {percentage:3.0f}%|{bar}| {unit} left{postfix}", stream)
        self.total, self.done, self.epochs = total, done, epochs
        self.marks = deque([(self.spoken, done)])  # when so many steps were done, of the last minutes

    def step(self, epoch: int) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.marks[-1][0] >= 1:
            self.marks.append((now, self.done))
        while len(self.marks) > 1 and now - self.marks[1][0] > RECENT:
            self.marks.popleft()
        if self.bar is not None:
            self.bar.unit = self.left()
            self.bar.set_description_str(f"epoch {epoch}/{self.epochs}", refresh=False)
            self.bar.update()

    def reading(self, epoch: int, metrics: Mapping[str, float], rate: float) -> None:
        """Numbers just read from the device; without a terminal they are printed only every half minute."""
        text = f"{numbers(metrics)}  {rate:,.0f} images/s"
        if self.bar is not None:
            self.bar.set_postfix_str(text)
        elif self.silent_for(SPOKEN_EVERY):
            self.say(f"epoch {epoch}/{self.epochs}  step {self.done}/{self.total}  {text}  {self.left()} left")

    def epoch(self, record: Mapping[str, Any], metric: str, shown: Sequence[str]) -> None:
        """The line of one epoch, from its record in the log."""
        train = {name: value for name, value in record["train"].items() if name in shown}
        parts = [f"epoch {record['epoch']}/{self.epochs}", numbers(train)]
        for split in ("val", "test"):
            for name, result in record.get(split, {}).items():
                parts.append(f"{split} {name} {metric} {100 * result[metric]:.1f} %")
        parts.append(f"{record['time']['images_per_second']:,.0f} images/s")
        self.say("  ".join(parts if self.bar is not None else [*parts, f"{self.left()} left"]))

    def left(self) -> str:
        """The time left at the pace of the last minutes: a training does not always do the same in a step."""
        began, done = self.marks[0]
        steps = self.done - done
        return duration((time.monotonic() - began) / steps * (self.total - self.done)) if steps else "?"


def numbers(metrics: Mapping[str, float]) -> str:
    """``loss 0.812  accuracy 71.2 %``: shares of one are shown in percent."""
    plain = {"loss": ".3f", "spread": ".2f", "rank": ".1f"}
    return "  ".join(f"{k} {v:{plain[k]}}" if k in plain else f"{k} {100 * v:.1f} %" for k, v in metrics.items())
