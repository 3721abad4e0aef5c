"""Batches in an order that seed and epoch alone decide, from memory or from disk, on any number of processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from teachaugment import seeds
from teachaugment.batch import Batch
from teachaugment.data.images import FolderSplit, Part
from teachaugment.data.shards import ShardSplit
from teachaugment.data.splits import Split
from teachaugment.errors import UserError


def order(n: int, seed: int, epoch: int) -> Tensor:
    """The permutation of ``n`` images in one epoch."""
    return torch.randperm(n, generator=seeds.generator("cpu", seed, "order", epoch))


def balanced(label: Tensor, seed: int, epoch: int) -> Tensor:
    """As many images as there are, all classes equally often, in an order that seed and epoch decide.

    Each class runs through shuffled passes over its images, so within an epoch none of them is drawn more than once
    more often than another.
    """
    n, classes = len(label), label.unique().tolist()
    shares = [n // len(classes)] * len(classes)
    random = seeds.generator("cpu", seed, "balance", epoch)
    for k in torch.randperm(len(classes), generator=random)[: n % len(classes)].tolist():
        shares[k] += 1
    rows = []
    for k, share in zip(classes, shares, strict=True):
        mine = (label == k).nonzero().flatten()
        passes = [mine[torch.randperm(len(mine), generator=random)] for _ in range(-(-share // len(mine)))]
        rows.append(torch.cat([*passes, mine[:0]])[:share])
    return torch.cat(rows)[order(n, seed, epoch)]


def count(n: int, batch_size: int, *, drop_last: bool = False, world: int = 1) -> int:
    """How many training batches each rank gets from ``n`` images in an epoch."""
    whole, rest = divmod(n, batch_size * world)
    return whole + int(not drop_last and rest >= world)


def batches(
    split: Split | FolderSplit,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    shuffle: bool,
    device: torch.device | str,
    workers: int = 0,
    drop_last: bool = False,
    rank: int = 0,
    world: int = 1,
    start: int = 0,
    balance: bool = False,
) -> Iterator[Batch]:
    """One epoch, images as float in [0, 1] on ``device``, from batch ``start`` on; nothing before it is decoded.

    ``batch_size`` is per rank. Together, the ranks' batches are those of one process with ``world`` times the size.
    With ``shuffle`` (training) every rank gets as many batches, of the same sizes, as the others, and fewer than
    ``world`` images may be left over; without (evaluation) every image comes exactly once, and images of different
    sizes come in batches of their own. ``balance`` draws all classes equally often.
    """
    if balance:
        rows = balanced(split.label.cpu(), seed, epoch)
    elif shuffle and isinstance(split, ShardSplit):
        rows = split.order(seed, epoch)
    else:
        rows = order(len(split), seed, epoch) if shuffle else torch.arange(len(split))
    mine = _share(rows, batch_size, shuffle, drop_last, rank, world)[start:]
    device = torch.device(device)
    if isinstance(split, Split):
        yield from _from_memory(split.to(device), mine)
    else:
        yield from _from_disk(split, mine, seed, epoch, device, workers)


def _share(rows: Tensor, batch_size: int, even: bool, drop_last: bool, rank: int, world: int) -> list[Tensor]:
    """The batches of one rank."""
    mine = []
    for together in rows.split(batch_size * world):
        if drop_last and len(together) < batch_size * world:
            break
        share = len(together) // world
        mine.append(together[rank * share : (rank + 1) * share] if even else together[rank::world])
    return [batch for batch in mine if len(batch)]


def _as_float(image: Tensor) -> Tensor:
    return image.to(torch.float32).div_(255)


def _from_memory(split: Split, plan: list[Tensor]) -> Iterator[Batch]:
    if not plan:
        return
    # One transfer of indices for the whole epoch.
    for rows in torch.cat(plan).to(split.image.device).split([len(rows) for rows in plan]):
        mask = None if split.mask is None else split.mask.index_select(0, rows).long()
        image = split.image.index_select(0, rows)
        yield Batch(_as_float(image), split.label.index_select(0, rows), mask, rows)


class _Decoded(Dataset):
    """Whole batches as items, so that a worker needs nothing but the batch's rows."""

    def __init__(self, split: FolderSplit, plan: list[Tensor], seed: int, epoch: int):
        self.split, self.plan, self.seed, self.epoch = split, plan, seed, epoch

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, i: int) -> tuple[list[Part], list[str]] | str:
        skipped: list[str] = []
        try:
            return self.split.read_parts(self.plan[i].tolist(), self.seed, self.epoch, skipped), skipped
        except UserError as error:
            return str(error)  # raised by the main process: DataLoader would wrap it in a traceback of many lines


def _from_disk(
    split: FolderSplit, plan: list[Tensor], seed: int, epoch: int, device: torch.device, workers: int
) -> Iterator[Batch]:
    loader = DataLoader(
        _Decoded(split, plan, seed, epoch),
        batch_size=None,
        num_workers=min(workers, len(plan)),
        pin_memory=_pays_to_pin(device),
        generator=torch.Generator(),  # its own: DataLoader would otherwise draw from the global one
        worker_init_fn=_leave_stopping_to_the_main_process,
    )
    for item in _patiently(loader):
        if isinstance(item, str):
            raise UserError(item)
        parts, skipped = item
        split.warn(skipped)
        for image, label, mask, index in parts:  # none, if an evaluation could read none; some, if sizes differ
            batch = Batch(image, label, mask, index).to(device)
            mask = None if batch.mask is None else batch.mask.long()
            yield batch.replace(image=_as_float(batch.image), mask=mask)


def _leave_stopping_to_the_main_process(worker: int) -> None:
    """Ctrl-C reaches every process of a terminal; the one that trains decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _patiently(loader: DataLoader) -> Iterator[Any]:
    """The loader's items, and one line if a process that reads them dies.

    DataLoader's own way is an exception at once, wherever the main process is: in half an update, in half a checkpoint.
    Without its handler the death is noticed where it matters, when a batch is waited for.
    """
    if not loader.num_workers:
        yield from loader
        return
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGCHLD) if main and hasattr(signal, "SIGCHLD") else None
    iterator = iter(loader)
    if handler is not None:
        signal.signal(signal.SIGCHLD, handler)
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except (RuntimeError, OSError, EOFError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, RuntimeError) and not reason.startswith("DataLoader worker"):
                raise
            raise UserError(
                f"a process that reads images has died ({reason}); if memory was short, fewer --workers may help"
            ) from None
        yield item


def _pays_to_pin(device: torch.device) -> bool:
    if not torch.accelerator.is_available():
        return False
    accelerator = torch.accelerator.current_accelerator()
    return accelerator is not None and accelerator.type == device.type
