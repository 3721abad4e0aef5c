"""Numbers of several processes that train one model: sums and means over them, and who is who.

All of this works in a single process too, where it does nothing. Between two steps every process has the same target,
teacher, augmenter, replay and optimisers. How the processes meet and leave is in engine/processes.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def world() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The number of this process among them, from 0."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def is_main() -> bool:
    """Whether this process is the one that writes and speaks."""
    return rank() == 0


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


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, however many each has."""
    if world() == 1:
        return rows
    counts = gathered(torch.tensor(len(rows), device=rows.device)).tolist()
    padded = rows.new_zeros(max(counts), *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = gather(padded).split(max(*counts, 1))
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


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
