from __future__ import annotations

import torch
from torch import nn

from teachaugment.models.shake_shake import ShakeShake, Shortcut


def test_depth_is_26():
    """The stem, two convolutions in a row in each of twelve blocks, and the classifier."""
    branches = [module for name, module in ShakeShake(4, 10).named_modules() if name.endswith("branch1")]
    convolutions = sum(isinstance(layer, nn.Conv2d) for branch in branches for layer in branch)
    assert 1 + convolutions + 1 == 26


def test_training_is_random_and_evaluation_is_not():
    model, image = ShakeShake(4, 10), torch.rand(2, 3, 8, 8)
    assert not torch.equal(model(image), model(image))
    model.eval()
    assert torch.equal(model(image), model(image))


def test_the_second_path_of_a_shortcut_sees_the_pixels_between():
    short = Shortcut(1, 2, stride=2).eval()
    for conv in (short.conv1, short.conv2):
        nn.init.ones_(conv.weight)
    image = torch.arange(16.0).view(1, 1, 4, 4)
    first, second = short(image)[0] * (1 + short.norm.eps) ** 0.5
    torch.testing.assert_close(first, torch.tensor([[0.0, 2], [8, 10]]))
    torch.testing.assert_close(second, torch.tensor([[5.0, 7], [13, 15]]))
