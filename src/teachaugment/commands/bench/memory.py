"""Peak memory of a call, in bytes of tensors beyond those that existed before it.

On CUDA it is the allocator's own high-water mark. Elsewhere it is the running sum of what torch's allocator reports to
the profiler, which is exact and repeatable where the process's high-water mark is neither; scratch space inside the
convolution library does not pass through that allocator and is not in it, and tensors that are older than the call and
freed in it (the last gradients) are not taken off.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

METHOD = {
    "cuda": "torch.cuda.max_memory_allocated, less what was allocated before the call",
    "other": "running sum of the allocator's reports to torch.profiler during the call",
}


def method(device: torch.device) -> str:
    return METHOD.get(device.type, METHOD["other"])


def peak(function: Callable[[], object], device: torch.device) -> int:
    """The most bytes of new tensors alive at any time during the call."""
    function()  # what is allocated once and kept (gradients, optimiser state, caches) is not the call's
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        function()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with torch.autograd.profiler.profile(profile_memory=True, use_kineto=False) as profile:
        function()
    results = profile.kineto_results
    if results is None:
        raise RuntimeError("torch.profiler recorded nothing")
    alive = highest = 0
    for event in sorted((e for e in results.events() if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        alive += event.nbytes()
        highest = max(highest, alive)
    return highest
