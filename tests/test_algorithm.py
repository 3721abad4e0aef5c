"""Algorithm 1: who is updated when, and what each update leaves alone."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from teachaugment import Batch, TeachAugment, UserError
from teachaugment.networks import frozen, unwrap
from teachaugment.objectives.adversarial import adversarial
from teachaugment.objectives.pointaugment import point_augment
from teachaugment.objectives.teachaugment import teach_augment

plain = TeachAugment.plain


def network(classes=4, channels=3):
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.1), nn.Linear(32, classes),
    )  # fmt: skip


def images(n=16, classes=4):
    return torch.rand(n, 3, 12, 12), torch.randint(classes, (n,))


def state_of(*modules):
    return [value.clone() for module in modules for value in module.state_dict().values()]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def train(teach, target, steps, seed=0, epoch_length=4):
    """A plain loop; the same seed gives the same batches."""
    optimizer = torch.optim.SGD(target.parameters(), 0.05)
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, steps + 1):
        x, y = torch.rand(16, 3, 12, 12, generator=generator), torch.randint(4, (16,), generator=generator)
        loss = F.cross_entropy(target(teach(x, y)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        teach.step(x, y)
        if step % epoch_length == 0:
            teach.end_epoch()


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_an_augmenter_step_leaves_target_and_teacher_bit_identical(mode):
    target = network()
    getattr(target, mode)()
    teach = TeachAugment(target, num_classes=4, augmenter="neural")
    before = state_of(target, teach.teacher.model)
    teach.update_augmenter(Batch(*images()))
    assert same(before, state_of(target, teach.teacher.model))
    assert all(p.grad is None for p in target.parameters())
    assert all(p.requires_grad for p in target.parameters())
    assert target.training == (mode == "train")


def test_frozen_gives_gradients_to_the_image_alone():
    target, (x, _) = network(), images()
    x.requires_grad_()
    frozen(target, x).sum().backward()
    assert x.grad.abs().sum() > 0
    assert all(p.grad is None for p in target.parameters())


def test_the_augmenter_is_updated_every_n_inner_steps():
    teach = TeachAugment(network(), num_classes=4, n_inner=3, augmenter="neural")
    x, y = images()
    assert [teach.step(x, y) is not None for _ in range(7)] == [False, False, True, False, False, True, False]


def test_an_update_in_parts_adds_up_the_gradients_of_the_parts():
    target = network().eval()
    x, y = images(10)

    def gradient(weights, at_once=None):
        teach = TeachAugment(target, num_classes=4, at_once=at_once, augmenter="neural")
        if at_once is not None:
            teach.update_augmenter(Batch(x, y))
            return [p.grad for p in teach.augmenter.parameters()]
        for weight, part in zip(weights, Batch(x, y).split(4), strict=True):
            teach.backward(part, weight)
        return [p.grad for p in teach.augmenter.parameters()]

    for a, b in zip(gradient([0.4, 0.4, 0.2]), gradient([], 4), strict=True):
        assert torch.equal(a, b)
    assert any(g.abs().sum() > 0 for g in gradient([], 4))


def test_the_augmenter_is_updated_on_the_given_share_of_the_batch():
    seen = []

    def forward(model, batch):
        seen.append(len(batch))
        return model(batch.image)

    teach = TeachAugment(network(), num_classes=4, n_inner=1, fraction=0.3, forward=forward, augmenter="neural")
    teach.step(*images(10))
    teach.step(*images(5))  # never on one image alone, of which batch norm knows no variance
    assert seen == [3, 3, 2, 2]  # target and teacher


def test_everything_learns():
    target = network()
    teach = TeachAugment(target, num_classes=4, n_inner=1, augmenter="neural")
    before = copy.deepcopy(teach.augmenter.state_dict())
    train(teach, target, 5)
    for name, value in teach.augmenter.state_dict().items():
        assert not torch.equal(value, before[name]), name


def test_a_snapshot_enters_the_replay_every_n_buffer_epochs():
    teach = TeachAugment(network(), num_classes=4, n_buffer=2, augmenter="neural")
    for expected in (0, 1, 1, 2):
        teach.end_epoch()
        assert len(teach.replay) == expected


def test_augmenting_needs_no_gradient_and_keeps_range_and_shape():
    target = network()
    teach = TeachAugment(target, num_classes=4, n_inner=1, n_buffer=1, augmenter="neural")
    train(teach, target, 8)
    x, y = images(7)
    out = teach(x, y)
    assert out.shape == x.shape and not out.requires_grad
    assert out.min() >= 0 and out.max() <= 1 and not torch.equal(out, x)


def test_two_draws_of_one_step_differ():
    target = network()
    teach = TeachAugment(target, num_classes=4, n_inner=1, augmenter="neural")
    train(teach, target, 4)
    x, y = images()
    assert not torch.equal(teach(x, y), teach(x, y))


def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit():
    torch.manual_seed(0)
    target = network().eval()  # eval: the loop's own dropout would need its generator restored by the loop
    whole, part = copy.deepcopy(target), copy.deepcopy(target)
    a = TeachAugment(whole, num_classes=4, n_inner=2, n_buffer=1, augmenter="neural")
    train(a, whole, 6)
    train(a, whole, 7, seed=1)

    b = TeachAugment(part, num_classes=4, n_inner=2, n_buffer=1, augmenter="neural")
    train(b, part, 6)
    saved, weights = copy.deepcopy(b.state_dict()), copy.deepcopy(part.state_dict())
    resumed = network().eval()
    resumed.load_state_dict(weights)
    c = TeachAugment(resumed, num_classes=4, n_inner=2, n_buffer=1, seed=99, augmenter="neural")
    c.load_state_dict(saved)
    train(c, resumed, 7, seed=1)

    assert same(state_of(whole, a.augmenter, a.teacher.model), state_of(resumed, c.augmenter, c.teacher.model))
    assert same(a.replay.values.values(), c.replay.values.values())
    assert same(a.replay.scales.values(), c.replay.scales.values())
    assert len(a.replay) == len(c.replay) == 2


def test_state_holds_only_plain_data_and_tensors(tmp_path):
    teach = TeachAugment(network(), num_classes=4, n_inner=1, n_buffer=1, augmenter="neural")
    teach.step(*images())
    teach.end_epoch()
    torch.save(teach.state_dict(), tmp_path / "t.pt")
    assert torch.load(tmp_path / "t.pt", weights_only=True)["steps"] == 1


@pytest.mark.parametrize(
    "off", [{"non_saturating": False}, {"smoothing": 0.0}, {"color_weight": 0.0}, {"n_buffer": 0}], ids=str
)
def test_each_technique_can_be_switched_off_alone(off):
    torch.manual_seed(1)
    x, y = images(64)
    target = network().eval()
    plain = TeachAugment(target, num_classes=4, n_inner=1, n_buffer=1, augmenter="neural")
    without = TeachAugment(target, num_classes=4, **{"n_inner": 1, "n_buffer": 1, **off}, augmenter="neural")
    for teach in (plain, without):
        for _ in range(4):
            teach.step(x, y)
            teach.end_epoch()
    assert len(without.replay) == (0 if "n_buffer" in off else 4)
    changed = not same(state_of(plain.augmenter), state_of(without.augmenter))
    assert changed == ("n_buffer" not in off)


def test_multi_label_and_other_losses_work_by_passing_a_function():
    target = network()
    teach = TeachAugment(
        target, num_classes=4, loss=F.binary_cross_entropy_with_logits, n_inner=1, n_buffer=1, augmenter="neural"
    )
    x, y = torch.rand(6, 3, 12, 12), torch.randint(0, 2, (6, 4)).float()
    for _ in range(3):
        measured = teach.step(x, y)
        teach.end_epoch()
    logits = target(teach(x, y))
    assert logits.shape == (6, 4) and measured["objective"].isfinite()


def test_a_target_with_an_unusual_output_works_with_its_own_loss():
    class Regressor(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = network(1)

        def forward(self, x):
            return {"value": self.body(x)[:, 0]}

    def loss(output, label):
        return F.mse_loss(output["value"], label)

    teach = TeachAugment(Regressor(), loss=loss, n_inner=1, augmenter="neural")
    assert teach.step(torch.rand(4, 3, 12, 12), torch.rand(4))["objective"].isfinite()


def test_masks_travel_with_the_images():
    target = nn.Sequential(nn.Conv2d(3, 4, 1))
    teach = TeachAugment(
        target, loss=lambda z, y: F.cross_entropy(z, y, ignore_index=255), n_inner=1, augmenter="neural"
    )
    batch = Batch(torch.rand(4, 3, 12, 12), mask=torch.randint(0, 4, (4, 12, 12)))
    assert teach.step(batch)["objective"].isfinite()
    assert teach.augment(batch).mask.shape == (4, 12, 12)


def test_a_pretrained_teacher_stays_as_it_is():
    teacher = network()
    before = state_of(teacher)
    target = network()
    teach = TeachAugment(target, num_classes=4, teacher=teacher, n_inner=1, augmenter="neural")
    train(teach, target, 3)
    assert same(before, state_of(teach.teacher.model))


def test_the_augmenter_does_not_depend_on_the_global_random_state():
    target, batch = network().eval(), images()
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        teach = TeachAugment(target, num_classes=4, n_inner=1, seed=5, augmenter="neural")
        teach.step(*batch)
        results.append(state_of(teach.augmenter))
    assert same(*results)


def test_autocast_around_the_step_works():
    teach = TeachAugment(network(), num_classes=4, n_inner=1, augmenter="neural")
    with torch.autocast("cpu", torch.bfloat16):
        assert teach.step(*images())["objective"].isfinite()


def test_target_and_teacher_draw_the_same_inside_and_nobody_elses_random_numbers_change():
    drawn = []

    class Draws(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            drawn.append(torch.randperm(100))  # as a detector chooses among its proposals
            return self.inner(x)

    teach = TeachAugment(Draws(), num_classes=4, n_inner=1, augmenter="neural")
    batch, before = images(), torch.get_rng_state()
    for _ in range(2):
        teach.step(*batch)
    assert torch.equal(before, torch.get_rng_state())
    assert len(drawn) == 4 and torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[2], drawn[3])
    assert not torch.equal(drawn[0], drawn[2])


def test_unwrap_finds_the_module_inside_a_wrapper():
    model = network()
    assert unwrap(nn.DataParallel(model)) is model
    assert unwrap(torch.compile(model)) is model
    assert unwrap(torch.compile(nn.DataParallel(model))) is model


class WithAPart(nn.Module):
    """A model that calls one of its parts as wrappers call theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.module, self.head = nn.Flatten(), nn.Linear(192, 4)

    def forward(self, x):
        return self.head(self.module(x))


def test_a_model_with_a_part_called_module_keeps_its_head():
    model = WithAPart()
    teach = TeachAugment(model, num_classes=4, augmenter="neural", n_inner=1)
    assert teach.target is model
    assert teach.step(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 3]))["objective"].isfinite()


def test_only_pointaugment_asks_for_the_images_as_they_were(monkeypatch):
    calls = []
    monkeypatch.setattr(TeachAugment, "plain", lambda self, batch: calls.append(1) or plain(self, batch))
    for objective in (teach_augment, adversarial, point_augment):
        teach = TeachAugment(network(), num_classes=4, objective=objective, augmenter="neural")
        batch = Batch(*images())
        before = [p.clone() for p in teach.augmenter.parameters()]
        measured = teach.update_augmenter(batch)
        assert all(value.isfinite() for value in measured.values())
        assert not same(before, list(teach.augmenter.parameters()))
        assert len(calls) == (objective is point_augment)


def test_the_plain_pass_changes_nothing_and_has_no_gradient():
    target = network()
    teach = TeachAugment(target, num_classes=4, augmenter="neural")
    before = state_of(target)
    x, y = images()
    output, label = teach.plain(Batch(x.requires_grad_(), y))
    assert same(before, state_of(target)) and not output.requires_grad and torch.equal(label, y)


# --- the colour distance, and what can be set ------------------------------------------------------------------------


@pytest.mark.parametrize("deviation", [0.1, 0.25, 2.0])
def test_the_colour_distance_is_that_of_what_the_network_sees(deviation):
    """In units of the data's deviation: λ means the same for data of any mean and deviation."""
    x, y = images()

    def distance(normalize):
        teach = TeachAugment(network(), num_classes=4, normalize=normalize, augmenter="neural")
        with torch.no_grad():
            for name, parameter in teach.augmenter.named_parameters():
                if ".last." in name:
                    parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape))
        return teach.update_augmenter(Batch(x, y))["color_distance"].item()

    plain = distance(None)
    assert plain > 1e-3
    assert distance(lambda image: (image - 0.4) / deviation) == pytest.approx(plain / deviation**2, rel=1e-4)


def test_the_colour_distance_of_version_0_1_is_that_of_the_images():
    x, y = images()
    found = [
        TeachAugment(
            network(), num_classes=4, normalize=normalize, color_space="image", n_inner=1, augmenter="neural"
        ).step(x, y)
        for normalize in (None, lambda image: image / 0.1)
    ]
    assert found[0]["color_distance"] == found[1]["color_distance"]


def test_search_ranges_dropout_noise_and_temperature_reach_the_augmenter():
    own = {"scale_width": 0.4, "shift_width": 0.2, "affine_width": 1.0, "noise": 16, "dropout": 0.5, "temperature": 0.1}
    teach = TeachAugment(network(), num_classes=4, **own, normalizer="all", augmenter="neural")
    assert {name: getattr(teach.augmenter.settings, name) for name in own} == own
    assert teach.augmenter.ranges() == {"scale": [0.8, 1.2], "shift": [-0.1, 0.1], "affine": [-0.5, 0.5]}
    assert teach.augmenter.colors.rgb.normalized and teach.augmenter.geometry.noise.kept == 256
    policy = teach.policy()
    assert policy.augmenter.settings == teach.augmenter.settings


@pytest.mark.parametrize("name", ["context", "normalizer", "color_space", "teacher_statistics"])
def test_a_choice_that_is_none_is_refused_in_one_line(name):
    with pytest.raises(UserError, match=f"{name} must be one of .*, not 'both'"):
        TeachAugment(network(), num_classes=4, **{name: "both"}, augmenter="neural")


def test_the_augmenter_may_learn_from_images_of_its_own():
    """Line 10 of Algorithm 1: ``due`` says when."""
    seen = []

    def forward(model, batch):
        seen.append(batch.image.mean().item())
        return model(batch.image)

    teach = TeachAugment(network(), num_classes=4, n_inner=3, forward=forward, augmenter="neural")
    (x, y), due = images(), []
    for _ in range(7):
        due.append(teach.due)
        teach.step(torch.zeros_like(x) if teach.due else x, y)
    assert due == [False, False, True] * 2 + [False]
    assert seen == [0.0] * 4  # target and teacher, twice
