from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment import __version__
from teachaugment.commands import cli
from teachaugment.config.flags import flags_layer
from teachaugment.config.resolve import SETTINGS
from teachaugment.engine import checkpoint, directory

FAST = ["--data.size", "8", "--data.per_class", "2", "--batch-size", "8", "--epochs", "2", "--device", "cpu",
        "--eval-every", "2", "--train.tensorboard", "false"]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    torch.set_num_threads(1)
    assert cli.main(["train", *FAST, "--output", str(path)]) == 0
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


def test_help_is_quick():
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "teachaugment", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "examples:" in done.stdout
    assert "| torch" not in done.stderr and time.monotonic() - began < 5  # under a second on a machine that is idle


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out.strip() == f"teachaugment {__version__}"


def test_the_help_of_train_has_every_setting(capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    text = capsys.readouterr().out
    assert all(f"--{key}" in text for key in SETTINGS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trian"], "unknown command 'trian'; did you mean 'train'?"),
        (["train", "--lrr", "0.1"], "unknown flag --lrr; did you mean '--lr'?"),
        (["train", "--teach.smothing=0.1"], "did you mean '--teach.smoothing'?"),
        (["train", "extra"], "unknown preset 'extra'"),
        (["train", "--preset", "cifar10-wrn-28-1"], "did you mean 'cifar10-wrn-28-10'?"),
        (["train", "shapes-small", "extra"], "unexpected argument 'extra'"),
        (["train", "shapes-small", "--preset", "cifar10-small"], "two presets"),
        (["train", "shapes-small", "--lr", "0"], "--lr must be"),
        (["train", "--teacher", "wrn-28-10", "--data.size", "8"], "no pretrained weights of wrn-28-10"),
        (["train", "--amp", "int8"], "--amp must be one of off, bf16, fp16"),
        (["train", "--data", "imagenet", "--data.root", "/nowhere"], "imagenet is not in /nowhere"),
        (["train", "--model", "torchvision/resnet51"], "did you mean 'resnet50'?"),
        (["train", "--lr"], "--lr"),
        (["train", "--lr", "-0.1"], "--lr must be a number above 0, not '-0.1'"),
        (["train", "--epochs", "0"], "--epochs must be a whole number of at least 1, not '0'"),
        (["train", "--teach.smoothing", "1"], "--teach.smoothing must be a number of at least 0 and below 1, not '1'"),
        (["train", "--batch_size", "0"], "--batch-size must be"),
        (["train", "--strategy", "teachaugmnt"], "did you mean 'teachaugment'?"),
        (["train", "--model", "wrn-16-3"], "unknown model 'wrn-16-3'; did you mean 'wrn-16-2'?"),
        (["train", "--data", "shape"], "'shapes'"),
        (["train", "--data", "/nowhere/at/all"], "/nowhere/at/all"),
        (["train", "--device", "gpu"], "--device gpu cannot be used"),
        (["train", "--config", "/nowhere.yaml"], "cannot read the configuration /nowhere.yaml"),
        (["train", "--resume", "/nowhere"], "/nowhere is not a run directory: it does not exist"),
        (["train", "--output", __file__], "is a file"),
        (["evaluate"], "RUN"),
        (["evaluate", "/nowhere"], "/nowhere is not a run directory"),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    text = capsys.readouterr().err
    assert text.startswith("teachaugment: error: ") and text.count("\n") == 1 and says in text
    assert os.listdir(tmp_path) == []


def test_flags_have_two_spellings_and_an_equals_sign():
    for words in (["--batch_size", "3", "--teach.n-inner=2"], ["--train.batch-size=3", "--teach.n_inner", "2"]):
        chosen = cli.parse(["train", *words, "--teach.replay", "false", "--optim.nesterov"]).chosen
        config = cli.resolve(flags_layer(chosen))
        assert (config.train.batch_size, config.teach.n_inner, config.teach.replay) == (3, 2, False)
        assert config.optim.nesterov is True


def test_a_file_and_flags_together(tmp_path, capsys):
    (tmp_path / "my.yaml").write_text("train: {epochs: 5}\noptim: {lr: 0.01}\naugment: {strategy: none}\n")
    arguments = ["train", "--config", str(tmp_path / "my.yaml"), *FAST, "--output", str(tmp_path / "run")]
    assert cli.main(arguments) == 0
    config = cli.resolve(cli.read_yaml(tmp_path / "run" / directory.CONFIG))
    assert (config.train.epochs, config.optim.lr, config.augment.strategy) == (2, 0.01, "none")


def test_the_end_of_a_run_says_what_there_is(tmp_path, capsys):
    assert cli.main(["train", *FAST, "--output", str(tmp_path / "run")]) == 0
    out, err = capsys.readouterr()
    for word in ("target", "teacher", "p_color", "p_geometric", str(tmp_path / "run"), *os.listdir(tmp_path / "run")):
        assert word in out
    assert "epoch 2/2" in err and "images/s" in err and "\r" not in err


def test_evaluate_repeats_the_final_metrics(run, capsys):
    capsys.readouterr()
    assert cli.main(["evaluate", str(run), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["test"] == json.loads((run / directory.METRICS).read_text())["test"]
    assert cli.main(["evaluate", str(run), "--checkpoint", "best", "--output", str(run.parent / "m.json")]) == 0
    assert "target" in capsys.readouterr().out
    assert json.loads((run.parent / "m.json").read_text()) == metrics


def test_evaluate_refuses_other_classes(run, folder, capsys):
    assert cli.main(["evaluate", str(run), "--data", str(folder)]) == 2
    assert "cat, dog" in capsys.readouterr().err


def test_a_folder_of_images_is_trained_on_and_evaluated(folder, tmp_path, capsys):
    quick = ["--batch-size", "8", "--epochs", "1", "--device", "cpu", "--train.tensorboard", "false"]
    assert cli.main(["train", "--data", str(folder), *quick, "--output", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert cli.main(["evaluate", str(tmp_path / "run"), "--data", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test"]["target"]["images"] == 12


def test_resume_by_the_command(run, tmp_path, capsys):
    copy = tmp_path / "copy"
    assert cli.main(["train", "--resume", str(run), "--epochs", "3", "--output", str(copy)]) == 0
    assert checkpoint.load(copy / checkpoint.LAST)["epoch"] == 3
    assert checkpoint.load(run / checkpoint.LAST)["epoch"] == 2
    assert cli.main(["train", "--resume", str(copy), "--lr", "0.7"]) == 2
    assert "optim.lr: 0.1 -> 0.7" in capsys.readouterr().err
    with pytest.warns(match=r"optim.lr: 0.1 -> 0.7\); going on all the same"):
        assert cli.main(["train", "--resume", str(copy), "--lr", "0.7", "--epochs", "4", "--force"]) == 0
    assert checkpoint.load(copy / checkpoint.LAST)["config"]["optim"]["lr"] == 0.7


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    from teachaugment.engine.trainer import Trainer

    step = Trainer.train_step

    def interrupted(self, *arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments)

    monkeypatch.setattr(Trainer, "train_step", interrupted)
    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["train", *FAST, "--output", str(tmp_path / "run")]) == 130
    assert (
        f"stopped by SIGINT; continue with: teachaugment train --resume {tmp_path / 'run'}" in capsys.readouterr().err
    )
    assert checkpoint.load(tmp_path / "run" / checkpoint.LAST)["step"] == 1
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("words", [["shapes-small"], ["--preset", "shapes-small"]])
def test_a_preset_by_name_is_weaker_than_a_file_and_flags(tmp_path, monkeypatch, words):
    (tmp_path / "my.yaml").write_text("optim: {weight_decay: 0.001}\ntrain: {epochs: 7}\n")
    seen = []
    monkeypatch.setattr(directory, "check_output", lambda config: seen.append(config) or stop())
    with pytest.raises(Stop):
        cli.main(["train", *words, "--config", str(tmp_path / "my.yaml"), "--epochs", "9"])
    (config,) = seen
    assert (config.train.epochs, config.optim.weight_decay, config.data.per_class) == (9, 0.001, 100)


class Stop(Exception):
    pass


def stop() -> None:
    raise Stop


def test_a_resumed_run_takes_no_preset(run, capsys):
    assert cli.main(["train", "shapes-small", "--resume", str(run)]) == 2
    assert "leave out the preset" in capsys.readouterr().err


def test_the_report_has_every_class(run, tmp_path, capsys):
    copy = tmp_path / "copy"
    assert cli.main(["train", "--resume", str(run), "--output", str(copy)]) == 0
    out = capsys.readouterr().out
    assert "accuracy of each class (target):" in out and "calibration error" in out and "top-5" in out
    assert all(name in out for name in json.loads((copy / directory.METRICS).read_text())["classes"])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: None, "has no class folders"),
        (lambda root: (root / "cat").mkdir(), "has no images"),
        (lambda root: picture(root / "cat" / "1.png"), "only one class (cat)"),
        (
            lambda root: [broken(root / name / f"{i}.png") for name in ("cat", "dog") for i in range(2)],
            "cannot read image",
        ),
    ],
    ids=["empty", "no images", "one class", "unreadable"],
)
def test_a_folder_that_cannot_be_learned_from_gets_one_line(tmp_path, capsys, make, says):
    (tmp_path / "photos").mkdir()
    make(tmp_path / "photos")
    assert cli.main(["train", "--data", str(tmp_path / "photos"), "--output", str(tmp_path / "run")]) == 2
    text = capsys.readouterr().err
    assert text.startswith("teachaugment: error: ") and text.count("\n") == 1 and says in text


def picture(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (8, 8)).save(path)


def broken(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"no image")


def test_a_checkpoint_of_another_model_gets_one_line(run, tmp_path, capsys):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / directory.CONFIG).write_text((copy / directory.CONFIG).read_text().replace("name: cnn-4", "name: wrn-16-1"))
    capsys.readouterr()
    assert cli.main(["evaluate", str(copy)]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and "does not fit the model wrn-16-1" in text
