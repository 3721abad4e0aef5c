"""The command itself, with a table file of three small rows on the built-in images: real runs, kept rows, the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teachaugment.commands import cli
from teachaugment.commands.compare import rows
from teachaugment.commands.paper import items

SMALL = """
seeds: 1
data: {other: somewhere else}
laptop:
  shapes:
    title: shapes, 20 images
    column: CIFAR-10
    settings:
      {data.path: shapes, data.size: 8, data.per_class: 2, train.batch_size: 8, train.epochs: 2, device: cpu}
    seconds: {"": 5}
  absent: {title: other images, column: CIFAR-100, data: other, seconds: {"": 5}}
items:
  tab3:
    title: Tab. 3, objectives
    columns: [CIFAR-10, CIFAR-100]
    rows:
      - {label: baseline, strategy: none, error: [3.1, 18.4]}
      - {label: TeachAugment, strategy: teachaugment, error: [2.5, 16.8]}
      - {label: OnlineAugment, missing: it is not here, error: [2.4, 16.6]}
    laptop: [shapes, absent]
    claims: [{says: ours is better, better: [[TeachAugment, baseline]]}]
  fig4:
    title: Fig. 4, colours
    picture: colors
    rows: [{label: without, strategy: "teachaugment:teach.color_weight=0"}, {label: with, strategy: teachaugment}]
    laptop: [shapes]
    claims: [{says: aligned, smaller: {what: color_distance, order: [with, without]}}]
  fig8:
    title: Fig. 8, images
    picture: images
    rows: [{label: TeachAugment, strategy: teachaugment}]
    laptop: [shapes]
  tab8:
    title: Tab. 8, settings
    settings: {optim.lr: [0.1]}
    presets: [cifar10-wrn-28-10]
"""


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "items.yaml"
    path.write_text(SMALL, encoding="utf-8")
    monkeypatch.setattr(items, "FILE", path)
    items.table_file.cache_clear()
    yield tmp_path
    items.table_file.cache_clear()


def test_missing_rows_are_trained_once_and_the_page_is_made_of_what_is_kept(small, capsys, monkeypatch):
    monkeypatch.chdir(small)
    kept = Path("experiments/results/paper")
    assert cli.main(["paper"]) == 0
    first = capsys.readouterr().out
    assert re.search(r"tab3 .* 0 of 4 +0 of 4 +2 +0:\d\d", first) and "All of it together, 3 runs" in first
    assert "tab3 OnlineAugment: it is not here" in first and "data/other is not there: somewhere else" in first
    assert "To go on: teachaugment paper --run --data DIR" in first
    assert not kept.exists()  # nothing to show

    assert cli.main(["paper", "--run", "tab3", "--jobs", "1"]) == 0
    assert [row["strategy"] for row in rows.read(kept / "laptop.jsonl")] == ["none", "teachaugment"]
    assert not list(kept.glob("fig4*")) and (kept / "fig8.png").exists()
    assert cli.main(["paper", "--run", "--jobs", "1"]) == 0
    assert "2 of 3 runs to train" not in (err := capsys.readouterr().err) and "1 of 3 runs to train" in err
    page, text = (kept / "paper.html").read_text(), (kept / "paper.md").read_text()
    for shown in (page, text):
        assert (
            "ours is better" in shown
            and re.search(r"CIFAR-10: TeachAugment (ahead of|behind) baseline by \d", shown)
            and "OnlineAugment is missing: it is not here" in shown
        )
        assert "other images: nothing has been measured yet" in shown and "color distance with" in shown
        assert "All settings of the presets are the appendix" in shown
    assert page.count("data:image/png") == 2 and 'class="paper">2.5<' in page and "://" not in page
    assert "![shapes, 20 images: original, without, with](fig4-shapes.png)" in text

    for path in ("runs", "experiments/results/paper/paper.html"):  # the page is made again without the runs
        target = Path(path)
        target.rename(small / f"moved-{target.name}")
    assert cli.main(["paper"]) == 0
    assert (kept / "paper.html").read_text() == page and (kept / "paper.md").read_text() == text


def test_what_makes_no_sense_is_refused_in_one_line(capsys):
    assert cli.main(["paper", "--run", "tab33"]) == 2
    assert "unknown table or figure 'tab33'; did you mean 'tab3'?" in capsys.readouterr().err
    assert cli.main(["paper", "--hours", "2"]) == 2 and "add --run" in capsys.readouterr().err
    assert cli.main(["paper", "--run", "--hours", "no"]) == 2 and "not a number of hours" in capsys.readouterr().err
    assert cli.main(["paper", "--run", "tab3", "--scale", "paper"]) == 2 and "is for GPUs" in capsys.readouterr().err
