from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment import __version__, load_policy
from teachaugment.batch import Batch
from teachaugment.commands import cli
from teachaugment.commands.compare.plan import configure, shared_settings
from teachaugment.config.resolve import Layer, read_yaml, resolve
from teachaugment.data.folder import FolderSource
from teachaugment.data.shapes import CLASSES, shapes
from teachaugment.data.streamed import StreamedSplit
from teachaugment.engine import build, checkpoint, directory

FAST = ["--data.size", "8", "--data.per_class", "4", "--batch-size", "20", "--epochs", "2", "--eval-every", "1",
        "--device", "cpu", "--train.tensorboard", "false"]  # fmt: skip
LEARNED = ["--strategy", "teachaugment", "--val-fraction", "0.01", "--teach.n_inner", "1", "--teach.n_buffer", "1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    torch.set_num_threads(1)
    assert cli.main(["train", *FAST, *LEARNED, "--output", str(path)]) == 0
    return path


def error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a command that fails."""
    capsys.readouterr()
    assert cli.main(list(words)) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1, said
    return said[0]


# --- what a run leaves -------------------------------------------------------------------------------------------


def test_the_policy_of_a_run_says_where_it_comes_from(run):
    policy, metrics = load_policy(run), json.loads((run / directory.METRICS).read_text())
    about, measured = policy.provenance, policy.provenance["measured"]
    assert (about["data"], about["model"], about["epochs"], about["size"]) == ("shapes", "cnn-4", 2, [8, 8])
    assert about["version"] == __version__ and about["task"] == "classification" and about["images"] == 40
    assert about["fingerprint"] == checkpoint.load(run / checkpoint.LAST)["data"]["fingerprint"]
    assert measured["split"] == "test" and measured["target"] == metrics["test"]["target"]["accuracy"]
    assert policy.classes == metrics["classes"] and len(policy.normalization["mean"]) == 3
    card = (run / directory.CARD).read_text()
    assert f"{100 * measured['target']:.2f} %" in card and about["fingerprint"] in card
    state = checkpoint.load(run / checkpoint.LAST)["teach"]["augmenter"]
    assert all(torch.equal(value, state[name]) for name, value in policy.augmenter.state_dict().items())


def test_the_policy_is_written_at_a_new_best_too(tmp_path, monkeypatch):
    """A run that is stopped in its second epoch has the policy of its first, if that was the best."""
    from teachaugment.engine.trainer import Trainer

    def stopped(self: Trainer, *rest: Any) -> Any:
        if self.epoch == 1:
            raise KeyboardInterrupt
        return whole(self, *rest)

    whole = Trainer.train_batches
    monkeypatch.setattr(Trainer, "train_batches", stopped)
    path = tmp_path / "run"
    assert cli.main(["train", *FAST, *LEARNED, "--output", str(path)]) == 130
    about = load_policy(path).provenance
    assert about["epochs"] == 1 and about["measured"]["split"] == "validation"
    assert "validation split" in (path / directory.CARD).read_text()


def test_the_fingerfirstis_of_the_training_images():
    data = shapes(train=30, test=5, size=8)
    first = data.fingerprint
    assert first == shapes(train=30, test=9, size=8).fingerprint != shapes(train=30, test=5, size=9).fingerprint
    assert first != replace(data, train=data.train.select(torch.arange(29))).fingerprint
    assert first != replace(data, classes=[name.upper() for name in data.classes]).fingerprint
    files = FolderSource(["x.png", "y.png"], torch.tensor([0, 1]), Path("/a"))
    sources = files, replace(files, root=Path("/b")), replace(files, keys=["x.png", "z.png"])
    prints = [replace(data, train=StreamedSplit(source, (8, 8))).fingerprint for source in sources]
    assert prints[0] == prints[1] != prints[2]


# --- export ------------------------------------------------------------------------------------------------------


def test_an_exported_policy_is_the_one_the_run_left(run, tmp_path, capsys):
    assert cli.main(["export", str(run), "-o", str(tmp_path / "p.safetensors")]) == 0
    assert "p.safetensors" in capsys.readouterr().out
    assert (tmp_path / "p.safetensors").read_bytes() == (run / directory.POLICY).read_bytes()
    assert 'load_policy("p.safetensors")' in (tmp_path / "p.md").read_text()


def test_the_best_epoch_can_be_exported(run, tmp_path):
    assert cli.main(["export", str(run), "--checkpoint", "best", "-o", str(tmp_path / "b.safetensors")]) == 0
    best = checkpoint.load(run / checkpoint.BEST)
    about = load_policy(tmp_path / "b.safetensors").provenance
    metrics = json.loads((run / directory.METRICS).read_text())
    assert (
        about["epochs"] == best["epoch"]
        and about["measured"]["target"] == (metrics["best"]["test"]["target"]["accuracy"])
    )


def test_snapshots_are_the_replay_of_the_run(run, tmp_path, monkeypatch):
    path = tmp_path / "s.safetensors"
    assert cli.main(["export", str(run), "--snapshots", "-o", str(path)]) == 0
    policy, saved = load_policy(path, snapshots=True), checkpoint.load(run / checkpoint.LAST)["teach"]["replay"]
    assert len(policy.replay) == saved["count"] == 2
    for name, value in policy.replay.state_dict()["values"].items():
        assert torch.equal(value, saved["values"][name])
    trainer = build.build(resolve(read_yaml(run / directory.CONFIG)))
    trainer.load_state_dict(checkpoint.load(run / checkpoint.LAST), run)
    batch = Batch(torch.rand(20, 3, 8, 8), torch.arange(20) % 10)
    teach = trainer.strategy.teach
    monkeypatch.setattr(teach, "_reseed", lambda *parts: teach.generator.manual_seed(5))
    expected = teach.augment(batch).image
    assert torch.equal(policy.augment(batch, torch.Generator().manual_seed(5)).image, expected)


def test_what_cannot_be_exported_is_said_in_one_line(run, tmp_path, capsys):
    assert "is not a run directory" in error(capsys, "export", str(tmp_path / "nothing"))
    assert "has no config.yaml" in error(capsys, "export", str(tmp_path))
    plain = tmp_path / "plain"
    assert cli.main(["train", *FAST, "--strategy", "none", "--output", str(plain)]) == 0
    assert not (plain / directory.POLICY).exists()
    assert "learned no augmentation: its strategy was none" in error(capsys, "export", str(plain))
    assert "cannot write" in error(capsys, "export", str(run), "-o", str(tmp_path / "no" / "p.safetensors"))


# --- train --policy ------------------------------------------------------------------------------------------------


def train(run: Path, out: Path, *words: str) -> None:
    assert cli.main(["train", *FAST, "--policy", str(run), "--output", str(out), *words]) == 0


def test_training_with_a_policy_draws_from_its_augmenter(run, tmp_path, capsys):
    train(run, tmp_path / "a")
    said = capsys.readouterr()
    assert "it knows 10 of 10 classes by name" in said.err and "teacher" not in said.out
    config = resolve(read_yaml(tmp_path / "a" / directory.CONFIG))
    assert config.augment.strategy == "policy" and config.augment.policy == str(run)
    trainer = build.build(config)
    assert trainer.strategy.teacher is None
    batch = next(trainer.batches("train", training=True))
    torch.manual_seed(4)
    made = trainer.strategy.augment(batch)
    augmenter = load_policy(run).augmenter
    with torch.no_grad():
        torch.manual_seed(4)
        assert torch.equal(augmenter(batch).image, made.image) and not torch.equal(made.image, batch.image)
    assert (tmp_path / "a" / directory.POLICY).read_bytes() == (run / directory.POLICY).read_bytes()


def test_a_resumed_run_with_a_policy_equals_the_uninterrupted_one(run, tmp_path, capsys):
    copy = tmp_path / "p.safetensors"
    copy.write_bytes((run / directory.POLICY).read_bytes())
    steady = ["--optim.warmup_epochs", "0", "--optim.schedule", "constant", "--eval-every", "2"]
    train(copy, tmp_path / "part", "--epochs", "1", *steady)
    train(copy, tmp_path / "all", "--epochs", "2", *steady)
    assert cli.main(["train", "--resume", str(tmp_path / "part"), "--epochs", "2"]) == 0
    resumed, whole = (checkpoint.load(tmp_path / name / checkpoint.LAST)["target"] for name in ("part", "all"))
    assert all(torch.equal(value, whole[name]) for name, value in resumed.items())
    policy = load_policy(copy)
    policy.augmenter.log_odds.add_(0.1)
    policy.save(copy)
    assert "it has changed" in error(capsys, "train", "--resume", str(tmp_path / "part"), "--epochs", "3")
    copy.unlink()
    assert "there is no policy" in error(capsys, "train", "--resume", str(tmp_path / "part"), "--epochs", "3")
    assert cli.main(["evaluate", str(tmp_path / "part")]) == 0  # which needs no policy


@pytest.fixture
def photos(tmp_path) -> Path:
    """Other images: one class has the name of one of the policy's."""
    random = np.random.default_rng(0)
    for name in ("zebra", CLASSES[3]):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(8):
            pixels = random.integers(0, 256, (12, 12, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


def test_a_policy_serves_other_data(run, photos, tmp_path, capsys):
    words = [
        "train",
        "--data",
        str(photos),
        "--policy",
        str(run / directory.POLICY),
        "--batch-size",
        "4",
        "--epochs",
        "1",
    ]
    assert cli.main([*words, "--device", "cpu", "--train.tensorboard", "false", "--output", str(tmp_path / "r")]) == 0
    assert "it knows 1 of 2 classes by name" in capsys.readouterr().err


def test_a_policy_that_does_not_fit_is_refused_in_one_line(run, tmp_path, capsys):
    grey = tmp_path / "grey.npz"
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    labels = np.arange(20) % 2
    np.savez(grey, x_train=images, y_train=labels, x_test=images, y_test=labels)
    assert "3 channel(s)" in error(capsys, "train", "--data", str(grey), "--policy", str(run), "--device", "cpu")
    assert "there is no policy" in error(capsys, "train", *FAST, "--policy", "nothing.safetensors")
    assert "--policy FILE" in error(capsys, "train", *FAST, "--strategy", "policy")
    assert "leave one out" in error(capsys, "train", *FAST, "--strategy", "none", "--policy", str(run))


def layer(**values: Any) -> Layer:
    keys = {f"augment.{name}": value for name, value in values.items()}
    return Layer(keys, {key: f"--{key}" for key in keys})


def test_to_name_a_policy_is_to_choose_it_until_another_strategy_is_chosen(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("augment: {policy: p.safetensors}\n")
    assert resolve(read_yaml(file)).augment.strategy == "policy"
    assert resolve(layer(strategy="none"), layer(policy="p")).augment.strategy == "policy"
    other = resolve(layer(policy="p"), layer(strategy="randaugment")).augment
    assert (other.strategy, other.policy) == ("randaugment", None)
    assert resolve(layer(policy="p"), layer(policy="none", strategy="none")).augment.policy is None


def test_a_comparison_has_it_as_a_strategy():
    nothing = shared_settings([])
    for strategy in ("policy:augment.policy=p.safetensors", "policy:policy=p.safetensors"):
        made = configure(nothing, strategy, 1).augment
        assert (made.strategy, made.policy) == ("policy", "p.safetensors")
    given = shared_settings(
        [layer(policy="p.safetensors")]
    )  # teachaugment compare --policy p.safetensors --strategies none,policy
    assert configure(given, "policy", 1).augment.policy == "p.safetensors"
    assert configure(given, "none", 1).augment == configure(nothing, "none", 1).augment


def test_a_policy_is_not_replaced_by_its_card(trained_run, tmp_path, capsys):
    assert cli.main(["export", str(trained_run), "-o", str(tmp_path / "p.md")]) == 2
    assert "ends as the policy's card does" in capsys.readouterr().err and not any(tmp_path.iterdir())
