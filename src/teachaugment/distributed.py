"""Several processes that train one model: torchrun starts them, torch.distributed connects them.

All of this works in a single process too, where it does nothing. Between two steps every process has the same target,
teacher, augmenter, replay and optimisers. Only the main process, that of rank 0, writes files and speaks.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .errors import UserError

# For a process that does not answer, such as while another one downloads data. One that has ended is noticed at once.
TIMEOUT = timedelta(minutes=30)
MOURNING = 5.0  # seconds in which torchrun ends the other processes of a failed one, before they speak themselves
LOST = (
    "gloo",
    "nccl",
    "connection closed",
    "connection reset",
    "broken pipe",
)  # in what torch says of one that is gone

T = TypeVar("T")


def world() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The number of this process among them, from 0."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def is_main() -> bool:
    """Whether this process is the one that writes and speaks."""
    return rank() == 0


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
    except RuntimeError as error:  # torch's own kinds of it included
        if not (isinstance(error, dist.DistError) or any(word in str(error).lower() for word in LOST)):
            raise
        if stopping():
            raise SystemExit(128 + signal.SIGTERM) from None
        reason = str(error).strip().splitlines()[0][:200]
        _end_after_the_others(f"process {rank()} has lost another one ({reason}); continue with --resume")


def _end_after_the_others(message: str) -> NoReturn:
    """Give way to a process that has more to say: torchrun ends all when one has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(MOURNING)
    print(f"teachaugment: error: {message}", file=sys.stderr, flush=True)
    raise SystemExit(2)


# --- numbers, in place --------------------------------------------------------------------------------------------


def sum_(tensors: Iterable[Tensor]) -> None:
    """Replace tensors by their sums over the processes: one call for all that have a type."""
    if world() == 1:
        return
    by_type: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.dtype, []).append(tensor.detach())
    for same in by_type.values():
        flat = torch.cat([tensor.reshape(-1) for tensor in same])
        dist.all_reduce(flat)
        for tensor, total in zip(same, flat.split([tensor.numel() for tensor in same]), strict=True):
            tensor.copy_(total.view_as(tensor))


def gathered(tensor: Tensor) -> Tensor:
    """Every process's tensor, one row for each."""
    rows = tensor.new_zeros(world(), *tensor.shape)
    rows[rank()] = tensor.detach()
    sum_([rows])
    return rows


def largest(*values: int) -> list[int]:
    """The largest of each over the processes; by way of the CPU, so that no device is waited for."""
    if world() == 1:
        return list(values)
    found = torch.tensor(values)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.tolist()


def average_(tensors: Iterable[Tensor]) -> None:
    """Replace floating-point tensors by their means over the processes."""
    if world() > 1 and (found := list(tensors)):
        sum_(found)
        torch._foreach_mul_([tensor.detach() for tensor in found], 1 / world())


def parallel(module: nn.Module) -> DistributedDataParallel:
    """The network with gradients that are averaged over the processes while it goes backward. Its buffers are left
    alone: ``average_buffers`` after the step keeps what batch norm has learned in every process."""
    new = "forward_sync_buffers"  # as newer versions of torch call the option
    known = inspect.signature(DistributedDataParallel).parameters
    options: dict[str, Any] = {new if new in known else "broadcast_buffers": False}
    return DistributedDataParallel(module, gradient_as_bucket_view=True, **options)


def average_gradients(optimizer: torch.optim.Optimizer) -> None:
    """As DistributedDataParallel does while it goes backward, but afterwards: for small networks."""
    average_(p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None)


def gather(tensor: Tensor) -> Tensor:
    """The rows of all processes, as many of each."""
    if world() == 1:
        return tensor
    parts = [torch.empty_like(tensor) for _ in range(world())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)


def average_buffers(module: nn.Module) -> None:
    """Batch norm's statistics become those of all processes' images. (They are averages over time of means: so to
    average over the processes at each step, or only when they are used, is the same.)"""
    average_(buffer for buffer in module.buffers() if buffer.is_floating_point())


def broadcast_(*modules: nn.Module) -> None:
    """Weights and buffers as the process of rank 0 has them."""
    if world() > 1:
        for module in modules:
            for value in (*module.parameters(), *module.buffers()):
                dist.broadcast(value.detach(), 0)


# --- things that processes do for each other ----------------------------------------------------------------------


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
