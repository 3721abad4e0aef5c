"""The settings page advises what the report advises."""

from __future__ import annotations

import inspect
from pathlib import Path

from teachaugment.commands.report import diagnosis
from teachaugment.commands.report.diagnosis import Finding

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
WRONG: dict[str, tuple[float, ...]] = {  # numbers with which each rule speaks up
    "still_identity": (0.0,),
    "recognised": (1.0, 0.0),
    "colors_in_distribution": (9.0,),
    "fits": (0.1, 0.1),
    "replay_length": (1.0, 8),
    "varied": (0.0,),
    "answers_differ": (1.0, 0.1),
    "representations_differ": (0.0,),
}
NO_ADVICE = ("judged", "strength_found", "operations_borne")  # what is found, whatever it is: nothing is to be tried


def test_every_rule_is_tried():
    rules = [
        name
        for name, function in inspect.getmembers(diagnosis, inspect.isfunction)
        if inspect.signature(function).return_annotation == "Finding" and name not in NO_ADVICE
    ]
    assert sorted(rules) == sorted(WRONG)


def test_the_page_has_the_title_and_the_advice_of_each_rule():
    plain = PAGE.replace("`", "")
    for name, numbers in WRONG.items():
        finding: Finding = getattr(diagnosis, name)(*numbers)
        assert not finding.fine and f"| {finding.title} | {finding.advice} |" in plain, name
