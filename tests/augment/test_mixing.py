import pytest
import torch
from torchvision.transforms import v2

from teachaugment.augment.mixing import MIXES, cutmix, mix_images, mixup
from teachaugment.batch import Batch


def batch(n=4, side=8, classes=3):
    return Batch(torch.rand(n, 3, side, side), torch.arange(n) % classes)


def test_mixup_by_hand():
    before = Batch(torch.tensor([1.0, 3.0]).view(2, 1, 1, 1), torch.tensor([0, 2]))
    after = mixup(before, 3, torch.tensor(0.75))
    assert after.image.flatten().tolist() == [0.75 * 1 + 0.25 * 3, 0.75 * 3 + 0.25 * 1]
    assert after.label.tolist() == [[0.75, 0, 0.25], [0.25, 0, 0.75]]


def test_mixup_is_torchvisions():
    before, share = batch(), 0.3
    theirs = v2.MixUp(num_classes=3)
    params = {"labels": before.label, "batch_size": 4, "lam": share}
    after = mixup(before, 3, torch.tensor(share))
    torch.testing.assert_close(after.image, theirs.transform(before.image, params))
    torch.testing.assert_close(after.label, theirs.transform(before.label, params))


def test_cutmix_pastes_one_box_and_counts_its_pixels():
    before = batch(6, side=10)
    generator = torch.Generator().manual_seed(1)
    for share in (0.0, 0.3, 0.7, 0.95, 1.0):
        after = cutmix(before, 3, torch.tensor(share), generator)
        pasted = (after.image == before.image.roll(1, 0)).all(1)
        assert torch.equal(pasted[0], pasted[3])  # one box for the batch
        rows, columns = pasted[0].any(1), pasted[0].any(0)
        assert torch.equal(pasted[0], rows[:, None] & columns)
        assert torch.equal(after.image[:, :, ~pasted[0]], before.image[:, :, ~pasted[0]])
        kept = 1 - float(pasted[0].float().mean())
        one_hot = torch.nn.functional.one_hot(before.label, 3).float()
        torch.testing.assert_close(after.label, kept * one_hot + (1 - kept) * one_hot.roll(1, 0))
        assert kept >= share - 1e-6  # the border can only clip the box
    assert not pasted.any()  # share 1: nothing


@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("alpha", [0.05, 0.2, 1.0, 8.0])
def test_labels_stay_shares_and_images_in_range(name, alpha):
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        after = mix_images(name, batch(), 3, alpha, generator)
        assert after.label.dtype == torch.float32 and after.label.shape == (4, 3)
        torch.testing.assert_close(after.label.sum(1), torch.ones(4))
        assert after.image.min() >= 0 and after.image.max() <= 1


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_the_proportion_is_drawn_from_beta(alpha):
    generator = torch.Generator().manual_seed(0)
    black_and_white = Batch(torch.tensor([0.0, 1.0]).view(2, 1, 1, 1), torch.tensor([0, 1]))
    shares = torch.stack(
        [mix_images("mixup", black_and_white, 2, alpha, generator).image[1].flatten()[0] for _ in range(3000)]
    )
    beta = torch.distributions.Beta(torch.tensor(alpha), torch.tensor(alpha))
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.04)
    assert float(shares.var()) == pytest.approx(float(beta.variance), rel=0.12)


@pytest.mark.parametrize("name", MIXES)
def test_the_draw_is_the_generators_alone(name):
    before, results = batch(), []
    for other in (1, 2):
        torch.manual_seed(other)
        results.append(mix_images(name, before, 3, 0.5, torch.Generator().manual_seed(7)))
    assert torch.equal(results[0].image, results[1].image) and torch.equal(results[0].label, results[1].label)


def test_soft_labels_can_be_mixed_again():
    once = mixup(batch(), 3, torch.tensor(0.6))
    twice = mixup(once, 3, torch.tensor(0.5))
    torch.testing.assert_close(twice.label, 0.5 * once.label + 0.5 * once.label.roll(1, 0))
