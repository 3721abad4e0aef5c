"""Batches in an order that seed and epoch alone decide, from memory or from disk, on any number of processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from teachaugment.batch import Batch
from teachaugment.data.order import balanced, batches_of_rank
from teachaugment.data.splits import Split
from teachaugment.data.streamed import Part, StreamedSplit
from teachaugment.errors import UserError


def batches(
    split: Split | StreamedSplit,
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
    sizes come in batches of their own. ``balance`` draws all classes equally often. Where the split makes several
    random crops of an image, the first is the batch's image and the rest are its ``others``.
    """
    if balance:
        rows = balanced(split.label.cpu(), seed, epoch)
    else:
        rows = split.order(seed, epoch) if shuffle else torch.arange(len(split))
    mine = batches_of_rank(rows, batch_size, shuffle, drop_last, rank, world)[start:]
    device = torch.device(device)
    if isinstance(split, Split):
        yield from _from_memory(split.to(device), mine)
    else:
        yield from _streamed(_Reader(split, mine, seed, epoch, fill=shuffle), device, workers)


def _as_float(image: Tensor) -> Tensor:
    return image.to(torch.float32).div_(255)


def _from_memory(split: Split, plan: list[Tensor]) -> Iterator[Batch]:
    if not plan:
        return
    # One transfer of indices for the whole epoch.
    for rows in torch.cat(plan).to(split.image.device).split([len(rows) for rows in plan]):
        mask = None if split.mask is None else split.mask.index_select(0, rows).long()
        boxes = None if split.boxes is None else split.boxes.index_select(0, rows)
        image = split.image.index_select(0, rows)
        yield Batch(_as_float(image), split.label.index_select(0, rows), mask, rows, boxes=boxes)


class _Reader(Dataset):
    """Whole batches as items, so that a worker needs nothing but the batch's rows."""

    def __init__(self, split: StreamedSplit, plan: list[Tensor], seed: int, epoch: int, fill: bool):
        self.split, self.plan, self.seed, self.epoch, self.fill = split, plan, seed, epoch, fill

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, i: int) -> tuple[list[Part], list[str]] | str:
        skipped: list[str] = []
        rows = self.plan[i].tolist()
        try:
            return self.split.read_parts(rows, self.seed, self.epoch, fill=self.fill, skipped=skipped), skipped
        except UserError as error:
            return str(error)  # raised by the main process: DataLoader would wrap it in a traceback of many lines


def _streamed(reader: _Reader, device: torch.device, workers: int) -> Iterator[Batch]:
    loader = DataLoader(
        reader,
        batch_size=None,
        num_workers=min(workers, len(reader)),
        pin_memory=_should_pin_memory(device),
        generator=torch.Generator(),  # its own: DataLoader would otherwise draw from the global one
        worker_init_fn=_ignore_ctrl_c,
    )
    for item in _with_one_line_if_a_worker_dies(loader):
        if isinstance(item, str):
            raise UserError(item)
        parts, skipped = item
        reader.split.warn(skipped)
        for part in parts:  # none, if an evaluation could read none; some, if sizes differ
            image, *others = part.views
            batch = Batch(image, part.label, part.mask, part.rows, tuple(others), part.boxes).to(device)
            mask = None if batch.mask is None else batch.mask.long()
            yield batch.replace(image=_as_float(batch.image), mask=mask, others=tuple(map(_as_float, batch.others)))


def _ignore_ctrl_c(worker: int) -> None:
    """Ctrl-C reaches every process of a terminal; the one that trains decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _with_one_line_if_a_worker_dies(loader: DataLoader) -> Iterator[Any]:
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


def _should_pin_memory(device: torch.device) -> bool:
    if not torch.accelerator.is_available():
        return False
    accelerator = torch.accelerator.current_accelerator()
    return accelerator is not None and accelerator.type == device.type
