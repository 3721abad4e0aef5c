from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import small
import torch
from PIL import Image

from teachaugment.batch import Batch
from teachaugment.config.resolve import Config, read_yaml, resolve
from teachaugment.engine import build, checkpoint, directory, restore, snapshots
from teachaugment.engine.choosing import standard_error
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.run import run
from teachaugment.engine.trainer import Trainer, slow_input
from teachaugment.errors import UserError
from teachaugment.policy.load import load_policy

TINY = {
    "data.size": 8, "data.per_class": 4, "train.batch_size": 8, "train.epochs": 4, "train.eval_every": 2,
    "train.tensorboard": False, "teach.n_inner": 2, "teach.n_buffer": 1, "device": "cpu",
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(**changed: Any) -> Config:
    return small.settings(TINY, changed)


def few_tests(trainer: Trainer) -> Trainer:
    return small.few_tests(trainer, 100)


def train(path: Path, **changed: Any) -> dict[str, Any]:
    return small.train(tiny(output=str(path), **changed), tests=100)


def go_on(path: Path, **changed: Any) -> dict[str, Any]:
    return small.go_on(tiny(output=str(path), **changed), path, tests=100)


def log_lines(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / directory.LOG).read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "time"} for line in lines]


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Bit for bit, through all containers."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    else:
        assert a == b, where


def assert_same_run(a: Path, b: Path) -> None:
    first, second = (checkpoint.load(path / checkpoint.LAST) for path in (a, b))
    for state in (first, second):
        del state["config"]["output"]
    assert {"target", "optimizer", "teach"} <= first.keys()
    assert_same(first, second)
    assert log_lines(a) == log_lines(b)
    for name in (directory.PICTURE, directory.METRICS):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "whole"
    torch.set_num_threads(1)
    train(path)
    return path


def test_a_run_leaves_all_its_files(uninterrupted):
    names = {
        directory.CONFIG,
        directory.LOG,
        directory.METRICS,
        directory.POLICY,
        directory.CARD,
        directory.PICTURE,
    }
    names |= {checkpoint.LAST, checkpoint.PREVIOUS, directory.REPORT, snapshots.FOLDER}
    assert set(os.listdir(uninterrupted)) == names
    assert len(os.listdir(uninterrupted / snapshots.FOLDER)) == 4  # one for each epoch
    assert resolve(read_yaml(uninterrupted / directory.CONFIG)) == tiny(output=str(uninterrupted))
    metrics = json.loads((uninterrupted / directory.METRICS).read_text())
    assert metrics["test"].keys() == {"target", "teacher"} and len(metrics["test"]["target"]["confusion"]) == 10
    assert Image.open(uninterrupted / directory.PICTURE).width > 200
    images = torch.rand(3, 3, 8, 8)
    assert load_policy(uninterrupted / directory.POLICY)(images, torch.tensor([0, 1, 2])).shape == images.shape


def test_the_log_has_a_line_per_epoch(uninterrupted):
    lines = log_lines(uninterrupted)
    assert [line["event"] for line in lines] == ["start", *["epoch"] * 4, "end"]
    epochs = lines[1:-1]
    assert [line["step"] for line in epochs] == [5, 10, 15, 20] and epochs[-1]["lr"] == 0
    assert ["test" in line for line in epochs] == [False, True, False, True]
    assert {"objective", "target_term", "teacher_term", "color_distance", "p_color", "p_geometric"} <= epochs[0][
        "teach"
    ].keys()
    assert [line["teach"]["snapshots"] for line in epochs] == [1, 2, 3, 4]


def test_the_same_seed_gives_the_same_run_and_another_seed_another(uninterrupted, tmp_path):
    train(tmp_path / "again")
    assert_same_run(uninterrupted, tmp_path / "again")
    train(tmp_path / "other", seed=1)
    states = [checkpoint.load(path / checkpoint.LAST)["target"] for path in (uninterrupted, tmp_path / "other")]
    assert not torch.equal(*(next(iter(state.values())) for state in states))


class Stopped(Exception):
    pass


@pytest.mark.parametrize("stop_at", [3, 5, 12, 19, 20])
def test_a_resumed_run_equals_the_uninterrupted_one(uninterrupted, tmp_path, monkeypatch, stop_at):
    """Stopped in the first epoch (no checkpoint yet), at an epoch's edge, in mid-epoch, and before the last files."""
    path, step = tmp_path / "run", Trainer.train_step

    def stops(self: Trainer, *arguments: Any) -> Any:
        if self.step == stop_at:
            raise Stopped
        return step(self, *arguments)

    def stops_at_the_end(*arguments: Any) -> Any:
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Trainer, "train_step", stops)
        patch.setattr("teachaugment.engine.run.finish", stops_at_the_end)
        train(path)
    with (path / directory.LOG).open("a") as file:
        file.write('{"event": "epoch", "st')  # a torn line
    torch.manual_seed(99)
    go_on(path)
    assert_same_run(uninterrupted, path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_process_can_be_resumed(uninterrupted, tmp_path):
    path, save = tmp_path / "run", torch.save

    def killed(*arguments: Any) -> Any:
        """Killed while the third checkpoint is being written."""
        if arguments[0]["step"] == 15:
            arguments[1].write(b"half a checkpoint")
            arguments[1].flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return save(*arguments)

    child = os.fork()  # not a new process: importing torch again takes long
    if child == 0:
        try:
            torch.save = killed
            train(path)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert checkpoint.load(path / checkpoint.LAST)["epoch"] == 2 and len(log_lines(path)) == 4
    go_on(path)
    assert_same_run(uninterrupted, path)
    assert not list(path.glob(".*")), "the half-written file is cleared away"


def test_a_finished_run_can_be_trained_on(tmp_path):
    steady = {"optim__schedule": "constant", "optim__warmup_epochs": 0}
    train(tmp_path / "run", train__epochs=2, **steady)
    go_on(tmp_path / "run", train__epochs=4, **steady)
    train(tmp_path / "whole", **steady)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_resumed_run_refuses_other_settings_and_shows_them(uninterrupted):
    with pytest.raises(UserError, match=r"optim.lr: 0.1 -> 0.5.*may change only train.epochs"):
        restore.resume(tiny(output=str(uninterrupted), optim__lr=0.5), uninterrupted)
    with pytest.raises(UserError, match="4 epochs done already"):
        restore.resume(tiny(output=str(uninterrupted), train__epochs=2), uninterrupted)


def contents(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_run_can_go_on_in_another_directory(uninterrupted, tmp_path):
    before = contents(uninterrupted)
    trainer, path = restore.resume(
        tiny(output=str(tmp_path / "copy"), train__epochs=5), uninterrupted, into=tmp_path / "copy"
    )
    run(few_tests(trainer), path)
    assert log_lines(tmp_path / "copy")[-2]["epoch"] == 5
    assert before == contents(uninterrupted)


def test_without_teachaugment_there_is_no_teacher_and_no_policy(tmp_path):
    metrics = train(tmp_path / "run", augment__strategy="none", train__epochs=2)
    assert metrics["test"].keys() == {"target"} and "probabilities" not in metrics
    assert not (tmp_path / "run" / directory.POLICY).exists() and (tmp_path / "run" / directory.PICTURE).exists()
    assert "teach" not in log_lines(tmp_path / "run")[1]


def test_strategies_start_from_the_same_weights():
    a, b = (build.build(tiny(augment__strategy=name)).target.state_dict() for name in ("none", "teachaugment"))
    assert_same(a, b)


def test_the_validation_split_chooses_the_best_epoch(tmp_path):
    metrics = train(tmp_path / "run", data__val_fraction=0.2, train__eval_every=1)
    lines = log_lines(tmp_path / "run")[1:-1]
    accuracy = [max(result["accuracy"] for result in line["val"].values()) for line in lines]
    assert not any("test" in line for line in lines)
    best = metrics["best"]
    highest, images = max(accuracy), log_lines(tmp_path / "run")[0]["val_images"]
    assert best["highest"] == highest and best["highest_epoch"] == accuracy.index(highest) + 1
    least = highest - standard_error(highest, images)
    near = [epoch for epoch, value in enumerate(accuracy, 1) if value >= least]
    assert best["epoch"] == near[-1]
    assert lines[best["epoch"] - 1]["val"][best["model"]]["accuracy"] == best["accuracy"]
    assert checkpoint.load(tmp_path / "run" / checkpoint.BEST)["epoch"] == metrics["best"]["epoch"]


def test_the_test_split_chooses_nothing(uninterrupted):
    assert checkpoint.load(uninterrupted / checkpoint.LAST)["best"] is None


def test_a_loss_that_is_not_finite_stops_before_a_checkpoint(tmp_path):
    with pytest.raises(UserError, match="the target's loss is not finite at step") as error:
        train(tmp_path / "run", optim__lr=1e30, optim__warmup_epochs=0)
    assert "\n" not in str(error.value) and "--lr" in str(error.value)
    assert not (tmp_path / "run" / checkpoint.LAST).exists()


@pytest.mark.parametrize("changed", [
    {"teach__replay": False}, {"teach__non_saturating": False}, {"teach__smoothing": 0}, {"teach__color_weight": 0},
    {"train__batch_size": 64}, {"optim__clip": 1.0, "augment__cutout": 4}, {"model__name": "wrn-16-1"},
    {"teach__context": "none"}, {"teach__teacher_statistics": "batch", "teach__ema_warmup": 1},
    {"teach__normalizer": "all", "teach__affine_width": 1.0, "teach__dropout": 0.5, "teach__group": 1},
])  # fmt: skip
def test_every_switch_trains(tmp_path, changed):
    train(tmp_path / "run", train__epochs=2, **changed)


def test_tensorboard_gets_scalars_and_pictures(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(tmp_path / "run", train__tensorboard=True, train__epochs=2)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert {"train/loss", "test/target/accuracy", "teach/p_color"} <= set(events.Tags()["scalars"])
    assert events.Tags()["images"] == ["augmented"]


def test_an_existing_run_is_never_overwritten(uninterrupted, tmp_path):
    with pytest.raises(UserError, match="already holds a run"):
        directory.create_run(tiny(output=str(uninterrupted)))
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="not empty"):
        directory.create_run(tiny(output=str(tmp_path)))


def test_unnamed_runs_get_fresh_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = {directory.create_run(tiny()) for _ in range(3)}
    assert len(paths) == 3 and all(path.parent == Path("runs") and (path / directory.CONFIG).exists() for path in paths)


def test_a_checkpoint_of_another_model_is_refused():
    state = build.build(tiny()).state_dict()
    with pytest.raises(UserError, match="does not fit the model wrn-16-1"):
        build.build(tiny(model__name="wrn-16-1")).load_state_dict(state, Path("last.pt"))


def test_balancing_draws_rare_classes_as_often_as_others():
    trainer = build.build(tiny(data__balance=True, augment__strategy="none"))
    label = trainer.data.train.label
    keep = (label == 0) | (torch.arange(len(label)) % 4 == 0)
    trainer.data.train = trainer.data.train.select(keep.nonzero().flatten())
    drawn = torch.cat([batch.label for batch in trainer.batches("train", training=True)])
    often = drawn.bincount(minlength=10)[trainer.data.train.label.unique()]
    assert len(drawn) == len(trainer.data.train) // 8 * 8 and often.max() - often.min() <= 2
    plain = torch.cat([batch.label for batch in trainer.batches("train")])
    assert torch.equal(plain, trainer.data.train.label)


def test_target_and_teacher_are_measured_alike_during_training_and_at_the_end(uninterrupted):
    wanted = {"loss", "accuracy", "top5", "calibration_error"}
    epochs = [line for line in log_lines(uninterrupted) if line["event"] == "epoch" and "test" in line]
    assert epochs and all(line["test"][name].keys() == wanted for line in epochs for name in ("target", "teacher"))
    final = json.loads((uninterrupted / directory.METRICS).read_text())["test"]
    assert all(
        {*wanted, "class_accuracy", "confusion", "images"} == final[name].keys() for name in ("target", "teacher")
    )


def test_a_run_says_when_it_waits_for_its_images():
    assert slow_input(waited=0.4, seconds=10) is None
    assert slow_input(waited=1.0, seconds=1.0) is None
    assert "40% of the epoch" in slow_input(waited=4, seconds=10)


@pytest.mark.parametrize(("pauses", "says"), [([0.5, 0, 0, 0], False), ([0, 0.3, 0.3, 0.3], True)])
def test_a_run_says_so_in_its_first_seconds_but_not_of_workers_that_begin(monkeypatch, pauses, says):
    monkeypatch.setattr("teachaugment.engine.trainer.READ_EVERY", 0.0)
    monkeypatch.setattr("teachaugment.engine.trainer.SOON", 0.0)
    trainer = build.build(tiny())
    images = list(islice(trainer.batches("train", training=True), 2)) * 2

    def slowly(*_: Any, **__: Any) -> Iterator[Batch]:
        for pause, batch in zip(pauses, images, strict=True):
            time.sleep(pause)
            yield batch

    monkeypatch.setattr(trainer, "batches", slowly)
    monkeypatch.setattr(trainer, "train_step", lambda *_: time.sleep(0.3))
    said: list[str] = []
    display = TrainingDisplay(trainer.total_steps)
    monkeypatch.setattr(display, "say", said.append)
    trainer.train_epoch(display)
    assert any("of the time went into waiting for images" in line for line in said) == says
