from __future__ import annotations

import pytest

from teachaugment.commands import cli, doctor


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    for name, value in {"MODEL": "cnn-4", "BATCH": 4, "SIZE": 8, "STEPS": 2, "ROUNDS": 2}.items():
        monkeypatch.setattr(doctor, name, value)


def test_a_page_to_paste(capsys):
    assert cli.main(["doctor", "--device", "cpu"]) == 0
    page = capsys.readouterr().out
    for part in ("| torch |", "--amp bf16", "loss of step 2", "gradient of the augmenter", "augmenter's update, cpu",
                 "reading a batch to cpu", "cpu computes what the CPU does."):  # fmt: skip
        assert part in page
    assert "DIFFERS" not in page


def test_another_result_on_the_device_is_said(capsys, monkeypatch):
    found = iter([{"objective": 1.0, "loss of step 1": 2.0}, {"objective": 1.05, "loss of step 1": 2.0}])
    monkeypatch.setattr(doctor, "steps", lambda device: next(found))
    assert cli.main(["doctor", "--device", "cpu"]) == 1
    page = capsys.readouterr().out
    assert page.count("DIFFERS") == 1 and "something else than the CPU" in page


def test_a_device_that_is_not_there_is_one_line(capsys):
    assert cli.main(["doctor", "--device", "abacus"]) == 2
    assert "cannot use --device 'abacus'" in capsys.readouterr().err
