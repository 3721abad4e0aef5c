"""Several processes that train one model: torchrun starts them, torch.distributed connects them.

All of this works in a single process too, where it does nothing. Only the main process, that of rank 0, writes files
and speaks; an error in one of them ends all of them, with one message.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from teachaugment.distributed import is_main, rank, world
from teachaugment.errors import UserError, unforeseen
from teachaugment.terminal import say_here

# For a process that does not answer, such as while another one downloads data. One that has ended is noticed at once.
TIMEOUT = timedelta(minutes=30)
GIVE_WAY = 5.0  # seconds in which torchrun ends the other processes of a failed one, before they speak themselves
# In what torch says of a process that is gone.
LOST = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe")

T = TypeVar("T")


def launched() -> bool:
    """Whether torchrun, or something like it, has started this process as one of several."""
    known = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()
    return known and int(os.environ["WORLD_SIZE"]) > 1


def local_rank() -> int:
    """The number of this process among those of its machine, which is the number of its device."""
    return int(os.environ["LOCAL_RANK"]) if launched() else 0


@contextlib.contextmanager
def session(device: torch.device, stopping: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Join the other processes and leave them, together at the end or at once after an error.

    ``stopping`` tells whether this process has been asked to end: one that has does not complain that others are gone.
    """
    if not launched():
        yield
        return
    backends = {kind: dist.get_default_backend_for_device(kind) for kind in ("cpu", device.type)}
    try:
        if device.type != "cpu":
            torch.accelerator.set_device_index(device.index)
        dist.init_process_group(",".join(f"{kind}:{name}" for kind, name in backends.items()), timeout=TIMEOUT)
        yield
        wait()
        dist.destroy_process_group()
    except UserError as error:
        if is_main():
            raise
        _end_after_the_others(f"process {rank()}: {error}")
    except Exception as error:
        # Torch's own kinds of RuntimeError are included.
        lost = isinstance(error, dist.DistError) or any(word in str(error).lower() for word in LOST)
        if not (lost and isinstance(error, RuntimeError)):
            if is_main():
                raise
            _end_after_the_others(unforeseen(error, f"process {rank()}"))
        if stopping():
            raise SystemExit(128 + signal.SIGTERM) from None
        reason = str(error).strip().splitlines()[0][:200]
        _end_after_the_others(f"process {rank()} has lost another one ({reason}); continue with --resume")


def _end_after_the_others(message: str) -> NoReturn:
    """Give way to a process that has more to say: torchrun ends all when one has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(GIVE_WAY)
    say_here(f"teachaugment: error: {message}")
    raise SystemExit(2)


def parallel(module: nn.Module) -> DistributedDataParallel:
    """The network with gradients that are averaged over the processes while it goes backward. Its buffers are left
    alone: ``average_buffers`` after the step keeps what batch norm has learned in every process."""
    new = "forward_sync_buffers"  # as newer versions of torch call the option
    known = inspect.signature(DistributedDataParallel).parameters
    options: dict[str, Any] = {new if new in known else "broadcast_buffers": False}
    return DistributedDataParallel(module, gradient_as_bucket_view=True, **options)


def wait() -> None:
    """Until all processes are here."""
    if world() > 1:
        dist.all_reduce(torch.zeros(1))


def together(make: Callable[[], T]) -> T:
    """Do something in every process. If it goes wrong in one, it ends in all, and only the main one says why."""
    if world() == 1:
        return make()
    value, wrong = None, None
    try:
        value = make()
    except UserError as error:
        wrong = str(error)
    said: list[str | None] = [None] * world()
    dist.all_gather_object(said, wrong)
    for number, message in enumerate(said):
        if message is not None:
            _end(message if number == 0 else f"process {number}: {message}")
    return value  # type: ignore[return-value]


def _end(message: str) -> NoReturn:
    """The same end for all: the main process speaks, the others stay until it has."""
    if is_main():
        raise UserError(message)
    with contextlib.suppress(RuntimeError):
        wait()
    raise SystemExit(2)


def share(make: Callable[[], T]) -> T:
    """Do something in the main process alone, and have its result, or its error, in all."""
    if world() == 1:
        return make()
    made: list[Any] = [together(lambda: make() if is_main() else None)]
    dist.broadcast_object_list(made, 0)
    return made[0]


def in_turn(make: Callable[[], T]) -> T:
    """Do something in every process, on each machine first in one: what that one downloads or measures, it keeps for
    the others, which say nothing of it."""
    first = together(lambda: make() if local_rank() == 0 else None)

    def after() -> T:
        if local_rank() == 0:
            return first  # type: ignore[return-value]
        with contextlib.redirect_stderr(io.StringIO()):
            return make()

    return together(after)


def agree(what: Mapping[str, Any]) -> None:
    """Refuse to train with processes that know different things."""
    if world() == 1:
        return
    main = share(lambda: dict(what))

    def compare() -> None:
        for name, value in what.items():
            if value != main[name]:
                raise UserError(f"{name} is {str(value)[:100]}, in process 0 {str(main[name])[:100]}; they must agree")

    together(compare)
