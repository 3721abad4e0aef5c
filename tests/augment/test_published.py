import pytest
import torch

from teachaugment.augment.published import PUBLISHED, PerImage
from teachaugment.batch import Batch


@pytest.mark.parametrize("name", PUBLISHED)
def test_images_change_one_by_one_and_stay_in_range(name):
    batch = Batch(torch.rand(24, 3, 16, 16), torch.arange(24))
    augmented = PerImage(name)(batch)
    assert augmented.image.shape == batch.image.shape and augmented.image.dtype == batch.image.dtype
    assert augmented.image.min() >= 0 and augmented.image.max() <= 1
    assert ((augmented.image - batch.image).abs().amax((1, 2, 3)) > 0.02).sum() > 5
    assert torch.equal(augmented.label, batch.label)


def test_the_draws_follow_the_global_seed():
    batch = Batch(torch.rand(8, 3, 16, 16))
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(PerImage("trivialaugment")(batch).image)
    assert torch.equal(*results)
