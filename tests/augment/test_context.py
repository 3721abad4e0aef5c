"""The class of an image in the RGB network: a shift of its colours, or a bias of its own in the hidden layer."""

import pytest
import torch
import torch.nn.functional as F

from teachaugment import TeachAugment
from teachaugment.augment.mlp import Live
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.replay import Replay


def augmenter(**settings):
    made = NeuralAugmenter(3, 4, **settings)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if ".last." in name or name == "colors.rgb.context":
                parameter.normal_(0, 0.5)
    return made


def test_a_bias_per_class_is_a_one_hot_vector_beside_the_input():
    mlp = augmenter(context="hidden", dropout=0.0).colors.rgb
    label, x = torch.tensor([2, 0, 3]), torch.randn(3, 3, 5)
    live = Live(torch.nn.ModuleDict({"rgb": mlp}))
    found = mlp.select(live, "rgb", mlp.draw_units(3), label)(x)
    inputs = torch.cat([x, F.one_hot(label, 4).float()[:, :, None].expand(-1, -1, 5)], 1).mT
    h = F.linear(inputs, torch.cat([mlp.first.weight, mlp.context.T], 1), mlp.first.bias)
    h = F.leaky_relu(mlp.second(F.leaky_relu(h, 0.2)), 0.2)
    assert torch.allclose(found, mlp.last(h).mT, atol=1e-4)


@pytest.mark.parametrize("context", ["hidden", "input"])
def test_each_class_has_a_colour_map_of_its_own(context):
    module = augmenter(context=context)
    with torch.no_grad():
        module.log_odds.fill_(20)
        draws = [module.sample(2, torch.tensor([k, k]), torch.Generator().manual_seed(0)) for k in (0, 1)]
        a, b = (module.colors.unfolded(torch.rand(1, 3, 9), draw.color) for draw in draws)
    assert (a - b).abs().max() > 0.02


def test_biases_of_a_class_reach_what_no_shift_of_the_input_does():
    """The best shift of the three colours, by least squares, leaves most of a class's biases unexplained."""
    module = augmenter(context="hidden", dropout=0.0)
    rgb, live = module.colors.rgb, Live(module)
    units = rgb.draw_units(1)
    with torch.no_grad():
        zero, one = (rgb.select(live, "colors.rgb", units, torch.tensor([k])) for k in (0, 1))
    difference, weight = (one.biases[0] - zero.biases[0])[0], zero.weights[0][0]
    left = weight @ torch.linalg.lstsq(weight, difference).solution - difference
    assert left.norm() > 0.5 * difference.norm()


def test_class_weights_blend_the_biases_and_a_label_is_one_of_them():
    module = augmenter(context="hidden")
    label = torch.tensor([1, 3])
    one_hot = F.one_hot(label, 4).float()
    a, b = (module.sample(2, c, torch.Generator().manual_seed(3)).color.rgb.biases[0] for c in (label, one_hot))
    assert torch.allclose(a, b, atol=1e-6)


def test_snapshots_keep_the_biases_of_their_time():
    module = augmenter(context="hidden", group=2)
    replay, label = Replay(module), torch.tensor([0, 1, 2, 3])
    with torch.no_grad():
        before = module.sample(4, label, torch.Generator().manual_seed(1))
        replay.push()
        module.colors.rgb.context.zero_()
        replay.refresh()
        drawn = replay.draw(4)
        for source in drawn:
            source.slots.fill_(0)
        again = module.sample(4, label, torch.Generator().manual_seed(1), drawn)
    error = (again.color.rgb.biases[0] - before.color.rgb.biases[0]).abs().max()
    assert error < 0.02


def test_without_context_an_augmenter_does_not_know_the_classes():
    teach = TeachAugment(torch.nn.Linear(1, 1), num_classes=4, context="none", augmenter="neural")
    assert teach.augmenter.settings.classes is None and teach.augmenter.log_odds.shape == (1, 2)
    assert teach.augmenter.colors.rgb.context is None


def test_a_file_that_says_nothing_has_the_context_of_version_0_1():
    assert NeuralAugmenter(3, 4).colors.rgb.context.shape == (4, 3)
    assert TeachAugment(
        torch.nn.Linear(1, 1), num_classes=4, augmenter="neural"
    ).augmenter.colors.rgb.context.shape == (4, 128)
