from __future__ import annotations

import pytest
import torch
from torch import nn

from teachaugment.models.pyramidnet import Block, PyramidNet


def test_blocks_widen_and_are_dropped_more_and_more():
    with torch.device("meta"):
        model = PyramidNet(272, 200, 10)
    widths = [block.branch[1].out_channels for block in model.blocks]
    assert len(widths) == 90 and widths == sorted(widths) and widths[0] == 18 and widths[-1] == 216
    drops = [block.shake.drop for block in model.blocks]
    assert drops == sorted(drops) and drops[0] == pytest.approx(0.5 / 90) and drops[-1] == 0.5
    assert 1 + 3 * len(widths) + 1 == 272


def test_a_branch_that_puts_out_nothing_leaves_the_padded_input():
    block = Block(16, 6, stride=2, drop=0.5).eval()
    nn.init.zeros_(block.branch[-1].weight)
    x = torch.rand(2, 16, 5, 5)
    out = block(x)
    assert out.shape == (2, 24, 3, 3)
    assert (out[:, 16:] == 0).all() and torch.equal(out[:, :16], nn.functional.avg_pool2d(x, 2, ceil_mode=True))


def test_an_impossible_depth_is_refused():
    with pytest.raises(ValueError, match="9n \\+ 2"):
        PyramidNet(270, 200, 10)
