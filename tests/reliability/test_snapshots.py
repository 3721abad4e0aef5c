"""Snapshots of the replay are written once, beside the checkpoints that name them."""

from __future__ import annotations

import shutil

import pytest
import torch

from teachaugment.augment import create
from teachaugment.engine import checkpoint, snapshots
from teachaugment.replay import Replay


def replay_of(count: int) -> Replay:
    augmenter = create("neural", classes=3)
    replay = Replay(augmenter)
    for _ in range(count):
        push(replay)
    return replay


def push(replay: Replay) -> None:
    replay.push()
    with torch.no_grad():
        for parameter in replay.augmenter.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    replay.refresh()


def state_of(*replays: Replay) -> dict:
    names = ("replay", "second_replay")
    return {"step": 1, "teach": dict(zip(names, (replay.state_dict() for replay in replays), strict=False))}


def equal(a: dict, b: dict) -> bool:
    for part in ("values", "scales"):
        assert a[part].keys() == b[part].keys()
        assert all(torch.equal(a[part][k], b[part][k]) and a[part][k].dtype == b[part][k].dtype for k in a[part])
    return a["count"] == b["count"]


def test_snapshots_come_back_bit_for_bit(tmp_path):
    first, second = replay_of(3), replay_of(2)
    checkpoint.save(tmp_path / "last.pt", state_of(first, second))
    found = checkpoint.load(tmp_path / "last.pt")["teach"]
    assert equal(found["replay"], first.state_dict()) and equal(found["second_replay"], second.state_dict())
    empty = state_of(replay_of(0))
    checkpoint.save(tmp_path / "last.pt", empty)
    assert checkpoint.load(tmp_path / "last.pt")["teach"]["replay"]["count"] == 0


def test_a_checkpoint_does_not_grow_with_its_snapshots(record, tmp_path):
    """Each is written once: 60 saves of up to 60 snapshots write 60 files, not 1,830."""
    replay, sizes = replay_of(0), []
    for _ in range(60):
        push(replay)
        checkpoint.save(tmp_path / "last.pt", state_of(replay))
        sizes.append((tmp_path / "last.pt").stat().st_size)
    files = list((tmp_path / snapshots.FOLDER).iterdir())
    assert len(files) == 60 and max(sizes) < min(sizes) + 100 * 60
    times = {file.name: file.stat().st_mtime_ns for file in files}
    checkpoint.save(tmp_path / "last.pt", state_of(replay))
    assert times == {file.name: file.stat().st_mtime_ns for file in (tmp_path / snapshots.FOLDER).iterdir()}
    record("checkpoints with one snapshot more each: every snapshot is written once", 60)


def test_a_snapshot_that_is_gone_or_damaged_is_noticed(tmp_path):
    replay = replay_of(2)
    checkpoint.save(tmp_path / "last.pt", state_of(replay))
    push(replay)
    checkpoint.save(tmp_path / "last.pt", state_of(replay), keep=tmp_path / "previous.pt")
    names = checkpoint.load(tmp_path / "last.pt", replay=False)["teach"]["replay"]["files"]
    newest = tmp_path / snapshots.FOLDER / names[-1]
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    with pytest.warns(UserWarning, match="snapshot .* is damaged"):
        state, file = checkpoint.newest(tmp_path)
    assert file.name == "previous.pt" and state["teach"]["replay"]["count"] == 2
    checkpoint.set_aside(tmp_path)  # as a resumed run does: it may make the same one again
    assert not newest.exists()
    checkpoint.save(tmp_path / "last.pt", state_of(replay))
    assert equal(checkpoint.load(tmp_path / "last.pt")["teach"]["replay"], replay.state_dict())
    newest.unlink()
    with pytest.raises(checkpoint.Damaged, match="No such file"):
        checkpoint.load(tmp_path / "last.pt")
    shutil.rmtree(tmp_path / snapshots.FOLDER)
    assert checkpoint.load(tmp_path / "last.pt", replay=False)["step"] == 1  # for whoever needs the network alone
