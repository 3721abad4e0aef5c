from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest

from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.log import Board, Log
from teachaugment.errors import UserError
from teachaugment.progress import duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar():
    stream = Terminal()
    display = TrainingDisplay(total=4, epochs=2, stream=stream)
    for epoch in (1, 1, 2, 2):
        display.step(epoch)
        display.reading(epoch, {"loss": 0.5, "accuracy": 0.25}, 1234.0)
    display.say("epoch 2/2 done")
    display.close()
    shown = stream.getvalue()
    for part in ("\r", "epoch 1/2", " 50%|", "loss 0.500", "accuracy 25.0 %", "1,234 images/s", "epoch 2/2 done\n"):
        assert part in shown


def test_without_a_terminal_there_are_plain_lines():
    stream = io.StringIO()
    display = TrainingDisplay(total=2, stream=stream)
    display.step(1)
    display.reading(1, {"loss": 0.5}, 10.0)
    assert stream.getvalue() == ""  # only every half minute
    display.spoken -= 31
    display.reading(1, {"loss": 0.5}, 10.0)
    display.close()
    assert (
        stream.getvalue().startswith("epoch 1/1  step 1/2  loss 0.500  10 images/s") and "\r" not in stream.getvalue()
    )


def test_the_time_left_follows_the_recent_pace(monkeypatch):
    """Ten minutes at a step in ten seconds, then a step in a second: what is left is a second for each step."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    display = TrainingDisplay(total=1000, stream=io.StringIO())
    assert display.left() == "?"
    for _ in range(60):
        now += 10
        display.step(1)
    assert display.left() == duration(940 * 10)
    for _ in range(200):
        now += 1
        display.step(1)
    assert display.left() == duration(740)


def test_advice_is_given_once():
    stream = io.StringIO()
    display = TrainingDisplay(total=2, stream=stream)
    display.once("input", "more workers would help")
    display.once("input", "more workers would help")
    assert stream.getvalue() == "more workers would help\n"


def test_a_resumed_log_has_no_line_from_after_the_checkpoint(tmp_path):
    path = tmp_path / "log.jsonl"
    records = [{"event": "start", "step": 0}, *({"event": "epoch", "epoch": i, "step": 5 * i} for i in (1, 2, 3))]
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + '{"event": "ep')
    log = Log(path, epoch=2)
    log.write({"event": "epoch", "epoch": 3, "step": 15, "new": True})
    log.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [*records[:3], {**records[3], "new": True}]


def test_a_bad_line_goes_with_a_word_and_those_after_it_stay(tmp_path):
    path = tmp_path / "log.jsonl"
    good = [json.dumps({"event": "epoch", "epoch": i, "step": 5 * i}).encode() for i in (1, 2, 3, 4)]
    spoilt = [b"\x00" * 40, b'{"event": "epoch", "epoch": "2"}', b"[" * 5000]
    path.write_bytes(b"\n".join([good[0], *spoilt, *good[1:]]) + b"\n")
    with pytest.warns(UserWarning, match=r"3 line\(s\) cannot be read and are dropped \(line 2, 3, 4\)"):
        Log(path, epoch=3).close()
    assert path.read_bytes().splitlines() == good[:3]


def test_a_new_log_starts_empty(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"event": "start", "step": 0}\n')
    Log(tmp_path / "log.jsonl").close()
    assert (tmp_path / "log.jsonl").read_bytes() == b""


def test_durations_read_as_clocks():
    assert [duration(s) for s in (0, 59.6, 61, 3661)] == ["0:00", "1:00", "1:01", "1:01:01"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_board_on_a_full_disk_ends_in_one_line(tmp_path, monkeypatch):
    """It is written in a thread: what goes wrong there is said by a later call, and only by that."""
    shown = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    board = Board(tmp_path / "tensorboard")
    (file,) = board.path.iterdir()
    file.unlink()
    file.symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"cannot write \S+tensorboard: No space left on device"):
        for step in range(1000):
            board.scalars({"loss": 1.0}, step)
    with pytest.raises(UserError, match=r"cannot write \S+tensorboard: No space left on device"):
        board.close()
    assert not shown and threading.excepthook == shown.append
