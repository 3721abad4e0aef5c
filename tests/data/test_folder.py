"""Image folders: structure, sizes, broken files, and splits that only names and seed decide."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment import progress
from teachaugment.data import Reading, finish, lacks_validation, load
from teachaugment.errors import UserError


def picture(path, value=0, size=(12, 10)):
    """A picture whose pixels say which one it is; ``size`` is width, height."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, 255 - value, 7)).save(path)
    return path


def folder(root, counts, size=(12, 10)):
    value = 0
    for name, n in counts.items():
        for i in range(n):
            picture(root / name / f"{i}.png", value % 256, size)
            value += 1
    return root


def reds(split):
    return split.image[:, 0, 0, 0].tolist()


def one_line(root, says, **keywords):
    with pytest.raises(UserError, match=says) as error:
        load(root, Reading(**keywords))
    assert "\n" not in str(error.value)
    return str(error.value)


# Structure


@pytest.mark.parametrize("other", ["val", "test"])
def test_train_and_val_or_test_folders_are_the_splits_and_classes_are_sorted(tmp_path, other):
    folder(tmp_path / "train", {"dog": 3, "cat": 2})
    folder(tmp_path / other, {"cat": 1, "dog": 1})
    data = load(tmp_path)
    assert data.classes == ["cat", "dog"] and data.val is None and data.channels == 3
    assert data.train.label.tolist() == [0, 0, 1, 1, 1] and reds(data.train) == [3, 4, 0, 1, 2]
    assert data.test.label.tolist() == [0, 1]


def test_with_val_and_test_folders_both_are_used(tmp_path):
    for name, n in {"train": 3, "val": 2, "test": 1}.items():
        folder(tmp_path / name, {"a": n, "b": n})
    data = load(tmp_path)
    assert (len(data.train), len(data.val), len(data.test)) == (6, 4, 2)
    one_line(tmp_path, "its own val/", val_fraction=0.1)


def test_one_folder_is_split_by_class_and_only_names_and_seed_decide(tmp_path):
    folder(tmp_path / "one", {"a": 20, "b": 10})
    data = load(tmp_path / "one", Reading(seed=1))
    assert torch.bincount(data.test.label).tolist() == [4, 2]
    assert sorted(reds(data.train) + reds(data.test)) == list(range(30))
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    assert reds(load(tmp_path / "elsewhere", Reading(seed=1)).test) == reds(data.test)
    assert reds(load(tmp_path / "elsewhere", Reading(seed=2)).test) != reds(data.test)


def test_a_class_may_be_called_train(tmp_path):
    assert load(folder(tmp_path, {"car": 3, "train": 3})).classes == ["car", "train"]


@pytest.mark.parametrize(
    ("train", "val", "test"),
    [
        ("Train", "Valid", None),
        ("training", "validation", "testing"),
        ("TRAIN", None, "TEST"),
        ("Training", "VAL", "Test"),
    ],
)
def test_splits_are_known_by_their_names_in_any_case(tmp_path, train, val, test):
    for name, n in ((train, 4), (val, 2), (test, 1)):
        if name is not None:
            folder(tmp_path / name, {"cat": n, "dog": n})
    data = load(tmp_path)
    assert data.classes == ["cat", "dog"] and len(data.train) == 8
    assert len(data.test) == (2 if test else 4)
    assert (None if data.val is None else len(data.val)) == (4 if val and test else None)
    assert lacks_validation(str(tmp_path)) == (not (val and test))


def test_splits_are_no_classes(tmp_path):
    folder(tmp_path / "flat", {"Train": 3, "Test": 3})
    one_line(tmp_path / "flat", "a split is no class; expected .*/train/CLASS/IMAGE.png")
    folder(tmp_path / "one", {"train": 3})
    one_line(tmp_path / "one", "no class folders")
    folder(tmp_path / "late/valid", {"a": 2, "b": 2})
    one_line(tmp_path / "late", r"has valid/ with class folders, but no train/; it has valid/")
    folder(tmp_path / "two/val", {"a": 2, "b": 2})
    folder(tmp_path / "two/Validation", {"a": 2, "b": 2})
    one_line(tmp_path / "two", "both the val split")


def test_a_train_folder_alone_is_split_by_itself(tmp_path):
    folder(tmp_path / "train", {"a": 10, "b": 10})
    data = load(tmp_path)
    assert (len(data.train), len(data.test), data.classes) == (16, 4, ["a", "b"])


def test_test_images_without_class_folders_are_left_out_by_name(tmp_path):
    folder(tmp_path / "train", {"a": 10, "b": 10})
    folder(tmp_path, {"test": 3})
    with pytest.warns(UserWarning, match=r"left out .*/test: its images are in no class folders"):
        data = load(tmp_path)
    assert (len(data.train), len(data.test)) == (16, 4)


def test_what_a_program_left_behind_and_classes_with_one_image_are_named(tmp_path):
    folder(tmp_path, {"a": 5, "b": 5, "rare": 1, "__MACOSX": 2})
    with pytest.warns(UserWarning) as warned:
        data = load(tmp_path)
    assert data.classes == ["a", "b", "rare"]
    said = [str(each.message) for each in warned]
    assert "__MACOSX" in said[0] and said[1] == "with one image only, which is trained on: rare"


def test_per_class_and_validation_apply_to_folders(tmp_path):
    data = load(folder(tmp_path, {"a": 20, "b": 20}), Reading(per_class=3, val_fraction=0.25))
    assert (len(data.train), len(data.val), len(data.test)) == (6, 8, 8)
    assert not set(reds(data.val)) & set(reds(data.train) + reds(data.test))


def test_where_a_class_has_one_training_image_there_is_no_validation_split(tmp_path):
    with pytest.warns(UserWarning, match="there is no validation split"):
        data = load(folder(tmp_path, {"a": 2, "b": 2}), Reading(val_fraction=0.1))
    assert (len(data.train), data.val, len(data.test)) == (2, None, 2)


def test_impossible_folders_are_refused_in_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    one_line(tmp_path / "empty", "no class folders")
    one_line(tmp_path / "missing", "no data set, folder")
    one_line(folder(tmp_path / "single", {"cat": 4}), r"only one class \(cat\)")
    one_line(folder(tmp_path / "lonely", {"a": 1, "b": 1}), "one image per class")
    folder(tmp_path / "alone/train", {"a": 2, "b": 2})
    folder(tmp_path / "alone/test", {"a": 1, "zebra": 1})
    one_line(tmp_path / "alone", "train/ does not have: zebra")
    folder(tmp_path / "hollow", {"a": 2, "b": 2})
    (tmp_path / "hollow/c").mkdir()
    one_line(tmp_path / "hollow", "hollow/c has no images")


# Sizes


def test_images_of_one_small_size_keep_it_and_others_become_224(tmp_path):
    assert load(folder(tmp_path / "a", {"x": 2, "y": 2}, (12, 10))).size == (10, 12)
    assert load(folder(tmp_path / "b", {"x": 2, "y": 2}, (65, 65))).size == (224, 224)
    folder(tmp_path / "c", {"x": 2, "y": 2}, (12, 10))
    picture(tmp_path / "c/x/odd.png", size=(12, 11))
    assert load(tmp_path / "c").size == (224, 224)
    assert load(tmp_path / "c", Reading(size=16)).train.image.shape[1:] == (3, 16, 16)


def test_enlarging_is_told_and_files_may_be_squashed_or_padded(tmp_path):
    folder(tmp_path, {"x": 3, "y": 3}, (100, 90))
    with pytest.warns(UserWarning, match=r"images of 100×90 pixels are enlarged to 224×224; --data.size 90"):
        data = load(tmp_path)
    assert data.found == ((90, 100), (90, 100)) and data.fit == "crop" and not data.own_test
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fit in ("squash", "pad"):
            assert load(tmp_path, Reading(size=30, fit=fit)).fit == fit
        padded, squashed = (load(tmp_path, Reading(size=30, fit=fit)).train.image for fit in ("pad", "squash"))
    assert (padded[:, :, 0] == 0).all() and not (squashed[:, 1, 0] == 0).any()
    with pytest.raises(UserError, match=r"data\.fit is for image files"):
        load("shapes", Reading(fit="pad"))


def test_the_seed_of_the_splits_is_not_the_seed(tmp_path):
    folder(tmp_path, {"a": 20, "b": 20})

    def splits(**seeds):
        data = load(tmp_path, Reading(val_fraction=0.2, per_class=6, **seeds))
        return reds(data.test), reds(data.val), reds(data.train)

    first, other = splits(seed=0, split_seed=0), splits(seed=1, split_seed=0)
    assert first[:2] == other[:2] and first[2] != other[2]  # per_class follows the seed
    assert splits(seed=1) == splits(seed=1, split_seed=1) != splits(seed=1, split_seed=0)


# Broken files


@pytest.mark.parametrize("in_memory", ["always", "never"])
def test_a_broken_image_is_named_or_skipped(tmp_path, in_memory):
    folder(tmp_path, {"a": 10, "b": 10})
    (tmp_path / "a/broken.png").write_bytes(b"no picture")
    noise = np.random.default_rng(0).integers(0, 256, (10, 12, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "b/short.png")
    (tmp_path / "b/short.png").write_bytes((tmp_path / "b/short.png").read_bytes()[:200])
    assert "a/broken.png" in one_line(tmp_path, "cannot read image", in_memory=in_memory)
    if in_memory == "always":
        with pytest.warns(UserWarning, match=r"skipped 2 unreadable images: .*; .*") as warned:
            data = load(tmp_path, Reading(size=10, bad_images="skip", in_memory=in_memory))
        assert len(data.train) + len(data.test) == 20
        said = str(warned[0].message)
        assert "a/broken.png" in said and "b/short.png" in said and "bad_images" not in said


@pytest.mark.parametrize("in_memory", ["always", "never"])
def test_of_many_broken_images_the_first_ten_are_named(tmp_path, in_memory):
    folder(tmp_path, {"a": 10, "b": 10})
    for i in range(14):
        (tmp_path / f"a/broken{i}.png").write_bytes(b"no picture")
    with pytest.warns(UserWarning) as warned:
        data = load(tmp_path, Reading(size=10, bad_images="skip", in_memory=in_memory))
        if in_memory == "never":
            data.train.read_parts(list(range(len(data.train))), 0, 0)
            data.test.read_parts(list(range(len(data.test))), 0, 0)
    said = "\n".join(str(each.message) for each in warned)
    if in_memory == "always":
        assert said.count(".png") == 10 and said.endswith("and 4 more") and "skipped 14" in said
    else:
        assert 10 <= said.count(".png") <= 14 and "the others are not named" in said


def test_a_class_with_no_readable_training_image_is_refused(tmp_path):
    folder(tmp_path / "train", {"a": 2})
    folder(tmp_path / "test", {"a": 2})
    (tmp_path / "train/b").mkdir()
    (tmp_path / "train/b/x.png").write_bytes(b"no picture")
    with pytest.warns(UserWarning):
        one_line(tmp_path, "class b has no readable", bad_images="skip")


def test_decompression_bombs_are_refused_by_name(tmp_path, monkeypatch):
    folder(tmp_path, {"a": 3, "b": 3})
    picture(tmp_path / "a/bomb.png", size=(40, 40))
    monkeypatch.setattr("teachaugment.data.opened.MAX_PIXELS", 1000)
    assert "a/bomb.png" in one_line(tmp_path, "over the limit", size=8)


def test_what_pillow_itself_calls_a_bomb_is_refused_by_name(tmp_path, monkeypatch):
    folder(tmp_path, {"a": 3, "b": 3})
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    assert "a/0.png" in one_line(tmp_path, "bomb", size=8)


def test_a_picture_that_is_a_program_is_not_opened(tmp_path):
    """Pillow would hand PostScript to an interpreter, whatever the file is called."""
    folder(tmp_path, {"a": 3, "b": 3})
    Image.new("RGB", (8, 8)).save(tmp_path / "a/drawing.eps")
    found = load(tmp_path)
    assert len(found.train) + len(found.test) == 6
    (tmp_path / "a/drawing.eps").rename(tmp_path / "a/drawing.png")
    assert "a/drawing.png" in one_line(tmp_path, "not an image in a known format", size=8)


# Memory or disk


def test_what_is_too_large_for_memory_streams_and_is_cropped_no_differently(tmp_path, monkeypatch):
    folder(tmp_path, {"a": 10, "b": 10})
    assert load(tmp_path).train.in_memory
    monkeypatch.setattr(finish, "IN_MEMORY_BYTES", 20 * 3 * 120 - 1)
    data = load(tmp_path)
    assert not data.train.in_memory and not data.train.cropped and not data.test.cropped
    assert load(tmp_path, Reading(in_memory="always")).train.in_memory


def test_streamed_and_decoded_folders_agree(tmp_path):
    folder(tmp_path, {"a": 10, "b": 10}, size=(40, 30))
    memory, disk = (load(tmp_path, Reading(size=16, in_memory=how)) for how in ("always", "never"))
    for name in ("train", "test"):
        kept, streamed = getattr(memory, name), getattr(disk, name)
        (part,) = streamed.read_parts(list(range(len(streamed))), 0, 0)
        assert torch.equal(part.views[0], kept.image) and torch.equal(part.label, kept.label)
        assert part.rows.tolist() == list(range(len(kept)))
    assert (memory.classes, memory.size, memory.mean) == (disk.classes, disk.size, disk.mean)


def test_slow_decoding_reports_plain_lines_when_there_is_no_terminal(capsys, monkeypatch):
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    assert list(progress.progress(range(3), 3, "decoding", "images")) == [0, 1, 2]
    lines = capsys.readouterr().err.splitlines()
    assert lines and lines[0].startswith("decoding: ") and "\r" not in lines[0]


def test_fast_decoding_says_nothing(tmp_path, capsys):
    load(folder(tmp_path, {"a": 3, "b": 3}))
    assert capsys.readouterr().err == ""
