"""A frozen teacher: the target of an earlier run, of the same network or of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small
import torch

from teachaugment.config.resolve import Config
from teachaugment.engine import build, checkpoint, directory, restore
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.pretrained import Renormalized, load_teacher
from teachaugment.engine.run import run
from teachaugment.errors import UserError
from teachaugment.teachers import FrozenTeacher

TINY = {
    "data.size": 8, "data.per_class": 4, "train.batch_size": 8, "train.epochs": 1, "train.tensorboard": False,
    "teach.n_inner": 2, "device": "cpu",
}  # fmt: skip


def tiny(**changed: Any) -> Config:
    return small.settings(TINY, changed)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "earlier"
    torch.set_num_threads(1)
    config = tiny(model__name="wrn-16-1", augment__strategy="none", output=str(path))
    trainer = build.build(config)
    trainer.data.test = trainer.data.test.select(torch.arange(20))
    run(trainer, directory.create_run(config))
    return path


@pytest.mark.parametrize("model", ["wrn-16-1", "cnn-4"])
@pytest.mark.parametrize("file", ["", checkpoint.LAST])
def test_the_teacher_is_the_target_of_that_run_and_does_not_change(earlier, model, file):
    trainer = build.build(tiny(model__name=model, teach__teacher=str(earlier / file)))
    assert isinstance(trainer.strategy.teacher, FrozenTeacher)
    wanted = checkpoint.load(earlier / checkpoint.LAST)["target"]
    display = TrainingDisplay(trainer.total_steps)
    trainer.train_epoch(display)
    found = trainer.strategy.teacher.model.state_dict()
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert not trainer.strategy.teacher.model.training


def test_a_run_with_such_a_teacher_is_resumed_and_evaluated(earlier, tmp_path, monkeypatch):
    config = tiny(teach__teacher=str(earlier), output=str(tmp_path / "run"))
    few = build.load_data(config)
    few.test = few.test.select(torch.arange(100))
    monkeypatch.setattr(build, "load_data", lambda config, training=True: few)
    run(build.build(config), directory.create_run(config))
    trainer, _ = restore.resume(config, tmp_path / "run")
    assert trainer.epoch == 1
    metrics = restore.evaluate_run(config, tmp_path / "run", "last", None)["test"]
    of_the_earlier_run = restore.evaluate_run(
        tiny(model__name="wrn-16-1", augment__strategy="none"), earlier, "last", None
    )
    assert metrics["teacher"]["accuracy"] == of_the_earlier_run["test"]["target"]["accuracy"]


def test_a_teacher_sees_images_normalised_as_it_was_trained(earlier):
    dataset = build.load_data(tiny())
    plain = load_teacher(str(earlier), dataset).eval()
    dataset.mean, dataset.std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    other = load_teacher(str(earlier), dataset).eval()
    assert isinstance(other, Renormalized) and not isinstance(plain, Renormalized)
    about = checkpoint.load(earlier / checkpoint.LAST)["data"]
    image = torch.rand(2, 3, 8, 8)

    def normalized(mean: Any, std: Any) -> torch.Tensor:
        return (image - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)

    torch.testing.assert_close(
        other(normalized(dataset.mean, dataset.std)),
        plain(normalized(about["mean"], about["std"])),
        atol=1e-4,
        rtol=1e-4,
    )


def test_what_cannot_teach_is_refused_in_one_line(earlier, tmp_path):
    dataset = build.load_data(tiny())
    (tmp_path / "other.pt").write_bytes(b"nothing")
    checkpoint.save(tmp_path / "empty.pt", {})
    state = checkpoint.load(earlier / checkpoint.LAST)
    checkpoint.save(tmp_path / "mixed.pt", {**state, "target": {}})
    checkpoint.save(tmp_path / "classes.pt", {**state, "data": {**state["data"], "classes": list("abcdefghij")}})
    for source, says in (
        ("wrn-28-10", "no pretrained weights of wrn-28-10"),
        ("wrn-28-11", "did you mean 'wrn-28-10'"),
        (str(tmp_path / "nowhere"), "is not a run directory or a checkpoint"),
        (str(tmp_path), "there is no checkpoint"),
        (str(tmp_path / "other.pt"), "other.pt"),
        (str(tmp_path / "empty.pt"), "not a checkpoint of a run: config is missing"),
        (str(tmp_path / "mixed.pt"), "not a checkpoint of such a network"),
        (str(tmp_path / "classes.pt"), "other classes"),
    ):
        with pytest.raises(UserError) as error:
            load_teacher(source, dataset)
        assert says in str(error.value) and "\n" not in str(error.value)
