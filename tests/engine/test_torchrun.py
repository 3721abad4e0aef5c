"""The command as it is started in earnest: by torchrun, on one machine and on two (network namespaces)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from teachaugment.engine import checkpoint, directory

pytestmark = pytest.mark.slow

FAST = ["--data.size", "8", "--data.per_class", "4", "--batch-size", "4", "--device", "cpu",
        "--strategy", "teachaugment", "--teach.n_inner", "2", "--train.tensorboard",
        "false", "--eval-every", "1000"]  # fmt: skip


def start(*flags: str, prefix: tuple[str, ...] = (), folder: Path, **environment: str) -> subprocess.Popen[str]:
    """torchrun, with all that it says in files."""
    folder.mkdir(exist_ok=True)
    command = [*prefix, sys.executable, "-m", "torch.distributed.run", *flags]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=(folder / "out").open("w"),
        stderr=(folder / "err").open("w"),
        text=True,
        env={**os.environ, **environment},
    )


def kill(run: subprocess.Popen[str]) -> None:
    """torchrun and what it has started, which has groups of its own."""
    found = [run.pid]
    for pid in found:
        with contextlib.suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    run.wait()


def errors(folder: Path) -> list[str]:
    return [line for line in (folder / "err").read_text().splitlines() if line.startswith("teachaugment: error")]


def until_saved(run: subprocess.Popen[str], folder: Path) -> Path:
    """Wait for the first checkpoint."""
    last, deadline = folder / "run" / checkpoint.LAST, time.monotonic() + 180
    while not last.exists():
        assert time.monotonic() < deadline and run.poll() is None, (folder / "err").read_text()
        time.sleep(0.2)
    return last


def test_an_image_that_goes_away_ends_all_processes_with_one_line_within_a_minute(tmp_path):
    photos = tmp_path / "photos"
    for i in range(24):
        folder = photos / ("test" if i < 4 else "train") / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (i, i, i)).save(folder / f"{i:02}.png")
    flags = [*FAST[4:], "--data", str(photos), "--data.size", "8", "--data.in_memory", "never", "--epochs", "10000"]
    torchrun = ["--standalone", "--nproc-per-node", "2", "-m", "teachaugment", "train", "--output", "run"]
    run = start(*torchrun, *flags, folder=tmp_path / "1")
    try:
        until_saved(run, tmp_path / "1")
        (gone := photos / "train" / "a" / "10.png").unlink()
        assert run.wait(60) != 0
        assert len(errors(tmp_path / "1")) == 1 and str(gone) in errors(tmp_path / "1")[0]
    finally:
        if run.poll() is None:
            kill(run)


# --- two machines -------------------------------------------------------------------------------------------------


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """How to start something on either of two machines, and what the first one is called."""

    def __init__(self, prefixes: list[tuple[str, ...]], addresses: list[str], interfaces: list[str]):
        self.prefixes, self.addresses, self.interfaces = prefixes, addresses, interfaces

    def torchrun(self, number: int, folder: Path, *flags: str) -> subprocess.Popen[str]:
        port = str(29000 + os.getpid() % 1000)
        torchrun = ["--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "1", "--master-port", port]
        torchrun += ["--master-addr", self.addresses[0], "-m", "teachaugment"]
        interface = self.interfaces[number]
        return start(*torchrun, *flags, prefix=self.prefixes[number], folder=folder, GLOO_SOCKET_IFNAME=interface)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Network namespaces joined by a cable; where those are not allowed, this machine twice."""
    names = [f"ta{os.getpid()}{end}" for end in "ab"]
    try:
        if shutil.which("ip") is None:
            raise OSError("no ip")
        for name in names:
            ip("netns", "add", name)
        ip(
            "link",
            "add",
            f"{names[0]}v",
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            f"{names[1]}v",
            "netns",
            names[1],
        )
        for number, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", f"{name}v")
            ip("-n", name, "link", "set", f"{name}v", "up")
            ip("-n", name, "link", "set", "lo", "up")
        found = Hosts(
            [("ip", "netns", "exec", name) for name in names],
            ["10.77.0.1", "10.77.0.2"],
            [f"{name}v" for name in names],
        )
    except (OSError, subprocess.CalledProcessError):
        found = Hosts([(), ()], ["127.0.0.1"] * 2, ["lo"] * 2)
    try:
        yield found
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def test_two_machines_train_together_and_only_the_first_one_writes(hosts, tmp_path):
    flags = ["train", *FAST, "--epochs", "2", "--output", "run"]
    both = [hosts.torchrun(number, tmp_path / str(number), *flags) for number in range(2)]
    assert [run.wait(180) for run in both] == [0, 0], [
        (tmp_path / str(k) / "err").read_text()[-2000:] for k in range(2)
    ]
    first, second = tmp_path / "0", tmp_path / "1"
    assert "2 processes × 4 = 8 images per step" in (first / "err").read_text()
    assert json.loads((first / "run" / directory.METRICS).read_text())["test"]["target"]["images"] == 2000
    assert checkpoint.load(first / "run" / checkpoint.LAST)["step"] == 10
    assert sorted(path.name for path in second.iterdir()) == ["err", "out"]


def test_a_machine_that_dies_ends_the_run_on_the_other_within_a_minute(hosts, tmp_path):
    flags = ["train", *FAST, "--epochs", "10000", "--output", "run"]
    both = [hosts.torchrun(number, tmp_path / str(number), *flags) for number in range(2)]
    try:
        last = until_saved(both[0], tmp_path / "0")
        kill(both[1])
        assert both[0].wait(60) != 0
        assert len(errors(tmp_path / "0")) == 1 and "continue with --resume" in errors(tmp_path / "0")[0]
        assert checkpoint.load(last)["step"] >= 5
    finally:
        for run in both:
            if run.poll() is None:
                kill(run)
