"""What all tests share: this clone's package, one thread per worker, reproducible random numbers, and `--slow`."""

from __future__ import annotations

import os
from pathlib import Path

# For the commands that tests start, and before torch is imported: two workers on two cores, where more threads would
# only wait for each other, and the package of this clone, whatever else the environment has installed.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).resolve().parent.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
)
# Some virtual machines announce AMX and then refuse its instructions, which ends the process at the first bfloat16
# matrix product. This caps what oneDNN may use, and changes nothing on a processor without AMX.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import random
import zlib

import numpy
import pytest
import torch

torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: runs with --slow"))


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing a test measures or downloads stays behind in the user's cache."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """Seed from the test's own name, so that a test draws the same numbers alone, in any order and on any worker."""
    seed = zlib.crc32(request.node.nodeid.encode())
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
