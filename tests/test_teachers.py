import pytest
import torch
from torch import nn

from teachaugment.errors import UserError
from teachaugment.networks import frozen
from teachaugment.teachers import EMATeacher, FrozenTeacher


def network():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))


def test_ema_equals_its_closed_form_weights_and_buffers():
    target = network()
    teacher = EMATeacher(target, decay=0.9)
    expected = {name: value.clone() for name, value in target.state_dict().items()}
    for t in range(30):
        with torch.no_grad():
            for value in (*target.parameters(), *target.buffers()):
                value.add_(1) if not value.is_floating_point() else value.normal_()
        teacher.update(target)
        decay = min(0.9, (1 + t) / (10 + t))
        for name, value in target.state_dict().items():
            if value.is_floating_point():
                expected[name] = decay * expected[name] + (1 - decay) * value
            else:
                expected[name] = value.clone()
    for name, value in teacher.model.state_dict().items():
        assert torch.allclose(value, expected[name], atol=1e-5), name


def test_the_teacher_is_in_eval_mode_and_asks_for_no_gradient():
    teacher = EMATeacher(network().train())
    assert not teacher.model.training
    assert not any(p.requires_grad for p in teacher.model.parameters())


def test_ema_does_not_touch_the_target():
    target = network()
    before = {k: v.clone() for k, v in target.state_dict().items()}
    EMATeacher(target).update(target)
    assert all(torch.equal(v, before[k]) for k, v in target.state_dict().items())


def test_ema_state_comes_back():
    target = network()
    teacher, other = EMATeacher(target), EMATeacher(network())
    teacher.update(target)
    other.load_state_dict(teacher.state_dict())
    assert other.updates == 1
    assert all(torch.equal(a, b) for a, b in zip(teacher.model.parameters(), other.model.parameters(), strict=True))


def test_a_frozen_teacher_never_changes():
    model = network()
    teacher = FrozenTeacher(model)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    teacher.update(network())
    assert all(torch.equal(v, before[k]) for k, v in teacher.model.state_dict().items())
    assert not teacher.model.training


def test_a_target_that_cannot_be_copied_is_named():
    class Stubborn(nn.Module):
        def __deepcopy__(self, memo):
            raise TypeError("no copies")

    with pytest.raises(UserError, match="no copies"):
        EMATeacher(Stubborn())


def test_a_teacher_may_normalise_by_the_images_it_is_given_and_keeps_its_averages():
    target = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Dropout(0.5))
    averaged, batch = (EMATeacher(target, batch_statistics=given) for given in (False, True))
    x = 5 + 3 * torch.randn(8, 3, 6, 6)
    with torch.no_grad():
        found = [frozen(teacher.model, x) for teacher in (averaged, batch)]
    assert found[1].mean((0, 2, 3)).abs().max() < 1e-3 and found[0].mean((0, 2, 3)).abs().max() > 0.1
    assert (found[1] == 0).sum() == 0, "dropout stays off"
    assert torch.equal(batch.model[1].running_mean, torch.zeros(4))


def test_a_warm_up_of_one_is_none():
    target = network()
    teacher = EMATeacher(target, decay=0.9, warmup=1)
    assert teacher.decay_now() == 0.9
    teacher.update(target)
    assert teacher.decay_now() == 0.9
    assert EMATeacher(target, decay=0.9, warmup=10).decay_now() == 0.1
