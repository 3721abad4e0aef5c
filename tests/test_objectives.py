import math

import pytest
import torch

from teachaugment.objectives import teach_augment


def test_equation_1_against_a_value_by_hand():
    target, teacher = torch.tensor([[0.7, 0.2, 0.1]]).log(), torch.tensor([[0.5, 0.3, 0.2]]).log()
    terms = teach_augment(target, teacher, torch.tensor([0]))
    assert terms.target.item() == pytest.approx(math.log(0.3), abs=1e-6)
    assert terms.teacher.item() == pytest.approx(-math.log(0.5), abs=1e-6)
    assert terms.objective.item() == pytest.approx(math.log(0.3) + math.log(0.5), abs=1e-6)


def test_the_objective_rises_when_the_target_errs_and_falls_when_the_teacher_errs():
    right, wrong, label = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 3.0]]), torch.tensor([0])
    best = teach_augment(wrong, right, label).objective
    assert best > teach_augment(right, right, label).objective
    assert best > teach_augment(wrong, wrong, label).objective


def test_any_pair_of_losses_can_be_passed():
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    label = torch.tensor([[1.0, 0.0, 1.0]])
    terms = teach_augment(torch.zeros(1, 3), torch.ones(1, 3), label, target_loss=loss, loss=loss)
    assert terms.target.item() == pytest.approx(math.log(2), abs=1e-6)
