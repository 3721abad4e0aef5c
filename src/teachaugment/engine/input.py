"""What a run reads: one pass over a split, and what to say when the images are slow to come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from teachaugment import distributed
from teachaugment.batch import Batch
from teachaugment.config.sections import Config
from teachaugment.data.loader import batches
from teachaugment.data.splits import Split
from teachaugment.data.streamed import StreamedSplit

SLOW_INPUT = 0.05  # of the time: from here on a run says that it waits for its images
SOON = 10.0  # seconds after the first step, when a run says it for the first time


def steps_per_epoch(config: Config, images: int) -> int:
    """Steps of one pass over so many training images, in all processes together."""
    return max(1, images // (config.train.batch_size * config.train.accumulate * distributed.world()))


def one_pass(
    config: Config,
    data: Split | StreamedSplit,
    size: int,
    *,
    epoch: int,
    shuffle: bool,
    device: torch.device,
    **how: Any,
) -> Iterator[Batch]:
    """One pass as the settings say, of this process's share of the images unless ``how`` says otherwise."""
    own = {"seed": config.seed, "rank": distributed.rank(), "world": distributed.world(), **how}
    workers, balance = config.data.workers, shuffle and config.data.balance
    return batches(data, size, epoch=epoch, shuffle=shuffle, device=device, workers=workers, balance=balance, **own)


def slow_input(waited: float, seconds: float, at_least: float = 2.0, of: str = "the epoch") -> str | None:
    """What to tell a person whose training waits for its images; less than ``at_least`` seconds say nothing."""
    if seconds < at_least or waited < SLOW_INPUT * seconds:
        return None
    return (
        f"{waited / seconds:.0%} of {of} went into waiting for images; more --workers or, if they fit, "
        "--data.in_memory always would help"
    )
