"""The checksum in a policy's header: of the header itself and of every tensor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

KEY = "digest"  # what the header calls it


def digest(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a header, but for its checksum, and of the tensors with their names, types and shapes."""
    plain = {key: value for key, value in header.items() if key != KEY}
    total = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        total.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        total.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
