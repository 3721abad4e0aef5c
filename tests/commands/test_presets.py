from __future__ import annotations

import json

from teachaugment.commands import cli
from teachaugment.presets import PRESETS


def test_presets_are_listed_with_command_number_and_cost(capsys):
    assert cli.main(["presets", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert found.keys() == PRESETS.keys()
    assert found["cifar10-wrn-28-10"]["settings"]["optim.lr"] == 0.1
    assert "2.5 %" in found["cifar10-wrn-28-10"]["paper"] and "epochs" in found["cifar10-wrn-28-10"]["cost"]
    assert cli.main(["presets"]) == 0
    assert all(preset.command in " ".join(capsys.readouterr().out.split()) for preset in list(PRESETS.values())[:1])
