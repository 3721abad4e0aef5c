"""SIGTERM and Ctrl-C: training stops between two batches, where nothing is half done.

While a program waits for a batch, and before training begins, it leaves at once. A second signal leaves at once from
anywhere, without saving; launchers such as timeout and torchrun send the same one twice in a moment, which counts once.
Several processes stop and save at the same step: they ask each other between two steps, about twice in a second.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, TypeVar

from teachaugment import distributed

Item = TypeVar("Item")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
MOMENT = 1.0  # seconds within which two signals are one
ASK_EVERY = 0.5  # seconds between two agreements of several processes


class Stopped(BaseException):
    """A signal asked to stop. Not an Exception: nobody who handles mistakes is to swallow it."""

    def __init__(self, number: int):
        self.name, self.code = signal.Signals(number).name, 128 + number
        super().__init__(f"stopped by {self.name}")


class Interrupts:
    """Used as a context, it takes over the signals; otherwise it only passes batches on."""

    def __init__(self) -> None:
        self.asked, self.asked_at = 0, 0.0  # the signal, and when it came
        self.busy = False  # something must not be left half done
        self.waited = 0.0  # seconds, for batches
        self.due: Callable[[], bool] = lambda: False  # whether it is time to save
        self.save: Callable[[], None] = lambda: None
        self.steps, self.pause, self.met = 0, 1, time.monotonic()  # since the last agreement, and until the next
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        self.process = os.getpid()
        if threading.current_thread() is threading.main_thread():  # no other one may
            self.before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def over(self, batches: Iterable[Item], training: bool = False) -> Iterator[Item]:
        """The same batches. Between two of them is the place to stop and, in training, to save.

        In training all processes have as many batches; in an evaluation they may not, and meet at its end.
        """
        iterator = iter(batches)
        while training or not self.asked:
            if training:
                self._between()
            began = time.monotonic()
            try:
                self.busy = distributed.world() > 1  # they leave together, and may be waiting for this one
                if not self.busy and self.asked:
                    raise Stopped(self.asked)
                item = next(iterator)
            except StopIteration:
                break
            finally:
                self.busy = True
                self.waited += time.monotonic() - began
            yield item
        if not training:
            self._stop(distributed.largest(self.asked)[0])

    def _between(self) -> None:
        """Save if it is time and stop if that is wished, in all processes if in one."""
        self.steps += 1
        if self.steps < self.pause:
            return
        asked, due = self.asked, int(self.due())
        if distributed.world() > 1:
            now = time.monotonic()
            soon = max(1, round(self.steps * ASK_EVERY / max(now - self.met, 1e-9)))
            asked, due, later = distributed.largest(asked, due, -soon)
            self.steps, self.pause, self.met = 0, -later, now
        if due:
            self.save()
        self._stop(asked)

    def _stop(self, asked: int) -> None:
        if asked:
            raise Stopped(asked)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and time.monotonic() - self.asked_at < MOMENT:
            return
        if self.asked or os.getpid() != self.process:  # the second time, or a process that reads images
            os._exit(128 + number)
        self.asked, self.asked_at = number, time.monotonic()
        if not self.busy:
            raise Stopped(number)
        if distributed.is_main():  # not print: the program may be in the middle of one
            os.write(2, b"\nteachaugment: stopping after this step; once more to leave at once, without saving\n")
