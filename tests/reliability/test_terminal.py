"""The terminal goes, is full or is closed; names in files try to command it; the end of a process is its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from teachaugment import terminal
from teachaugment.engine import checkpoint, interrupts

from .conftest import SETTINGS, signalled
from .test_ranks import both
from .test_stop import PLACES


def nobody_reads() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


GONE: dict[str, Any] = {
    "closed": None,
    "full": lambda: os.open("/dev/full", os.O_WRONLY),
    "read by nobody": nobody_reads,
}


@pytest.mark.parametrize("how", GONE)
def test_training_goes_on_without_its_streams(lab, record, how):
    """Standard output, standard error, or both."""

    def prepare(numbers: tuple[int, ...]) -> None:
        for number in numbers:
            os.close(number)
            if GONE[how] is not None:
                os.dup2(GONE[how](), number)
        names = {1: "stdout", 2: "stderr"}
        for number in numbers:
            setattr(sys, names[number], None if how == "closed" else open(number, "w"))  # noqa: SIM115
        terminal.open_streams()

    cases = ((1,), (2,), (1, 2))
    for numbers in cases:
        path = lab.fresh()
        lab.finish(path, prepare=lambda numbers=numbers: prepare(numbers))
        lab.same(path)
    record(f"standard output or standard error {how}: trained to the same end", len(cases))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_a_closed_terminal_saves_and_leaves(lab, record, number):
    def prepare(place: str, call: int) -> None:
        signal.signal(number, signal.SIG_DFL)  # the tests themselves may have been started with nohup
        signalled(*PLACES[place][:2], call, number)()

    for place, call in (("a step", 5), ("an evaluation", 2)):
        path = lab.fresh()
        process = lab.train(path, prepare=lambda place=place, call=call: prepare(place, call))
        assert process.wait() == 128 + number, process.said()
        lab.finish(path)
        lab.same(path)
    record(f"{number.name}: saved, left, resumed: the same", 2)


def test_nohup_is_respected(lab):
    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signalled(*PLACES["a step"][:2], 3, signal.SIGHUP)()

    path = lab.fresh()
    lab.finish(path, prepare=prepare)
    lab.same(path)


def test_with_one_process_stopped_a_signal_still_ends_the_other(lab, record):
    def patient() -> None:
        interrupts.LEAVE_WITHIN = 3.0

    path = lab.fresh()
    first, second = both(lab, path, patient, patient)
    lab.until((path / checkpoint.LAST).exists, first)
    second.send(signal.SIGSTOP)
    time.sleep(1)
    first.send(signal.SIGTERM)
    assert first.wait(60) == 143 and "does not answer" in first.said(), first.said()
    second.send(signal.SIGKILL)
    second.wait()
    for process in both(lab, path):
        assert process.wait() == 0, process.said()
    record("one of two processes stands still: SIGTERM ends the other", 1)


def test_the_end_of_a_process_waits_for_no_thread():
    """Neither for one that reads for ever nor for one of torch's that would abort it."""
    program = (
        "import os, sys, threading, time; sys.argv = ['teachaugment', 'presets', '--json']\n"
        "threading.Thread(target=lambda: time.sleep(100)).start()\n"
        "from teachaugment.commands.cli import entry; entry()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (ended.returncode == 0 and ended.stdout.startswith(b"{")) or ended.stdout.startswith(b"["), ended


def test_a_reader_that_leaves_ends_a_command_quietly():
    command = f"{sys.executable} -m teachaugment presets | head -1; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60)
    assert ended.stderr == b"" and ended.returncode in (0, 141), ended
    with open("/dev/full", "w") as full_disk:
        words = [sys.executable, "-m", "teachaugment", "presets"]
        full = subprocess.run(words, stdout=full_disk, stderr=subprocess.PIPE, timeout=60)
    assert full.returncode == 2 and full.stderr.count(b"\n") == 1 and b"No space left" in full.stderr


@pytest.mark.slow
def test_two_processes_that_have_finished_end_well(record, tmp_path):
    """As torchrun starts them, and without the laboratory: it is about the end of real processes."""
    flags = [f"--{key}={value}" for key, value in {**SETTINGS, "train.batch_size": 4, "train.epochs": 1}.items()]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "teachaugment", "train"]
    count = 50
    for i in range(count):
        words = [sys.executable, *torchrun, *flags, "--output", str(tmp_path / str(i))]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0 and "terminate called" not in ended.stderr, ended.stderr
    record("runs of two processes that have finished: exit code 0", count)


def test_control_characters_are_written_out(capsys):
    terminal.print_text("a\x1b]0;title\x07b\n\u202ec × d\udcff")
    terminal.say("\x1b[2J\r gone")
    printed = capsys.readouterr()
    assert printed.out == "a\\x1b]0;title\\x07b\n\\u202ec × d\\udcff\n" and printed.err == "\\x1b[2J\\r gone\n"


def test_names_in_files_do_not_command_the_terminal(lab, record, photos, tmp_path):
    """Class names, file names and what a policy says of itself."""
    name = "dog\x1b]0;owned\x07"
    (photos / "dog").rename(photos / name)
    path = lab.fresh()
    lab.finish(path, data__path=photos, data__size=8, data__per_class="none", train__epochs=1)
    image = next((photos / name).iterdir())
    (tmp_path / "x\x1b[2J.png").write_bytes(image.read_bytes())
    commands = [
        ("evaluate", path),
        ("predict", path, photos),
        ("predict", path, tmp_path / "x\x1b[2J.png"),
        ("preview", path, tmp_path / "x\x1b[2J.png", "-o", tmp_path / "out.png"),
        ("train", "--data", tmp_path / "no\x1bfolder"),
        ("export", path, "-o", tmp_path / "p\x1b.safetensors"),
    ]
    for words in commands:
        process = lab.start(*words)
        process.wait()
        assert "\x1b" not in process.said() and "\x07" not in process.said(), (words, process.said())
    record("control characters in names of classes, files and outputs: written out", len(commands))
