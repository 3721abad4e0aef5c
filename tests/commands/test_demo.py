"""The demo trains with and without its augmentation, and says in one sentence what came of it."""

from __future__ import annotations

from pathlib import Path

from teachaugment.commands import cli, demo
from teachaugment.strategies import DEFAULT


def test_the_demo_shows_the_point(tmp_path, capsys):
    words = ["--data.size", "8", "--data.per_class", "2", "--batch_size", "8", "--epochs", "1", "--device", "cpu"]
    assert cli.main(["demo", "--output", str(tmp_path), *words]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last.startswith("With its augmentation ") and "without it" in last
    (learned,) = (tmp_path / "runs").glob(f"{DEFAULT}-*/")
    assert f"{learned}/augmented.png" in last and (learned / "augmented.png").is_file()
    page = (learned / "report.html").read_text()
    assert "Did augmentation help?" in page and f"% of the test images with {DEFAULT}" in page


def test_the_sentence_has_both_accuracies():
    said = demo.sentence([{"mean": 61.25}, {"mean": 70.04}], Path("runs/x"))
    assert "70.0 % of the test images are right, without it 61.2 % (one seed)" in said
