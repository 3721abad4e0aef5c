from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from teachaugment.commands import cli
from teachaugment.engine import checkpoint, directory


def test_evaluate_repeats_the_final_metrics(trained_run, tmp_path, capsys):
    capsys.readouterr()
    assert cli.main(["evaluate", str(trained_run), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["test"] == json.loads((trained_run / directory.METRICS).read_text())["test"]
    written = tmp_path / "metrics.json"
    assert cli.main(["evaluate", str(trained_run), "--checkpoint", "last", "--output", str(written)]) == 0
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


@pytest.mark.parametrize(
    "words", [["evaluate"], ["export", "--backbone"], ["export", "--target", "safetensors"], ["export"], ["predict"]]
)
def test_the_best_checkpoint_is_not_the_last_one(trained_run, folder, words, capsys):
    """A run without a validation split has chosen none."""
    more = [str(folder)] if words == ["predict"] else []
    assert cli.main([words[0], str(trained_run), *more, *words[1:], "--checkpoint", "best"]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and "has no best.pt: without a validation split" in text


def test_other_images_may_lack_classes_and_training_images_are_no_test_images(folder, tmp_path, capsys):
    quick = ["--batch-size", "8", "--epochs", "1", "--device", "cpu", "--train.tensorboard", "false"]
    run = str(tmp_path / "run")
    assert cli.main(["train", "--data", str(folder), *quick, "--output", run]) == 0
    shutil.copytree(folder / "dog", tmp_path / "new/dog")
    capsys.readouterr()
    with pytest.warns(UserWarning, match="new has nothing of cat"):
        assert cli.main(["evaluate", run, "--data", str(tmp_path / "new"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    target = found["test"]["target"]
    assert target["images"] == 6 and target["class_accuracy"][0] is None and target["class_accuracy"][1] is not None
    with pytest.warns(UserWarning):
        assert cli.main(["evaluate", run, "--data", str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    assert f"6 images of {tmp_path}/new, loss" in said and "test images" not in said
    assert cli.main(["evaluate", run, "--data", str(folder)]) == 0
    assert "12 images of" in (said := capsys.readouterr().out) and "most of which it was trained on" in said
    shutil.copytree(folder / "dog", tmp_path / "new/zebra")
    assert cli.main(["evaluate", run, "--data", str(tmp_path / "new")]) == 2
    assert "zebra" in capsys.readouterr().err


def test_the_backbone_is_exported_without_the_training_data(folder, tmp_path, capsys):
    quick = ["--batch-size", "8", "--epochs", "1", "--device", "cpu", "--train.tensorboard", "false"]
    run = tmp_path / "run"
    assert cli.main(["train", "--data", str(folder), *quick, "--output", str(run)]) == 0
    trained = torch.load(run / "last.pt", weights_only=True)["target"]
    shutil.rmtree(folder)
    assert cli.main(["export", str(run), "--backbone"]) == 0
    found = load_file(run / "backbone.safetensors")
    assert found and all(torch.equal(value, trained[name]) for name, value in found.items())


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
