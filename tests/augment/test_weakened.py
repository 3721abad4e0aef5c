"""What a policy asks of every augmenter: weaker draws, the warp as a matrix, and settings that make sense."""

import pytest
import torch

from teachaugment.augment import AUGMENTERS, create
from teachaugment.batch import Batch

every = pytest.mark.parametrize("name", sorted(AUGMENTERS))


def awake(name):
    """One that acts on nearly every image."""
    module = create(name)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


@every
@torch.no_grad()
def test_the_weaker_the_draw_the_less_an_image_changes(name):
    module, image = awake(name), torch.rand(32, 3, 24, 24) * 0.2 + 0.4
    torch.manual_seed(0)
    draw = module.sample(32)
    change = []
    for strength in (1.0, 0.5, 0.1, 0.01):
        weaker = module.weakened(draw, strength)
        batch = Batch(image)
        change.append(float((module.warp(module.color(batch, weaker), weaker).image - image).abs().mean()))
    assert change == sorted(change, reverse=True) and change[2] < 0.6 * change[0]


@every
@torch.no_grad()
def test_the_matrix_is_the_warp(name):
    module = awake(name)
    if module.bends:
        return
    torch.manual_seed(1)
    draw = module.sample(16)
    mask = torch.zeros(16, 40, 60, dtype=torch.long)
    mask[:, 12:28, 20:40] = 1
    moved = module.warp(Batch(torch.rand(16, 3, 40, 60), mask=mask), draw).mask
    matrix = module.matrix(draw, (40, 60))
    grid = torch.nn.functional.affine_grid(matrix, [16, 1, 40, 60], align_corners=False)
    x, y = (grid[..., 0] + 1) * 30, (grid[..., 1] + 1) * 20
    inside = (x > 20) & (x < 40) & (y > 12) & (y < 28)
    known = moved != 255
    assert ((moved == 1) == inside)[known].float().mean() > 0.97
    assert (matrix - torch.eye(2, 3)).abs().amax((1, 2)).gt(0.01).sum() > 3


@every
def test_settings_that_make_no_sense_are_refused(name):
    for wrong in ({"channels": 0}, {"classes": 0}, {"group": 0}, {"dropout": 1.5}, {"stages": 0}, {"perturb": 0}):
        with pytest.raises((ValueError, TypeError)):
            create(name, **wrong)
