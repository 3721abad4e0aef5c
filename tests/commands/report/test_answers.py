"""The first thing a report says: whether augmentation helped, and which weights to use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import small

from teachaugment.commands.report.answers import answers
from teachaugment.commands.report.numbers import title
from teachaugment.commands.report.record import read
from teachaugment.config.resolve import to_yaml


def run(root: Path, name: str, accuracy: float, best: dict[str, Any] | None = None, **changed: Any) -> Path:
    (root / name).mkdir(parents=True)
    config = small.settings({"data.path": "/data/bees", "model.name": "cnn-4", "output": str(root / name)}, changed)
    (root / name / "config.yaml").write_text(to_yaml(config))
    metrics: dict[str, Any] = {"metric": "accuracy", "test": {"target": {"accuracy": accuracy}}}
    if config.augment.strategy != "none":
        metrics["test"]["teacher"] = {"accuracy": accuracy - 0.01}
    if best:
        metrics["best"] = best
    (root / name / "metrics.json").write_text(json.dumps(metrics))
    return root / name


def test_the_baseline_beside_a_run_says_whether_augmentation_helped(tmp_path):
    mine = run(tmp_path, "with", 0.75)
    run(tmp_path, "without", 0.7, augment__strategy="none")
    run(tmp_path, "other", 0.1, augment__strategy="none", optim__lr=0.2)
    first = answers(read(mine))[0]
    assert first.question == "Did augmentation help?"
    assert "75.0 % of the test images with teachaugment, 70.0 % without (without): 5.0 points more" in first.answer


def test_without_a_baseline_the_report_says_how_to_find_out(tmp_path):
    first = answers(read(run(tmp_path, "with", 0.75)))[0]
    assert "teachaugment compare --data /data/bees --model cnn-4 --strategies none,teachaugment" in first.answer
    masks = run(tmp_path, "masks", 0.75, task="segmentation", data__crop=64, model__name="unet-16", teach__n_inner=1)
    command = "teachaugment compare --task segmentation --data /data/bees --model unet-16 --data.crop 64 --strategies"
    assert command in answers(read(masks))[0].answer
    assert [a.question for a in answers(read(run(tmp_path, "base", 0.7, augment__strategy="none")))] == [
        "Which weights?"
    ]


def test_the_weights_are_those_that_a_validation_split_chose(tmp_path):
    best = {"epoch": 7, "model": "teacher", "accuracy": 0.8, "test": {"teacher": {"accuracy": 0.78}}}
    chosen = answers(read(run(tmp_path, "a", 0.75, best)))[-1].answer
    assert chosen.startswith(
        "The teacher of epoch 7 (best.pt, 78.0 % on test images): on the validation split no epoch"
    )
    last = answers(read(run(tmp_path, "b", 0.75)))[-1].answer
    assert last.startswith("The target of the last epoch (last.pt)") and "the teacher 74.0 %" in last
    assert "--val-fraction 0.1" in last


def test_the_title_names_data_and_network(tmp_path):
    assert title(read(run(tmp_path, "x", 0.5))) == "cnn-4 on bees, teachaugment"
