from __future__ import annotations

import json

from teachaugment.commands import cli, listing
from teachaugment.models import MODELS
from teachaugment.presets import PRESETS


def test_models_are_listed_with_their_sizes(capsys):
    assert cli.main(["models", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert found.keys() == MODELS.keys()
    assert found["pyramidnet-272-200"]["parameters"] == 26_210_842 and found["resnet-50"]["input_size"] == 224
    assert all(entry["source"] for entry in found.values())
    assert cli.main(["models"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in MODELS) and "26,210,842" in text and "timm/NAME" in text


def test_presets_are_listed_with_command_number_and_cost(capsys):
    assert cli.main(["presets", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert found.keys() == PRESETS.keys()
    assert found["cifar10-wrn-28-10"]["settings"]["optim.lr"] == 0.1
    assert "2.5 %" in found["cifar10-wrn-28-10"]["paper"] and "epochs" in found["cifar10-wrn-28-10"]["cost"]
    assert cli.main(["presets"]) == 0
    assert all(preset.command in " ".join(capsys.readouterr().out.split()) for preset in list(PRESETS.values())[:1])


def test_few_classes_are_all_shown_and_of_many_the_worst():
    few = {"class_accuracy": [0.5, None]}
    assert listing.class_lines(["cat", "horse"], few) == ["accuracy of each class (target):", "  cat  50.0 %"]
    many = listing.class_lines([f"class {i}" for i in range(100)], {"class_accuracy": [i / 100 for i in range(100)]})
    assert "5 of 100" in many[0] and [line.split()[1] for line in many[1:]] == ["0", "1", "2", "3", "4"]
    assert listing.class_lines(["cat"], {"class_accuracy": [None]}) == []
    assert listing.class_lines(["road"], {"class_iou": [0.25]}) == ["IoU of each class (target):", "  road  25.0 %"]


def test_each_task_has_its_line():
    common = {"images": 1000, "loss": 0.5}
    line = listing.result_lines({"target": {**common, "miou": 0.25, "pixel_accuracy": 0.5}})
    assert line == ["target    25.0 % mIoU on 1,000 test images, loss 0.500, pixel accuracy 50.0 %"]
    line = listing.result_lines({"target": {**common, "accuracy": 0.25, "top5": 0.5, "calibration_error": 0.1}})
    assert line[0].startswith("target    25.0 % of 1,000 test images")
    line = listing.result_lines({"teacher": {**common, "knn": 0.25, "spread": 0.9, "rank": 7.2}})
    assert line[0].startswith("teacher   25.0 % of 1,000 test images by nearest neighbours")
