import math

import pytest
import torch

from teachaugment.batch import IGNORE
from teachaugment.config.resolve import SETTINGS
from teachaugment.losses import cross_entropy, non_saturating
from teachaugment.objectives import OBJECTIVES
from teachaugment.objectives.adversarial import adversarial
from teachaugment.objectives.passes import Passes
from teachaugment.objectives.pointaugment import each_image, point_augment
from teachaugment.objectives.teachaugment import teach_augment


def passes(target, teacher, label, target_loss=non_saturating, loss=cross_entropy, plain=None):
    def unasked():
        raise AssertionError("nobody compares with the images as they were")

    return Passes(target, teacher, label, target_loss, loss, plain or unasked)


def log(*probabilities):
    """Logits [1, K] of these probabilities."""
    return torch.tensor([probabilities]).log()


def test_equation_1_against_a_value_by_hand():
    target, teacher = torch.tensor([[0.7, 0.2, 0.1]]).log(), torch.tensor([[0.5, 0.3, 0.2]]).log()
    terms = teach_augment(passes(target, teacher, torch.tensor([0])))
    assert terms.target.item() == pytest.approx(math.log(0.3), abs=1e-6)
    assert terms.teacher.item() == pytest.approx(-math.log(0.5), abs=1e-6)
    assert terms.objective.item() == pytest.approx(math.log(0.3) + math.log(0.5), abs=1e-6)


def test_the_objective_rises_when_the_target_errs_and_falls_when_the_teacher_errs():
    right, wrong, label = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 3.0]]), torch.tensor([0])
    best = teach_augment(passes(wrong, right, label)).objective
    assert best > teach_augment(passes(right, right, label)).objective
    assert best > teach_augment(passes(wrong, wrong, label)).objective


def test_any_pair_of_losses_can_be_passed():
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    label = torch.tensor([[1.0, 0.0, 1.0]])
    terms = teach_augment(passes(torch.zeros(1, 3), torch.ones(1, 3), label, target_loss=loss, loss=loss))
    assert terms.target.item() == pytest.approx(math.log(2), abs=1e-6)


def test_every_objective_has_a_name_in_the_configuration():
    assert set(SETTINGS["teach.objective"].metadata["choices"]) == OBJECTIVES.keys()


def test_adversarial_autoaugment_is_the_targets_term_alone():
    terms = adversarial(passes(log(0.7, 0.2, 0.1), log(0.5, 0.3, 0.2), torch.tensor([0])))
    assert terms.objective.item() == terms.target.item() == pytest.approx(math.log(0.3), abs=1e-6)
    assert terms.teacher.item() == pytest.approx(-math.log(0.5), abs=1e-6)


@pytest.mark.parametrize(("after", "before"), [(0.5, 0.8), (0.8, 0.3), (0.25, 0.25)])
def test_pointaugment_against_a_value_by_hand(after, before):
    label = torch.tensor([1])
    terms = point_augment(
        passes(log(1 - after, after), log(0.4, 0.6), label, plain=lambda: (log(1 - before, before), label))
    )
    rho = math.exp(after)
    by_hand = -math.log(after) + abs(1 - math.exp(-math.log(after) + rho * math.log(before)))
    assert terms.objective.item() == pytest.approx(-by_hand, abs=1e-5)
    assert terms.target.item() == pytest.approx(-math.log(after), abs=1e-6)
    assert terms.teacher.item() == pytest.approx(-math.log(0.6), abs=1e-6)


def test_pointaugment_compares_image_by_image_and_has_no_gradient_through_rho():
    logits, before = torch.randn(5, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    label = torch.tensor([0, 3, 1, 1, 2])
    loss = torch.nn.functional.cross_entropy
    point_augment(passes(logits, logits.detach(), label, plain=lambda: (before, label))).objective.backward()
    expected = torch.zeros_like(logits)
    for i in range(5):
        one = logits.detach()[i : i + 1].requires_grad_()
        after, plain = loss(one, label[i : i + 1]), loss(before.detach()[i : i + 1], label[i : i + 1])
        rho = float(one.detach().softmax(1)[0, label[i]].exp())  # a number
        (-(after + (1 - (after - rho * plain).exp()).abs()) / 5).backward()
        expected[i] = one.grad[0]
    torch.testing.assert_close(logits.grad, expected)
    assert before.grad is None


def test_pointaugment_knows_neither_the_non_saturating_loss_nor_smoothing():
    label, logits = torch.tensor([0, 1]), torch.randn(2, 3)
    values = [
        point_augment(passes(logits, logits, label, target_loss=loss, plain=lambda: (logits.flip(0), label))).objective
        for loss in (non_saturating, torch.nn.functional.cross_entropy)
    ]
    assert torch.equal(*values)


def test_pointaugment_never_asks_for_a_larger_loss():
    """With weight 1 on its second term the sum falls with L(f(a(x))): said in docs/decisions.md."""
    label = torch.zeros(200, dtype=torch.long)
    logits, before = 4 * torch.randn(200, 3), 4 * torch.randn(200, 3)
    logits.requires_grad_()
    point_augment(passes(logits, logits.detach(), label, plain=lambda: (before, label))).objective.backward()
    assert (logits.grad[:, 0] >= 0).all()  # a larger logit of the right class is never worse


def test_pointaugment_stays_finite_however_wrong_the_target_is():
    logits = torch.tensor([[0.0, 500.0]], requires_grad=True)
    label = torch.tensor([0])
    terms = point_augment(passes(logits, logits, label, plain=lambda: (torch.tensor([[9.0, 0.0]]), label)))
    terms.objective.backward()
    assert terms.objective.isfinite() and logits.grad.isfinite().all() and logits.grad[0, 0] > 0


def test_of_a_mask_every_image_counts_by_the_mean_over_its_known_pixels():
    logits = torch.randn(2, 3, 2, 2)
    mask = torch.tensor([[[0, IGNORE], [2, 1]], [[IGNORE, IGNORE], [IGNORE, 1]]])
    loss, right = each_image(logits, mask)
    probabilities = logits.softmax(1)
    known = [
        [probabilities[0, 0, 0, 0], probabilities[0, 2, 1, 0], probabilities[0, 1, 1, 1]],
        [probabilities[1, 1, 1, 1]],
    ]
    for i in range(2):
        values = torch.stack(known[i])
        torch.testing.assert_close(loss[i], -values.log().mean())
        torch.testing.assert_close(right[i], values.mean())


def test_class_255_of_a_classifier_is_a_class_like_any_other():
    logits, label = torch.randn(2, 300), torch.tensor([IGNORE, 7])
    loss, right = each_image(logits, label)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, label, reduction="none"))
    torch.testing.assert_close(right, torch.stack([logits.softmax(1)[0, 255], logits.softmax(1)[1, 7]]))


def test_soft_labels_weigh_the_classes():
    logits, label = torch.randn(3, 4), torch.rand(3, 4).softmax(1)
    loss, right = each_image(logits, label)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, label, reduction="none"))
    torch.testing.assert_close(right, (label * logits.softmax(1)).sum(1))
