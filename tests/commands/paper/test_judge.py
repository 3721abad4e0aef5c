"""Orders and claims, from rows as they are kept."""

from __future__ import annotations

import pytest

from teachaugment.commands.paper import judge, plan, sections
from teachaugment.commands.paper.items import items

LAPTOP = items("laptop")


def kept(item_name: str, where: int = 0, **values: list[float]):
    """Rows of one data set, the first is CIFAR-10, whose accuracies over seeds are given in the order of the table's
    rows; None is not measured."""
    item, done = LAPTOP[item_name], {}
    place = item.places[where]
    for row, accuracies in zip(item.rows, values["rows"], strict=True):
        for seed, value in enumerate(accuracies or ()):
            done[plan.row_key(row, place, "laptop", seed)] = {
                **{"strategy": row.entry.strategy, "seed": seed, "metric": "accuracy", "test": {"target": value / 100}},
                **{"val": {}, "seconds": 10.0 * (1 + len(row.label) % 3), "settings": {}},
            }
    return item, done


def test_same_order_and_another_order():
    item, done = kept("tab3", rows=[[60, 61, 62], [58, 59, 60], [63, 64, 65], [66, 67, 68]])
    assert judge.order(item, item.places[0], done) == "CIFAR-10: same order as in the paper (4 rows)."
    item, done = kept("tab3", rows=[[60, 61, 62], [58, 59, 60], [66, 67.1, 68], [64, 65, 66.1]])
    told = judge.order(item, item.places[0], done)
    assert "another order than in the paper in 1 of 6 pairs: TeachAugment is behind PointAugment's here by 2.0" in told
    assert "chance" not in told
    assert judge.order(item, item.places[2], done) == "sign digits: not measured yet."


@pytest.mark.parametrize(
    ("ours", "found"),
    [
        ([70, 71.1, 72], judge.HOLDS),
        ([66, 63.5, 70], judge.LIKE),
        ([55, 56, 57.1], judge.NOT),
        ([64, 58, 66], judge.OPEN),
        ([70, 71.1], judge.UNTESTED),
        (None, judge.UNTESTED),
    ],
)
def test_a_claim_of_several_pairs(ours, found):
    """All are ahead, clearly or by chance; one is behind, clearly or by chance; a seed or all are missing."""
    rows = [ours, [62, 63, 64], [60, 61, 62], [66, 59, 64.5], None, None, None]
    item, done = kept("tab2", rows=rows)
    verdict = judge.judged(item, item.claims[0], done, {})
    assert verdict.found == found


def test_not_better_times_epsilon_and_numbers_of_figures():
    item, done = kept("tab9", rows=[[60, 61, 62], [60.5, 60.9, 62], [64, 65, 66.1], [63, 64, 65]])
    assert judge.judged(item, item.claims[0], done, {}).found == judge.NOT  # MSE is clearly better
    item, done = kept("tab9", rows=[[60, 61, 62], [60.5, 60.9, 62], [59, 61, 61], None])
    assert judge.judged(item, item.claims[0], done, {}).found == judge.OPEN  # KLD is better, but by chance
    item, done = kept("tab9", rows=[[60, 61, 62], [59.5, 60.9, 62], [59, 61, 61], None])
    assert judge.judged(item, item.claims[0], done, {}).found == judge.LIKE
    item, done = kept("tab9", rows=[[60, 61, 62], [58, 59, 60.1], [59, 61, 61], None])
    assert judge.judged(item, item.claims[0], done, {}).found == judge.HOLDS  # KLD is clearly worse
    item, done = kept("cost", rows=[[60.0], [61.0], [62.0], *[None] * 7])
    assert "times as long" in judge.judged(item, item.claims[0], done, {}).detail
    item, done = kept("fig5", rows=[[60.0], [61.0], [62.0], [61.5], [60.0]])
    verdict = judge.judged(item, item.claims[0], done, {})
    assert verdict.found == judge.UNTESTED and verdict.detail == "CIFAR-10: best ε = 0.2, error 38.0 %"
    part = sections.table_part(item, done)
    assert len(part.charts) == 1 and "least at ε = 0.2, 38.0 %" in part.charts[0].drawing.words
    fig4 = LAPTOP["fig4"]
    numbers = {("fig4", "cifar10", row.label): {"color_distance": k} for row, k in zip(fig4.rows, (2, 1), strict=True)}
    assert judge.judged(fig4, fig4.claims[0], {}, numbers).found == judge.HOLDS


@pytest.mark.parametrize(
    ("best", "apart", "found"),
    [(4, 5.0, judge.HOLDS), (4, 0.1, judge.LIKE), (2, 5.0, judge.OPEN), (0, 0.1, judge.OPEN), (0, 5.0, judge.NOT)],
)
def test_the_best_epsilon_is_larger_on_easy_data_and_clearly_so(best, apart, found):
    """On CIFAR-10 the third is best by chance; on the digits, which are easier, one is best, clearly or by chance."""
    noise = ([0.0, 0.5, 1.0], [0.4, 0.9, 0.2], [0.9, 0.3, 0.5], [0.2, 0.8, 0.3], [0.5, 0.1, 0.9])
    item, done = kept("fig5", rows=[[60 + n + 0.1 * (k == 2) for n in seeds] for k, seeds in enumerate(noise)])
    digits = next(k for k, place in enumerate(item.places) if place.name == "digits")
    rows = [[90 + n + (apart + 0.1) * (k == best) for n in seeds] for k, seeds in enumerate(noise)]
    done |= kept("fig5", where=digits, rows=rows)[1]
    assert judge.judged(item, item.claims[0], done, {}).found == found


def test_errors_are_shown_as_errors_and_paired_differences_have_the_sign_of_the_error():
    item, done = kept("tab3", rows=[[60, 61, 62.0], None, None, [62, 63, 64.3]])
    part = sections.table_part(item, done)
    ours = [cell.text for cell in part.rows[3]]
    assert ours[0] == "TeachAugment" and ours[1] == "36.9 ± 1.2" and ours[2].startswith("-2.1 (-2.5 to -1.7)")
    assert [cell.text for cell in part.rows[3] if cell.paper] == ["2.5", "16.8"]
    assert any("Adversarial AutoAugment's has not been trained yet: CIFAR-10" in note for note in part.notes)
    assert any("cifar100.npz is needed" in note for note in part.notes)
