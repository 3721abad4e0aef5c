"""Signals that ask to stop: training stops between two batches, where nothing is half done.

They are SIGTERM, Ctrl-C, SIGHUP (the terminal was closed) and SIGUSR1 (which schedulers send before the time is up).
While a program waits for a batch, and before training begins, it leaves at once. A second signal leaves at once from
anywhere, without saving; launchers such as timeout and torchrun send the same one twice in a moment, which counts once.
Several processes stop and save at the same step: they ask each other between two steps, about twice in a second. One
that waits for another which does not answer cannot hear a signal itself: a thread hears it, and leaves in its stead.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

from teachaugment import distributed

Item = TypeVar("Item")
# Not every system has all of them.
NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
MOMENT = 1.0  # seconds within which two signals are one
LEAVE_WITHIN = 60.0  # seconds after a signal, one of several processes leaves the others if it could not stop with them
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
        self.stopped = False  # it is leaving, and saves before
        self.pipe: int | None = None  # into which the system writes the numbers of signals
        self.pipe_before = -1

    def __enter__(self) -> Interrupts:
        self.process = os.getpid()
        if threading.current_thread() is threading.main_thread():  # no other one may
            # What is to be ignored stays so, as nohup has it for SIGHUP.
            heard = [n for n in SIGNALS if n == signal.SIGINT or signal.getsignal(n) != signal.SIG_IGN]
            self.before = {number: signal.signal(number, self._handle) for number in heard}
            self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        if self.pipe is not None:
            signal.set_wakeup_fd(self.pipe_before)
            os.close(self.pipe)
            self.pipe = None
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _listen(self) -> None:
        """Have a thread hear signals too: this one may be waiting inside of torch, where no handler runs."""
        if not hasattr(os, "register_at_fork"):  # Windows
            return
        reader, self.pipe = os.pipe()
        os.set_blocking(self.pipe, False)
        self.pipe_before = signal.set_wakeup_fd(self.pipe, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._forked)
        threading.Thread(target=self._hear, args=(reader,), daemon=True).start()

    def _forked(self) -> None:
        """A process that reads images: its signals are not the parent's."""
        if self.pipe is not None:
            with suppress(ValueError, OSError):
                signal.set_wakeup_fd(-1)

    def _hear(self, reader: int) -> None:
        first, number = 0.0, 0
        while True:
            waits = number and not self.stopped and distributed.world() > 1  # for other processes
            until = max(0.0, first + LEAVE_WITHIN - time.monotonic()) if waits else None
            if not select.select([reader], [], [], until)[0]:
                if not self.stopped:
                    _write(b"\nteachaugment: another process does not answer; leaving without saving\n")
                    os._exit(128 + number)
                continue
            heard = os.read(reader, 1)
            if not heard:
                os.close(reader)
                return
            if heard[0] not in self.before:
                continue
            if not number:
                first, number = time.monotonic(), heard[0]
            elif time.monotonic() - first >= MOMENT:
                os._exit(128 + heard[0])

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
                if not self.busy:
                    self._stop(self.asked)
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
            self.stopped = True
            raise Stopped(asked)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and time.monotonic() - self.asked_at < MOMENT:
            return
        if self.asked or os.getpid() != self.process:  # the second time, or a process that reads images
            os._exit(128 + number)
        self.asked, self.asked_at = number, time.monotonic()
        if not self.busy:
            self._stop(number)
        if distributed.is_main():  # not print: the program may be in the middle of one
            _write(b"\nteachaugment: stopping after this step; once more to leave at once, without saving\n")


def _write(text: bytes) -> None:
    with suppress(OSError):  # the terminal may be gone
        os.write(2, text)
