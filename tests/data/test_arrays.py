"""Arrays from .npz files: two layouts are read, everything else is refused in one line, and no pickle is opened."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from teachaugment.data import Reading, load
from teachaugment.errors import UserError

RNG = np.random.default_rng(0)


def arrays(shape=(6, 5, 3), n=20, m=10):
    return {
        "x_train": RNG.integers(0, 256, (n, *shape), dtype=np.uint8),
        "y_train": np.arange(n) % 4,
        "x_test": RNG.integers(0, 256, (m, *shape), dtype=np.uint8),
        "y_test": np.arange(m) % 4,
    }


def save(folder, content):
    np.savez(folder / "some.npz", **content)
    return folder / "some.npz"


def test_channels_last_becomes_channels_first(tmp_path):
    content = arrays()
    data = load(save(tmp_path, content))
    assert (data.name, data.channels, data.size, data.classes) == ("some", 3, (6, 5), ["0", "1", "2", "3"])
    assert np.array_equal(data.train.image.numpy(), content["x_train"].transpose(0, 3, 1, 2))
    assert data.test.label.tolist() == content["y_test"].tolist()


def test_a_file_that_unpacks_to_fill_the_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, **{**arrays(), "x_train": np.zeros((20, 300, 300, 3), np.uint8)})
    load_error = "bomb.npz is a decompression bomb: .* bytes unpack to 5,"
    monkeypatch.setattr("teachaugment.data.arrays.FAIR_BYTES", 10**6)
    with pytest.raises(UserError, match=load_error):
        load(path)


def test_a_file_whose_header_promises_more_than_memory_holds_is_refused(tmp_path):
    path = save(tmp_path, arrays())
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    header = io.BytesIO()
    promised = {"descr": "|u1", "fortran_order": False, "shape": (10**9, 10**6, 5, 3)}
    np.lib.format.write_array_header_1_0(header, promised)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, header.getvalue() + b"few" if name == "x_train.npy" else content)
    with pytest.raises(UserError, match=r"cannot read .*some.npz: it does not fit into memory$"):
        load(path)


def test_grey_images_without_a_channel_axis_have_one_channel(tmp_path):
    data = load(save(tmp_path, arrays(shape=(8, 8))))
    assert data.channels == 1 and data.train.image.shape == (20, 1, 8, 8) and len(data.mean) == 1


def test_labels_may_be_a_column_and_any_integers(tmp_path):
    content = arrays()
    content["y_train"], content["y_test"] = content["y_train"][:, None] * 10, content["y_test"][:, None] * 10
    data = load(save(tmp_path, content))
    assert data.classes == ["0", "10", "20", "30"] and data.train.label.tolist() == [i % 4 for i in range(20)]


def test_the_size_that_the_arrays_have_may_be_named(tmp_path):
    assert load(save(tmp_path, arrays()), Reading(size=(6, 5))).size == (6, 5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x_train": None}, "lacks x_train"),
        ({"x_train": np.zeros((20, 6, 5, 3), dtype=np.float32)}, "must be uint8"),
        ({"x_test": np.zeros((0, 6, 5, 3), dtype=np.uint8)}, "not empty"),
        ({"x_test": np.zeros((10, 7, 5, 3), dtype=np.uint8)}, "all but N must agree"),
        ({"x_train": np.zeros((20, 3, 6, 5), dtype=np.uint8)}, "channels first"),
        ({"y_train": np.zeros(19, dtype=np.int64)}, "y_train"),
        ({"y_train": np.zeros(20)}, "must be integers"),
        ({"y_train": np.zeros(20, dtype=np.int64)}, "only one class"),
        ({"y_test": np.full(10, 9)}, "y_train does not have: 9"),
        ({"y_test": np.array([{}] * 10, dtype=object)}, "cannot read"),
    ],
)
def test_wrong_arrays_are_refused_in_one_line(tmp_path, change, says):
    content = {**arrays(), **change}
    path = save(tmp_path, {key: value for key, value in content.items() if value is not None})
    with pytest.raises(UserError, match=says) as error:
        load(path)
    assert "some.npz" in str(error.value) and "\n" not in str(error.value)


def test_wrong_size_and_missing_or_broken_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="leave size out"):
        load(save(tmp_path, arrays()), Reading(size=32))
    with pytest.raises(UserError, match="no such file"):
        load(tmp_path / "other.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    with pytest.raises(UserError, match="cannot read"):
        load(tmp_path / "broken.npz")
