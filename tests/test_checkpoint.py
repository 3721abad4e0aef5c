from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from teachaugment import checkpoint
from teachaugment.errors import UserError


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
    torch.save({"format": checkpoint.FORMAT, "target": Evil(tmp_path / "made")}, tmp_path / "last.pt")
    with pytest.raises(UserError, match="more than tensors and numbers"):
        checkpoint.load(tmp_path / "last.pt")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_truncated_file_is_refused_in_one_line(tmp_path, keep):
    path = tmp_path / "last.pt"
    checkpoint.save(path, {"weights": torch.zeros(1000)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError) as error:
        checkpoint.load(path)
    assert "last.pt" in str(error.value) and "\n" not in str(error.value)


def test_a_foreign_or_missing_file_is_refused(tmp_path):
    torch.save({"state_dict": {}}, tmp_path / "other.pt")
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
        checkpoint.write_atomically(path, fails)
    assert checkpoint.load(path)["step"] == 1 and os.listdir(tmp_path) == ["last.pt"]
