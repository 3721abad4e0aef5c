from __future__ import annotations

import json

from teachaugment.commands import cli
from teachaugment.models import MODELS


def test_models_are_listed_with_their_sizes(capsys):
    assert cli.main(["models", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert found.keys() == MODELS.keys()
    assert found["pyramidnet-272-200"]["parameters"] == 26_210_842 and found["resnet-50"]["input_size"] == 224
    assert all(entry["source"] for entry in found.values())
    assert cli.main(["models"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in MODELS) and "26,210,842" in text and "timm/NAME" in text
