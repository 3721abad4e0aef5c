"""Each rule on numbers either side of its threshold: what it says, and that the number is in the sentence."""

from __future__ import annotations

import pytest

from teachaugment.commands.report import diagnosis as d


@pytest.mark.parametrize(
    ("rule", "good", "bad", "number"),
    [
        (d.still_identity, (0.011,), (0.009,), "0.9 %"),
        (d.recognised, (0.9, 0.73), (0.9, 0.71), "71 %"),
        (d.colors_in_distribution, (0.34,), (0.36,), "0.36 standard deviations away"),
        (d.colors_in_distribution, (0.079, "image"), (0.081, "image"), "0.081 of the range"),
        (d.fits, (0.70, 0.66), (0.70, 0.68), "70 %"),
        (d.replay_length, (5.0, 10), (4.9, 10), "4.9"),
        (d.varied, (0.16,), (0.14,), "14 %"),
        (d.answers_differ, (0.49, 0.1), (0.51, 0.1), "51 %"),
        (d.representations_differ, (0.21,), (0.19,), "19 %"),
    ],
)
def test_a_rule_speaks_on_one_side_of_its_threshold(rule, good, bad, number):
    fine, problem = rule(*good), rule(*bad)
    assert fine.fine and not fine.advice
    assert not problem.fine and problem.advice
    assert number in problem.sentence and fine.title != problem.title


def test_a_target_that_knows_its_training_images_does_not_underfit():
    assert d.fits(0.95, 0.95).fine


def test_one_large_class_is_no_collapse():
    assert d.answers_differ(0.8, 0.75).fine


def test_a_teacher_that_recognises_nothing_cannot_lose_anything():
    assert d.recognised(0.0, 0.0).fine


def test_old_snapshots_count_less():
    assert d.effective_snapshots(3, 1.0) == 3
    assert d.effective_snapshots(2, 0.5) == 1.5
    assert d.effective_snapshots(1000, 0.9) == pytest.approx(10)


def test_advice_names_settings_that_exist():
    import re

    from teachaugment.config.resolve import SETTINGS

    bad = [
        d.still_identity(0),
        d.recognised(1, 0),
        d.colors_in_distribution(1),
        d.fits(0.1, 0.1),
        d.replay_length(0, 8),
    ]
    bad += [d.varied(0), d.answers_differ(1, 0.1), d.representations_differ(0)]
    short = {setting.metadata["flag"] for setting in SETTINGS.values()}
    flags = {flag for finding in bad for flag in re.findall(r"--([a-z_.-]*[a-z])", finding.advice)}
    assert len(flags) > 8 and flags <= set(SETTINGS) | short


def test_operations_that_the_network_does_not_bear_are_named():
    found = d.operations_borne({"rotate": 0.9, "solarize": 0.04, "brightness": 0.2})
    assert found.fine and "solarize 4 %, brightness 20 %" in found.sentence and "rotate" not in found.sentence
    assert "Each operation" in d.operations_borne({"rotate": 0.9}).sentence
