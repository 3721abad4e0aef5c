import pytest
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from teachaugment.batch import IGNORE, Batch
from teachaugment.errors import UserError
from teachaugment.strategies import STRATEGIES
from teachaugment.strategies.published import GEOMETRIC, PerImage, published, with_mask

PUBLISHED = [name for name, entry in STRATEGIES.items() if entry.where == "published:from_torchvision"]

MASKED = [name for name in PUBLISHED if name != "augmix"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_images_change_one_by_one_and_stay_in_range(name):
    batch = Batch(torch.rand(24, 3, 16, 16), torch.arange(24))
    augmented = PerImage(published(name))(batch)
    assert augmented.image.shape == batch.image.shape and augmented.image.dtype == batch.image.dtype
    assert augmented.image.min() >= 0 and augmented.image.max() <= 1
    assert ((augmented.image - batch.image).abs().amax((1, 2, 3)) > 0.02).sum() > 5
    assert torch.equal(augmented.label, batch.label)


def test_the_draws_follow_the_global_seed():
    batch = Batch(torch.rand(8, 3, 16, 16))
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(PerImage(published("trivialaugment"))(batch).image)
    assert torch.equal(*results)


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_changes_nothing_in_its_image(name):
    batch = Batch(torch.rand(16, 3, 12, 12))
    results = []
    for mask in (None, torch.zeros(16, 12, 12, dtype=torch.long)):
        torch.manual_seed(5)
        results.append(PerImage(published(name))(batch.replace(mask=mask)).image)
    assert torch.equal(*results)


@pytest.mark.parametrize("name", MASKED)
def test_the_mask_goes_exactly_where_its_image_goes(name):
    """Only geometric operations are left; an image of class numbers must stay equal to its mask where that is known."""
    strategy = PerImage(published(name))
    strategy.transform._AUGMENTATION_SPACE = {
        key: value for key, value in strategy.transform._AUGMENTATION_SPACE.items() if key in GEOMETRIC
    }
    if name.startswith("autoaugment"):
        strategy.transform._policies = [((kind, 1.0, 7), ("Rotate", 0.5, 9)) for kind in sorted(GEOMETRIC)]
    mask = torch.randint(1, 200, (40, 17, 14))
    image = (mask / 255)[:, None].expand(-1, 3, -1, -1)
    made = strategy(Batch(image, mask=mask))
    assert made.mask is not None and made.mask.dtype == torch.int64 and made.mask.shape == mask.shape
    pixels = (made.image * 255).round().long()
    outside = made.mask == IGNORE
    assert torch.equal(pixels[:, 0].masked_fill(outside, 0), made.mask.masked_fill(outside, 0))
    assert (pixels[:, 0][outside] == 0).all() and outside.any() and not outside.all()
    assert (made.mask != mask).flatten(1).any(1).sum() > 15


@pytest.mark.parametrize("name", MASKED)
def test_colour_leaves_the_mask_alone(name):
    strategy = PerImage(published(name))
    space = strategy.transform._AUGMENTATION_SPACE
    strategy.transform._AUGMENTATION_SPACE = {key: value for key, value in space.items() if key not in GEOMETRIC}
    if name.startswith("autoaugment"):
        strategy.transform._policies = [(("Invert", 1.0, None), ("Color", 1.0, 9))]
    mask = torch.randint(0, 9, (24, 10, 10))
    made = strategy(Batch(torch.rand(24, 3, 10, 10), mask=mask))
    assert torch.equal(made.mask, mask)


def test_every_operation_of_torchvision_is_known_as_geometric_or_not():
    """A new geometric operation would leave its masks behind without a word."""
    colour = {
        *("Identity", "Brightness", "Color", "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast"),
        *("Equalize", "Invert"),
    }
    for strategy in (v2.TrivialAugmentWide, v2.RandAugment, v2.AutoAugment):
        assert strategy._AUGMENTATION_SPACE.keys() <= colour | GEOMETRIC


def test_a_known_shift_of_image_and_mask():
    class Shift(with_mask(v2.TrivialAugmentWide)):
        def forward(self, image):
            return self._apply_image_or_video_transform(image, "TranslateX", 2.0, self.interpolation, self._fill)

    mask = torch.arange(9).view(1, 3, 3)
    made = PerImage(Shift())(Batch(torch.ones(1, 3, 3, 3), mask=mask))
    assert made.mask.tolist() == [[[IGNORE, IGNORE, 0], [IGNORE, IGNORE, 3], [IGNORE, IGNORE, 6]]]
    assert made.image[0, 0].tolist() == [[0, 0, 1]] * 3


def test_number_and_strength_of_randaugments_operations():
    image = torch.randint(0, 256, (8, 3, 16, 16), dtype=torch.uint8)
    none = published("randaugment", num_ops=0)
    assert all(torch.equal(none(one), one) for one in image)
    drawn = published("randaugment", num_ops=1, magnitude=5)
    assert (drawn.num_ops, drawn.magnitude) == (1, 5)


def test_the_two_policies_of_autoaugment_are_torchvisions():
    for name, policy in (("cifar10", v2.AutoAugmentPolicy.CIFAR10), ("imagenet", v2.AutoAugmentPolicy.IMAGENET)):
        image = torch.randint(0, 256, (3, 16, 16), dtype=torch.uint8)
        for seed in range(5):
            torch.manual_seed(seed)
            ours = published(f"autoaugment-{name}")(image)
            torch.manual_seed(seed)
            assert torch.equal(ours, v2.AutoAugment(policy)(image))


def test_augmix_refuses_masks_in_one_line():
    batch = Batch(torch.rand(2, 3, 8, 8), mask=torch.zeros(2, 8, 8, dtype=torch.long))
    with pytest.raises(UserError, match="no mask"):
        PerImage(published("augmix"))(batch)


def test_another_torchvision_is_refused_rather_than_leaving_masks_behind():
    with pytest.raises(UserError, match="not built as expected"):
        with_mask(v2.RandomRotation)


def test_rotation_is_that_of_torchvision():
    mask = torch.randint(0, 9, (1, 11, 11))
    transform = with_mask(v2.RandAugment)()
    transform.mask = mask
    transform._apply_image_or_video_transform(mask.to(torch.uint8), "Rotate", 30.0, "nearest", {"others": None})
    assert torch.equal(transform.mask, F.rotate(mask, 30.0, fill=[255.0]))
