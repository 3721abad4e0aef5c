from __future__ import annotations

import torch

from teachaugment.commands.report.frames import Film
from teachaugment.commands.report.learned import CLASSES, cards, colors, distributions
from teachaugment.commands.report.observe import Disagreement, Observation
from teachaugment.commands.report.transform import Quantity

FILM = Film([], torch.zeros(1, 3, 4, 4), [("now", torch.zeros(1, 1, 3, 4, 4))])


def observed(classes: int, **more) -> Observation:
    rotation = Quantity("°", 0.0, torch.arange(2.0 * classes))
    return Observation(FILM, 9, labels=[*range(classes)] * 2, quantities={"rotation": rotation}, **more)


def test_each_class_has_a_row_with_its_own_probability_and_its_own_images():
    seen = observed(3, probabilities={"color": [0.1, 0.2, 0.3]})
    seen.quantities["rotation"].values[4] = torch.nan  # not applied
    found = distributions(seen, ["a", "b", "c"])
    assert [(row.name, row.shares) for row in found.rows] == [("a", [0.1]), ("b", [0.2]), ("c", [0.3])]
    assert found.parts == [("c", "colour")] and found.quantities == ["rotation"] and not found.note
    words = [row.strips[0].words for row in found.rows]
    assert (
        words[0].startswith("median 1.5°") and words[1].startswith("median 1°") and words[2].startswith("median 3.5°")
    )


def test_of_many_classes_those_augmented_least_and_most_often_are_shown():
    count = 3 * CLASSES
    names = [str(k) for k in range(count)]
    found = distributions(observed(count, probabilities={"other": [k / count for k in range(count)]}), names)
    assert [row.name for row in found.rows] == [*names[: CLASSES // 2], *names[-CLASSES // 2 :]]
    assert found.parts == [("", "other")] and f"{CLASSES} of {count} classes" in found.note


def test_one_probability_for_all_classes_is_one_row():
    (row,) = distributions(observed(3, probabilities={"geometric": [0.4]}), ["a", "b", "c"]).rows
    assert (row.name, row.shares) == ("all images", [0.4])


def test_where_nothing_was_learned_there_is_nothing_to_show():
    seen = Observation(FILM, 9)
    assert distributions(seen, ["a", "b"]) is None and colors(seen) is None and cards([]) is None


def test_a_part_that_never_acted_has_no_histogram_and_no_strip():
    seen = observed(2, probabilities={"color": [0.5, 0.5]})
    seen.quantities["rotation"].values.fill_(torch.nan)
    found = distributions(seen, ["a", "b"])
    assert found.histograms == found.quantities == [] and [row.strips for row in found.rows] == [[], []]
    seen.quantities["rotation"].values.fill_(seen.quantities["rotation"].neutral)  # it acted, and changed nothing
    assert distributions(seen, ["a", "b"]).quantities == []


def test_a_card_says_who_is_right():
    grey = torch.rand(1, 4, 4)
    (card,) = cards([Disagreement(grey, grey, "cat", ("dog", 0.9), ("cat", 0.6), 0.8)])
    assert [(o.who, o.right) for o in card.opinions] == [("target", False), ("teacher", True)]
    assert card.image.source.startswith("data:image/png;base64,") and card.image.alt == "cat, original and augmented"
