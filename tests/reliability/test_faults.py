"""What machines do: the disk fills up, a process that reads images dies, files go away. One line, nothing lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from teachaugment.commands.report import write
from teachaugment.engine import checkpoint, directory, log

WITHIN = 60  # seconds


def ended_well_badly(process: Any, path: Path, *words: str) -> None:
    """Not with success, in one line that says what it was, and with a checkpoint that is whole."""
    assert process.wait(WITHIN) == 2, process.said()
    (line,) = process.error_lines()
    assert all(word in line for word in words), line
    assert "Traceback" not in process.said()
    if checkpoint.exists(path):
        assert checkpoint.newest(path)[0]["step"] > 0


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of its own in memory, with room for a few checkpoints."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("tensorboard", ["false", "true"])
def test_a_full_disk(lab, record, small_disk, tensorboard):
    """It fills up after the first checkpoint; with room again, the run goes on as if nothing had been."""
    path, ballast = small_disk / "run", small_disk / "ballast"

    def fill() -> None:
        with open(ballast, "wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(2**16))

    process = lab.train(path, train__epochs=200, train__tensorboard=tensorboard)
    lab.until((path / checkpoint.PREVIOUS).exists, process)
    fill()
    ended_well_badly(process, path, "cannot write", "No space left on device")
    ballast.unlink()
    state = checkpoint.newest(path)[0]
    process = lab.start("train", "--resume", path)
    lab.until(lambda: checkpoint.newest(path)[0]["step"] > state["step"], process)
    process.send(signal.SIGTERM)
    assert process.wait() == 143, process.said()
    record(f"disk full while training{', with TensorBoard' * (tensorboard == 'true')}: one line, then on from there", 1)


def test_a_disk_that_is_full_from_the_beginning(lab, record, small_disk):
    (small_disk / "ballast").write_bytes(bytes(100 * 2**20))
    path = small_disk / "run"
    process = lab.train(path)
    assert process.wait(WITHIN) == 2 and len(process.error_lines()) == 1, process.said()
    assert "No space left on device" in process.said() and "Traceback" not in process.said()
    record("disk full from the beginning: one line", 1)


def test_an_output_that_cannot_be_written(lab, record, tmp_path):
    """A file where a directory is needed, and a file system that is read-only."""
    (tmp_path / "file").touch()
    for output in (tmp_path / "file" / "run", Path("/proc/run")):
        process = lab.train(output)
        assert process.wait(WITHIN) == 2 and len(process.said().splitlines()) == 1, process.said()
    record("output that cannot be written: one line before any work", 2)


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_killed_worker(lab, record, streaming, count):
    for i in range(count):
        path = lab.fresh()
        process = lab.train(path, **streaming, data__workers=2, train__epochs=10_000)
        lab.until((path / checkpoint.LAST).exists, process)
        time.sleep(0.05 * i)
        deadline = time.monotonic() + WITHIN
        while process.ended() is None and time.monotonic() < deadline:  # one that has read its last batch is not missed
            for worker in children(process.pid)[:1]:
                os.kill(worker, signal.SIGKILL)
            time.sleep(0.2)
        ended_well_badly(process, path, "a process that reads images has died")
    record("a process that reads images is killed: one line", count)


def test_a_folder_that_changes_underneath(lab, record, photos, streaming):
    """An image goes, is emptied, or becomes something else while a run trains."""
    for spoil in (Path.unlink, lambda file: file.write_bytes(b""), lambda file: file.write_text("no picture")):
        path, victim = lab.fresh(), photos / "cat" / "07.png"
        kept = victim.read_bytes()
        process = lab.train(path, **streaming, data__workers=2, train__epochs=10_000)
        lab.until((path / checkpoint.LAST).exists, process)
        spoil(victim)
        ended_well_badly(process, path, "cannot read image", str(victim))
        victim.write_bytes(kept)
    record("an image goes away or is spoiled while a run trains: one line with its name", 3)


def test_a_folder_that_has_changed_is_not_gone_on_with(lab, photos, streaming):
    """More images would shuffle the order that a resumed run relies on."""
    path = lab.fresh()
    process = lab.train(path, **streaming, train__epochs=10_000)
    lab.until((path / checkpoint.LAST).exists, process)
    process.send(signal.SIGTERM)
    assert process.wait() == 143
    for i in range(30):
        shutil.copy(photos / "cat" / "00.png", photos / "cat" / f"more{i}.png")
    process = lab.start("train", "--resume", path)
    assert process.wait(WITHIN) == 2 and len(process.error_lines()) == 1, process.said()


def test_a_log_that_cannot_be_written(lab, record):
    """The disk is full for the log alone: no checkpoint gets ahead of it."""
    path, real = lab.fresh(), log.os.fsync

    def prepare() -> None:
        count = 0

        def fsync(descriptor: int) -> None:
            nonlocal count
            count += 1
            if count == 3:
                raise OSError(28, "No space left on device")
            real(descriptor)

        log.os = type("os", (), {**vars(os), "fsync": staticmethod(fsync)})

    process = lab.train(path, prepare=prepare)
    ended_well_badly(process, path, "cannot write", directory.LOG)
    lab.finish(path)
    lab.same(path)
    record("a line of the log that cannot be written: one line, then resumed: the same", 1)


def test_a_report_that_cannot_be_written_does_not_lose_a_run(lab):
    path = lab.fresh()

    def prepare() -> None:
        def fail(*_: Any) -> None:
            raise OSError(28, "No space left on device", "report.html")

        write.write_report = fail

    process = lab.finish(path, prepare=prepare)
    assert "warning: no report.html" in process.said()
    lab.same(path)
