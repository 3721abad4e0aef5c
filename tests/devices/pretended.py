"""A device that is not there: tensors on ``meta``, watched by a dispatch mode as an accelerator's would be.

Every operation between ``with Watched():`` and its end is looked at. Refused are:

* a tensor on another device: as an argument beside tensors of the device, or as a result (a ``torch.zeros`` without a
  device). Single numbers on the host are allowed where there are no others, as CUDA and MPS allow them;
* a number that is read back: ``item``, ``bool``, ``tolist``, ``nonzero`` and indexing with a mask, ``equal``, and every
  copy to the host, for each of which a device is waited for. A copy that says ``non_blocking`` is counted instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import pytest
import torch
import torch._dynamo  # what operations on meta import when they are first used, where a mode would watch the import
import torch.distributed.tensor
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

DEVICE = torch.device("meta")
aten = torch.ops.aten
WAITS = {
    aten._local_scalar_dense.default: "reads a number back",
    aten.nonzero.default: "asks how many there are",
    aten.nonzero_static.default: "asks where they are",
    aten.masked_select.default: "asks how many there are",
    aten.equal.default: "asks whether they are equal",
    aten.is_nonzero.default: "reads a number back",
    aten._unique2.default: "asks how many there are",
}


class Refused(AssertionError):
    pass


class Watched(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operations = self.non_blocking = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
        ours = any(x.device == DEVICE for x in given)
        self.operations += 1
        if func in WAITS and ours:
            raise Refused(f"{func} {WAITS[func]}, for which a device is waited for")
        indexed = func in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
        if indexed and any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
            raise Refused(f"{func} with a mask asks how many there are")
        if ours and func is not aten._to_copy.default and func is not aten.copy_.default:
            strangers = [x for x in given if x.device != DEVICE and x.ndim]
            if strangers:
                raise Refused(f"{func} mixes the device with a tensor {list(strangers[0].shape)} of the host")
        if ours and func is aten._to_copy.default and kwargs.get("device", DEVICE) != DEVICE:
            if not kwargs.get("non_blocking"):
                raise Refused("a copy to the host waits for the device")
            self.non_blocking += 1
            return torch.zeros(given[0].shape, dtype=given[0].dtype)  # what is on its way has no numbers here
        if func is aten.copy_.default and args[0].device != args[1].device and args[1].device == DEVICE:
            raise Refused("a copy to the host waits for the device")
        made = func(*args, **kwargs)
        for x in tree_flatten(made)[0]:
            if isinstance(x, Tensor) and x.device != DEVICE and x.ndim and not given:
                raise Refused(f"{func} creates a tensor {list(x.shape)} on the host")
        return made


class HostGenerator(torch.Generator):
    """There are no generators of ``meta``: one of the host, which remembers for which device it was asked."""

    asked: ClassVar[list[torch.device]] = []

    def __new__(cls, device: Any = "cpu") -> HostGenerator:
        cls.asked.append(torch.device(device))
        return super().__new__(cls)


@contextmanager
def pretended_device() -> Iterator[list[str]]:
    """Generators and autocast for ``meta``, which has neither; gives the devices that autocast was asked for."""
    asked: list[str] = []
    autocast = torch.autocast

    def noted(device_type: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(device_type)
        return nullcontext() if device_type == DEVICE.type else autocast(device_type, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "Generator", HostGenerator)
        patch.setattr(torch, "autocast", noted)
        HostGenerator.asked.clear()
        yield asked
