"""Rows of version 0.1: the results of the experiments are such files, and ``TABLES`` what that version made of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teachaugment.commands import cli
from teachaugment.commands.compare import rows
from teachaugment.commands.compare.old_rows import settings_of

ROOT = Path(__file__).resolve().parents[3]
TABLES = ROOT / "tests" / "fixtures" / "v0.1" / "compare"
RESULTS = [ROOT / "experiments" / "results" / f"{path.stem}.jsonl" for path in sorted(TABLES.glob("*.md"))]


def test_there_are_such_files_with_their_tables():
    assert len(RESULTS) == 10 and all(path.exists() for path in RESULTS)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_row_is_known_and_the_tables_are_those_of_version_0_1(path, capsys):
    found = rows.read(path)
    assert found and all("flags" in row for row in found)
    keys = [rows.key(row) for row in found]
    assert None not in keys and len(set(keys)) == len(keys)
    assert cli.main(["compare", "--from", str(path), "--markdown"]) == 0
    out, err = capsys.readouterr()
    then = (TABLES / f"{path.stem}.md").read_text(encoding="utf-8")
    assert out == re.sub(r"\| [+-][\d.]+ to [+-][\d.]+ (\| \d/[12] \|)", r"| – \1", then)  # now none below three seeds
    assert err == ""


def test_a_row_with_settings_is_the_same_run_as_one_with_the_flags_that_gave_them():
    flags = ["--task", "segmentation", "--data", "photos", "--epochs", "40", "--optim.milestones", "3,6"]
    old = {"strategy": "teachaugment:teach.n_inner=1", "seed": 3, "flags": flags}
    new = {"strategy": old["strategy"], "seed": 3, "settings": settings_of(flags)}
    assert new["settings"]["train.epochs"] == 40 and new["settings"]["optim.milestones"] == [3, 6]
    assert rows.key(new) == rows.key(old) is not None


def test_a_preset_in_the_flags_is_read():
    assert settings_of(["--preset", "cifar10-small", "--lr", "0.2"])["optim.lr"] == 0.2
    assert settings_of(["--preset", "cifar10-small"])["model.name"] == "wrn-16-1"


def test_a_row_has_what_its_version_did_where_a_default_is_another_now():
    assert settings_of(["--task", "simsiam", "--epochs", "40"])["optim.decay_norms"] is False
    assert settings_of([])["teach.color_space"] == "image" and settings_of([])["teach.context"] == "input"
    assert settings_of([])["teach.n_buffer"] == 10 and settings_of(["--task", "byol"])["teach.n_buffer"] == 1
    assert settings_of(["--teach.n_buffer", "5"])["teach.n_buffer"] == 5
    row = {"strategy": "teachaugment", "seed": 0, "flags": []}
    assert rows.key(row) != rows.key({"strategy": "teachaugment", "seed": 0, "settings": {}})
