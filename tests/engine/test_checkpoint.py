from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from teachaugment.engine import checkpoint
from teachaugment.errors import UserError
from teachaugment.files import write_atomically


def test_what_is_saved_is_loaded(tmp_path):
    state = {"step": 3, "best": None, "weights": {"a": torch.arange(4.0)}, "names": ["x", "y"]}
    checkpoint.save(tmp_path / "last.pt", state)
    loaded = checkpoint.load(tmp_path / "last.pt")
    assert torch.equal(loaded["weights"]["a"], state["weights"]["a"])
    assert (loaded["step"], loaded["best"], loaded["names"]) == (3, None, ["x", "y"])
    assert os.listdir(tmp_path) == ["last.pt"]


class Evil:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_malicious_pickle_is_refused_and_nothing_in_it_runs(tmp_path):
    """With a right checksum and without one."""
    path, evil = tmp_path / "last.pt", {"format": checkpoint.FORMAT, "target": Evil(tmp_path / "made")}
    checkpoint.save(path, evil)
    with pytest.raises(UserError, match="more than tensors and numbers"):
        checkpoint.load(path)
    torch.save(evil, path)
    with pytest.raises(UserError, match="does not end with a checksum"):
        checkpoint.load(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("keep", [0, 1, 100, -80, -74, -1])
def test_a_truncated_file_is_refused_in_one_line(tmp_path, keep):
    path = tmp_path / "last.pt"
    checkpoint.save(path, {"weights": torch.zeros(1000)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(checkpoint.Damaged) as error:
        checkpoint.load(path)
    assert "last.pt" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("place", [0, 700, 3000, -60, -73, -1])
def test_a_single_bit_that_flipped_is_noticed(tmp_path, place):
    path = tmp_path / "last.pt"
    checkpoint.save(path, {"weights": torch.zeros(1000)})
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
    with pytest.raises(checkpoint.Damaged):
        checkpoint.load(path)


def test_torch_alone_can_read_a_checkpoint(tmp_path):
    checkpoint.save(tmp_path / "last.pt", {"weights": torch.arange(5)})
    assert torch.load(tmp_path / "last.pt", weights_only=True)["weights"].tolist() == [0, 1, 2, 3, 4]


def test_a_damaged_last_checkpoint_is_told_and_the_one_before_it_taken(tmp_path):
    for step in (1, 2):
        checkpoint.save(tmp_path / checkpoint.LAST, {"step": step}, keep=tmp_path / checkpoint.PREVIOUS)
    assert checkpoint.newest(tmp_path)[0]["step"] == 2
    good = (tmp_path / checkpoint.LAST).read_bytes()
    (tmp_path / checkpoint.LAST).write_bytes(good[:-1])
    with pytest.warns(match=r"last.pt is damaged.*; taking .*previous.pt, of step 1"):
        state, file = checkpoint.newest(tmp_path)
    assert state["step"] == 1 and file == tmp_path / checkpoint.PREVIOUS
    checkpoint.set_aside(tmp_path)
    checkpoint.save(tmp_path / checkpoint.LAST, {"step": 2}, keep=tmp_path / checkpoint.PREVIOUS)
    assert checkpoint.load(tmp_path / checkpoint.PREVIOUS)["step"] == 1, "the damaged one has not pushed it out"
    assert (tmp_path / checkpoint.DAMAGED).read_bytes() == good[:-1]
    for name in (checkpoint.LAST, checkpoint.PREVIOUS):
        (tmp_path / name).write_bytes(b"?")
    with pytest.raises(checkpoint.Damaged, match=r"last.pt is damaged.*, and .*previous.pt is damaged"):
        checkpoint.newest(tmp_path)


def test_between_two_renames_only_the_previous_one_is_there(tmp_path):
    assert not checkpoint.exists(tmp_path)
    checkpoint.save(tmp_path / checkpoint.PREVIOUS, {"step": 1})
    assert checkpoint.exists(tmp_path) and checkpoint.newest(tmp_path)[0]["step"] == 1


def test_a_foreign_or_missing_file_is_refused(tmp_path):
    checkpoint.save(tmp_path / "other.pt", {"format": 1})
    with pytest.raises(UserError, match="not a checkpoint of this version"):
        checkpoint.load(tmp_path / "other.pt")
    with pytest.raises(UserError, match="there is no checkpoint"):
        checkpoint.load(tmp_path / "none.pt")


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "last.pt"
    checkpoint.save(path, {"step": 1})

    def fails(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left"):
        write_atomically(path, fails)
    assert checkpoint.load(path)["step"] == 1 and os.listdir(tmp_path) == ["last.pt"]
