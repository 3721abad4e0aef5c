"""What must hold for every augmenter in the table: one algorithm, one replay and one policy serve them all."""

import copy
import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from teachaugment import Batch, Policy, TeachAugment, UserError, load_policy
from teachaugment.augment import AUGMENTERS, create
from teachaugment.commands import cli
from teachaugment.config.resolve import SETTINGS
from teachaugment.engine import checkpoint

every = pytest.mark.parametrize("name", AUGMENTERS)


def awake(name, **settings):
    """An augmenter whose zero layers are no longer zero."""
    augmenter = create(name, **{"channels": 3, "classes": 4, **settings})
    with torch.no_grad():
        for parameter in augmenter.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return augmenter


def network():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))


def target():
    model = network()
    model(torch.rand(2, 3, 12, 12))
    return model.eval()


def train(teach, model, steps, seed=0):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x, y = torch.rand(12, 3, 12, 12, generator=generator), torch.randint(4, (12,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(model(teach(x, y)), y).backward()
        optimizer.step()
        teach.step(x, y)
        teach.end_epoch()


def test_the_settings_offer_what_the_table_holds():
    assert SETTINGS["teach.augmenter"].metadata["choices"] is AUGMENTERS


def test_an_unknown_name_is_refused_in_one_line():
    with pytest.raises(UserError, match="did you mean 'dda'"):
        TeachAugment(target(), augmenter="ddaa")


@every
def test_a_description_makes_a_twin(name):
    augmenter = create(name, channels=4, classes=7, group=3)
    twin = create(name, **json.loads(json.dumps(augmenter.describe())))
    twin.load_state_dict(augmenter.state_dict())
    assert twin.settings == augmenter.settings and twin.settings.group == 3


@every
@pytest.mark.parametrize("size", [(8, 8), (33, 17)])
@pytest.mark.parametrize("n", [1, 11])
def test_any_size_and_number_of_images(name, size, n):
    batch = Batch(torch.rand(n, 3, *size), torch.randint(4, (n,)), mask=torch.randint(3, (n, *size)))
    augmenter = awake(name)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            out = augmenter(batch)
        assert out.image.shape == batch.image.shape and out.mask.shape == batch.mask.shape
        assert out.image.min() >= 0 and out.image.max() <= 1 + 1e-6 and out.image.isfinite().all()
        assert set(out.mask.unique().tolist()) <= {0, 1, 2, 255}


@every
def test_a_policy_comes_back_bit_for_bit(name, tmp_path):
    policy = Policy.of(awake(name))
    policy.save(tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    images, labels = torch.rand(9, 3, 12, 12), torch.randint(4, (9,))
    a, b = (p(images, labels, generator=torch.Generator().manual_seed(0)) for p in (policy, loaded))
    assert torch.equal(a, b) and not torch.equal(a, images)
    assert type(loaded.augmenter) is type(policy.augmenter)


@pytest.mark.parametrize("name", [name for name in AUGMENTERS if AUGMENTERS.load(name).learns])
def test_the_objective_moves_every_parameter(name):
    model = target()
    teach = TeachAugment(model, num_classes=4, n_inner=1, augmenter=name)
    before = copy.deepcopy(teach.augmenter.state_dict())
    train(teach, model, 6)
    for key, value in teach.augmenter.state_dict().items():
        assert value.isfinite().all() and not torch.equal(value, before[key]), key


@every
def test_a_resumed_training_equals_the_uninterrupted_one_bit_for_bit(name):
    whole = target()
    part = copy.deepcopy(whole)
    learning = {"n_inner": 2, "n_buffer": 2} if AUGMENTERS.load(name).learns else {}
    settings = {"num_classes": 4, "augmenter": name, "governed": True, "total_steps": 9, **learning}
    a, b = TeachAugment(whole, **settings), TeachAugment(part, **settings)
    train(a, whole, 5)
    train(a, whole, 4, seed=1)
    train(b, part, 5)
    resumed = copy.deepcopy(part)
    c = TeachAugment(resumed, **settings, seed=99)
    c.load_state_dict(copy.deepcopy(b.state_dict()))
    train(c, resumed, 4, seed=1)
    for one, other in ((whole, resumed), (a.augmenter, c.augmenter), (a.teacher.model, c.teacher.model)):
        for x, y in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
            assert torch.equal(x, y)
    assert len(c.replay) == (4 if learning else 0)
    assert c.governor.state_dict().items() >= {"steps": 9, "strength": a.governor.strength}.items()


@every
def test_the_command_trains_with_it_and_a_resumed_run_keeps_it(name, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["--data.per_class", "4", "--data.size", "8", "--batch-size", "20", "--epochs", "1", "--device", "cpu"]
    words += ["--teach.n_inner", "1", "--teach.n_buffer", "1", "--train.tensorboard", "false"]
    words += ["--strategy", "teachaugment"]
    assert cli.main(["train", *words, "--teach.augmenter", name, "--output", str(run)]) == 0
    assert "policy.safetensors" in capsys.readouterr().out
    state = checkpoint.load(run / checkpoint.LAST)
    assert state["step"] == 2 and state["config"]["teach"]["augmenter"] == name
    assert type(load_policy(run).augmenter) is AUGMENTERS.load(name)
    assert cli.main(["train", "--resume", str(run), "--teach.augmenter", "dda" if name == "neural" else "neural"]) == 2
    assert "teach.augmenter" in capsys.readouterr().err
