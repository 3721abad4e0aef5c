"""Random streams as functions of what they are for: the same parts give the same numbers in any process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(*parts: int | str) -> int:
    """A seed of 63 bits from any parts, e.g. ``derive(seed, "order", epoch)``."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(device: torch.device | str, *parts: int | str) -> torch.Generator:
    """A generator on ``device`` seeded from the parts."""
    return torch.Generator(device=device).manual_seed(derive(*parts))


@contextmanager
def apart(device: torch.device, seed: int) -> Iterator[None]:
    """Torch's own random numbers, which dropout and its like draw from, seeded; afterwards they are as before."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
