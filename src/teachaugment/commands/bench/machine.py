"""The machine the numbers were taken on."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path
from typing import Any

import torch
import torchvision

from teachaugment import __version__


def describe(device: torch.device) -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "device": device_name(device),
        "os": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "kornia": kornia_version(),
        "teachaugment": __version__,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "load": load(),
    }


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def load() -> float | None:
    """Processes that wanted a core in the last minute, these measurements included; None where nobody counts them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def kornia_version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kornia")
    except PackageNotFoundError:
        return None
