from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from teachaugment.commands import cli
from teachaugment.config.flags import flags_layer
from teachaugment.config.resolve import SETTINGS, read_yaml, resolve
from teachaugment.engine import checkpoint, directory


def test_the_help_of_train_has_every_setting(capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    text = capsys.readouterr().out
    assert all(f"--{key}" in text for key in SETTINGS)


def test_flags_have_two_spellings_and_an_equals_sign():
    for words in (["--batch_size", "3", "--teach.n-inner=2"], ["--train.batch-size=3", "--teach.n_inner", "2"]):
        chosen = cli.parse(["train", *words, "--teach.replay", "false", "--optim.nesterov"]).chosen
        config = resolve(flags_layer(chosen))
        assert (config.train.batch_size, config.teach.n_inner, config.teach.replay) == (3, 2, False)
        assert config.optim.nesterov is True


def test_a_file_and_flags_together(tmp_path, capsys, fast):
    (tmp_path / "my.yaml").write_text("train: {epochs: 5}\noptim: {lr: 0.01}\naugment: {strategy: none}\n")
    arguments = ["train", "--config", str(tmp_path / "my.yaml"), *fast, "--output", str(tmp_path / "run")]
    assert cli.main(arguments) == 0
    config = resolve(read_yaml(tmp_path / "run" / directory.CONFIG))
    assert (config.train.epochs, config.optim.lr, config.augment.strategy) == (2, 0.01, "none")


def test_the_end_of_a_run_says_what_there_is(tmp_path, capsys, fast):
    assert cli.main(["train", *fast, "--output", str(tmp_path / "run")]) == 0
    out, err = capsys.readouterr()
    for word in (
        "target",
        "teacher",
        "strength  0.00 of 1: the network masters",
        str(tmp_path / "run"),
        *os.listdir(tmp_path / "run"),
    ):
        assert word in out
    assert "epoch 2/2" in err and "images/s" in err and "\r" not in err


def test_resume_by_the_command(trained_run, tmp_path, capsys):
    copy = tmp_path / "copy"
    assert cli.main(["train", "--resume", str(trained_run), "--epochs", "3", "--output", str(copy)]) == 0
    assert checkpoint.load(copy / checkpoint.LAST)["epoch"] == 3
    assert checkpoint.load(trained_run / checkpoint.LAST)["epoch"] == 2
    assert cli.main(["train", "--resume", str(copy), "--lr", "0.7"]) == 2
    assert "optim.lr: 0.1 -> 0.7" in capsys.readouterr().err
    with pytest.warns(match=r"optim.lr: 0.1 -> 0.7\); going on all the same"):
        assert cli.main(["train", "--resume", str(copy), "--lr", "0.7", "--epochs", "4", "--force"]) == 0
    assert checkpoint.load(copy / checkpoint.LAST)["config"]["optim"]["lr"] == 0.7


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys, fast):
    from teachaugment.engine.trainer import Trainer

    step = Trainer.train_step

    def interrupted(self, *arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments)

    monkeypatch.setattr(Trainer, "train_step", interrupted)
    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["train", *fast, "--output", str(tmp_path / "run")]) == 130
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


class Stop(BaseException):
    """Not an Exception, of which the command makes a line."""


def stop() -> None:
    raise Stop


def test_a_resumed_run_takes_no_preset(trained_run, capsys):
    assert cli.main(["train", "shapes-small", "--resume", str(trained_run)]) == 2
    assert "leave out the preset" in capsys.readouterr().err


def test_the_report_has_every_class(trained_run, tmp_path, capsys):
    copy = tmp_path / "copy"
    assert cli.main(["train", "--resume", str(trained_run), "--output", str(copy)]) == 0
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
            lambda root: [broken(root / name / f"{i}.png") for name in ("cat", "dog") for i in range(3)],
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


def test_the_first_sign_of_life_comes_before_anything_slow(tmp_path):
    """What is said before torch is imported is said within a second."""
    program = (
        "import sys; from teachaugment.commands import cli, train\n"
        "def first(line): print(line, 'torch' in sys.modules); raise KeyboardInterrupt\n"
        "train.say_to_people = first; cli.main(['train', '--model', 'wrn-16-1'])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "starting wrn-16-1 on shapes … False", done.stderr
