from __future__ import annotations

import json
import shutil

from teachaugment.commands import cli
from teachaugment.engine import checkpoint, directory


def test_evaluate_repeats_the_final_metrics(trained_run, tmp_path, capsys):
    capsys.readouterr()
    assert cli.main(["evaluate", str(trained_run), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["test"] == json.loads((trained_run / directory.METRICS).read_text())["test"]
    written = tmp_path / "metrics.json"
    assert cli.main(["evaluate", str(trained_run), "--checkpoint", "best", "--output", str(written)]) == 0
    assert "target" in capsys.readouterr().out
    assert json.loads(written.read_text()) == metrics


def test_evaluate_refuses_other_classes(trained_run, folder, capsys):
    assert cli.main(["evaluate", str(trained_run), "--data", str(folder)]) == 2
    assert "cat, dog" in capsys.readouterr().err


def test_a_folder_of_images_is_trained_on_and_evaluated(folder, tmp_path, capsys):
    quick = ["--batch-size", "8", "--epochs", "1", "--device", "cpu", "--train.tensorboard", "false"]
    assert cli.main(["train", "--data", str(folder), *quick, "--output", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert cli.main(["evaluate", str(tmp_path / "run"), "--data", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test"]["target"]["images"] == 12


def test_a_checkpoint_of_another_model_gets_one_line(trained_run, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(trained_run, copy)
    state = checkpoint.load(copy / checkpoint.LAST)
    state["config"]["model"]["name"] = "wrn-16-1"
    checkpoint.save(copy / checkpoint.LAST, state)
    (copy / directory.CONFIG).write_text((copy / directory.CONFIG).read_text().replace("name: cnn-4", "name: wrn-16-1"))
    capsys.readouterr()
    assert cli.main(["evaluate", str(copy)]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and "does not fit the model wrn-16-1" in text
