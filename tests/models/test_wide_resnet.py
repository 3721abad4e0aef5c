"""The wide residual network in detail: where it halves the image, and what its shortcuts see."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from teachaugment.models.wide_resnet import Block, WideResNet


def test_groups_have_the_widths_and_sizes_of_the_paper():
    model = WideResNet(depth=16, width=2, num_classes=10)
    x = model.stem(torch.rand(2, 3, 32, 32))
    assert x.shape == (2, 16, 32, 32)
    for group, shape in zip(model.groups, [(32, 32, 32), (64, 16, 16), (128, 8, 8)], strict=True):
        x = group(x)
        assert x.shape == (2, *shape)


@pytest.mark.parametrize("depth", [16, 28, 40])
def test_the_depth_counts_the_convolutions_projecting_shortcuts_included(depth):
    model = WideResNet(depth=depth, width=2, num_classes=10)
    assert sum(isinstance(module, torch.nn.Conv2d) for module in model.modules()) == depth


@pytest.mark.parametrize("depth", [4, 17, 3])
def test_a_depth_that_no_network_has_is_refused(depth):
    with pytest.raises(ValueError, match="6n \\+ 4"):
        WideResNet(depth=depth, width=1, num_classes=10)


def test_a_block_that_keeps_the_shape_adds_its_unchanged_input():
    block = Block(8, 8, stride=1)
    torch.nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, 8, 6, 6)
    assert torch.equal(block(x), x)


def test_a_block_that_changes_the_shape_projects_the_activated_input():
    block = Block(8, 16, stride=2).eval()
    torch.nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, 8, 6, 6)
    assert block.shortcut is not None
    torch.testing.assert_close(block(x), block.shortcut(F.relu(block.norm1(x))))
