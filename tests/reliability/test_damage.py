"""Every damage to a checkpoint is noticed, told in one line, and the checkpoint before it is taken."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from teachaugment.engine import checkpoint, directory
from teachaugment.errors import UserError
from teachaugment.policy.load import load_policy


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_every_truncation_is_noticed(lab, record, tmp_path, count):
    path = shutil.copytree(lab.reference, tmp_path / "run") / checkpoint.LAST
    checkpoint.load(path)  # which is whole
    size = path.stat().st_size
    numbers = random.Random(0)
    near_the_end = [size - 1, size - 2, size - checkpoint.TRAILER, size - checkpoint.TRAILER - 1, 0]
    lengths = sorted({*near_the_end, *(numbers.randrange(size) for _ in range(count - 5))}, reverse=True)
    assert len(lengths) == count
    for length in lengths:
        os.truncate(path, length)
        with pytest.raises(checkpoint.Damaged):
            checkpoint.load(path)
    record("checkpoints cut short anywhere", count)


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_every_flipped_bit_is_noticed(lab, record, tmp_path, count):
    """The checksum's own included."""
    path = shutil.copytree(lab.reference, tmp_path / "run") / checkpoint.LAST
    size, numbers = path.stat().st_size, random.Random(0)
    places = [size - 1, size - 2, size - checkpoint.TRAILER, 0, 1]
    places += [numbers.randrange(size) for _ in range(count - len(places))]
    with open(path, "r+b") as file:
        for place in places:
            file.seek(place)
            right = file.read(1)
            for content in (bytes([right[0] ^ 1 << numbers.randrange(8)]), right):
                file.seek(place)
                file.write(content)
                file.flush()
                if content != right:
                    with pytest.raises(checkpoint.Damaged):
                        checkpoint.load(path)
    checkpoint.load(path)
    record("single bits flipped anywhere in a checkpoint", count)


@pytest.mark.parametrize("count", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_damage_to_a_policy_is_noticed_or_changes_nothing(lab, record, tmp_path, count):
    """One bit, a few bytes, or the end; what is accepted all the same is the same policy, to the last digit."""
    whole, numbers = (lab.reference / directory.POLICY).read_bytes(), random.Random(0)
    right, path = load_policy(lab.reference), tmp_path / directory.POLICY
    header = int.from_bytes(whole[:8], "little")
    for i in range(count):
        content = bytearray(whole)
        place = numbers.randrange(8 + header if i % 2 else len(whole))
        if i % 10 == 9:
            del content[place:]
        else:
            content[place] ^= 1 << numbers.randrange(8)
        path.write_bytes(content)
        try:
            found = load_policy(path)
        except UserError as error:
            assert "\n" not in str(error)
            continue
        assert found.content() == right.content(), place  # a space in the header
    record("damage to a policy: noticed, or without any effect", count)


def damage(path, place: int = -1000) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 16
    path.write_bytes(content)


def test_a_run_with_a_damaged_last_checkpoint_goes_on_from_the_previous_one(lab):
    path = lab.stopped()
    damage(path / checkpoint.LAST)
    before = checkpoint.load(path / checkpoint.PREVIOUS)["step"]
    process = lab.finish(path)
    warning = [line for line in process.said().splitlines() if "warning" in line]
    assert len(warning) == 1 and f"taking {path / checkpoint.PREVIOUS}, of step {before}" in warning[0]
    lab.same(path)
    assert (path / checkpoint.DAMAGED).exists()


def test_two_damaged_checkpoints_end_it_in_one_line(lab):
    path = lab.stopped()
    damage(path / checkpoint.LAST)
    damage(path / checkpoint.PREVIOUS)
    process = lab.train(path)
    assert process.wait() == 2 and len(process.said().splitlines()) == 1, process.said()


def test_a_damaged_best_checkpoint_is_told_and_the_run_ends_well(lab):
    """If its epoch stays the best; its policy and its place in the log are there all the same."""
    path = lab.fresh()
    lab.finish(path)
    damage(path / checkpoint.BEST)
    process = lab.finish(path)
    (warning,) = [line for line in process.said().splitlines() if "warning" in line]
    assert "best.pt" in warning and "the best epoch is not evaluated" in warning
    process = lab.start("evaluate", path, "--checkpoint", "best")
    assert process.wait() == 2 and len(process.error_lines()) == 1 and "best.pt is damaged" in process.said()
