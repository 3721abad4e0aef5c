"""Data sets by name or path: which format of the two tables reads a source, and what is said if none does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from teachaugment.data import CLASSES, MASKS, Reading, find, load, names
from teachaugment.errors import UserError


def test_the_tables_can_be_read_without_torch():
    code = "import sys, teachaugment.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("table", [CLASSES, MASKS])
def test_every_line_of_a_table_names_a_function_and_says_what_it_reads(table):
    for key, entry in table.items():
        assert callable(table.load(key)) and entry.help


def test_a_source_is_a_prefix_an_ending_a_directory_or_a_name(tmp_path):
    sources = ["hf:mnist", "wds:a/*.tar", tmp_path, "~", "cifar10", "some.npz", "nowhere"]
    assert [find(source, CLASSES) for source in sources] == ["hf:", "wds:", "folder", "folder", "cifar10", ".npz", None]
    assert [find(source, MASKS) for source in sources] == [None, None, "folder", "folder", None, None, None]
    assert names(CLASSES) == ["shapes", "cifar10", "cifar100", "imagenet"] and names(MASKS) == ["shapes", "cityscapes"]


@pytest.mark.parametrize("table", [CLASSES, MASKS])
def test_a_directory_comes_before_a_name_unless_a_root_is_given(tmp_path, monkeypatch, table):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes").mkdir()
    (tmp_path / "photos").mkdir()
    assert find("shapes", table) == "folder" and find("shapes", table, rooted=True) == "shapes"
    assert find("photos", table, rooted=True) == "folder"


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(UserError, match="did you mean 'shapes'"):
        load("shape")
    with pytest.raises(UserError, match=r"known: .*shapes"):
        load("no/such/folder")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("cifar10", "cifar10 has no masks; segmentation takes shapes, cityscapes or a folder"),
        ("hf:mnist", "hf:mnist has no masks"),
        ("wds:a.tar", "wds:a.tar has no masks"),
        ("some.npz", "some.npz has no masks"),
        ("nowhere", "no data set or folder 'nowhere'; known: cityscapes, shapes"),
        ("cityscape", "did you mean 'cityscapes'"),
    ],
)
def test_data_without_masks_are_refused_by_what_is_wrong_with_them(source, says):
    with pytest.raises(UserError, match=says):
        load(source, table=MASKS)


def test_data_without_a_class_for_a_whole_image_are_refused():
    with pytest.raises(UserError, match=r"cityscapes has masks, .* use --task segmentation"):
        load("cityscapes")


@pytest.mark.parametrize(("source", "table"), [("shapes", CLASSES), ("shapes", MASKS), ("a.npz", CLASSES)])
def test_what_is_made_or_read_in_one_piece_does_not_stream(source, table):
    with pytest.raises(UserError, match="only folders"):
        load(source, Reading(in_memory="never"), table)
