from __future__ import annotations

from typing import Any

import pytest
import small
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics.functional.classification import multiclass_jaccard_index

from teachaugment.batch import IGNORE, Batch
from teachaugment.config.sections import Config
from teachaugment.tasks.segmentation.meter import SegmentationMeter
from teachaugment.tasks.segmentation.sliding import sliding
from teachaugment.tasks.segmentation.task import AUXILIARY, Segmentation

CPU = torch.device("cpu")


def task(**options: Any) -> Segmentation:
    return Segmentation(small.dataset(["a", "b", "c"]), **options)


def batch(n: int = 4, size: int = 8) -> Batch:
    g = torch.Generator().manual_seed(0)
    mask = torch.randint(3, (n, size, size), generator=g)
    mask[:, :2] = IGNORE
    return Batch(torch.rand(n, 3, size, size, generator=g), torch.zeros(n, dtype=torch.int64), mask)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main, self.auxiliary = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

    def forward(self, image: Tensor) -> Any:
        return (self.main(image), self.auxiliary(image)) if self.training else self.main(image)


def test_image_and_mask_are_mirrored_together():
    x = batch(64)
    x = x.replace(image=x.mask[:, None].expand(-1, 3, -1, -1) / 255)
    seen = task().before(x, torch.Generator().manual_seed(0))
    assert torch.equal((seen.image[:, 0] * 255).round().long(), seen.mask)
    turned = (seen.mask != x.mask).flatten(1).any(1)
    assert 10 < turned.sum() < 54


def test_the_augmenter_gets_no_context():
    made = task()
    assert "num_classes" not in made.teaching(Config()) and made.before(batch(), torch.Generator()).label is None


def test_shifted_masks_are_ignored_where_the_image_was_padded():
    x = Batch(torch.ones(32, 3, 8, 8), None, torch.zeros(32, 8, 8, dtype=torch.int64))
    made = task(flip=False, crop=3)
    _, _, seen = small.one_step(made, nn.Conv2d(3, 3, 1), x)
    black = made.normalize(torch.zeros(1, 3, 1, 1))[0, 0]
    assert torch.equal(seen.mask == IGNORE, seen.image[:, 0] == black) and (seen.mask == IGNORE).any()


def test_ignored_pixels_have_no_say_in_the_loss():
    x, output = batch(), torch.randn(4, 3, 8, 8)
    changed = output.clone()
    changed[:, :, :2] = 100 * torch.randn(4, 3, 2, 8)
    by_hand = F.cross_entropy(output[:, :, 2:], x.mask[:, 2:])
    assert task().loss(output, x).item() == pytest.approx(by_hand.item(), rel=1e-6)
    assert torch.equal(task().loss(output, x), task().loss(changed, x))


def test_a_batch_without_any_known_pixel_has_no_loss():
    x = batch().replace(mask=torch.full((4, 8, 8), IGNORE))
    output = torch.randn(4, 3, 8, 8, requires_grad=True)
    loss = task().loss(output, x)
    loss.backward()
    assert loss == 0 and output.grad.abs().max() == 0


def test_an_auxiliary_head_counts_with_its_weight():
    x, network = batch(), TwoHeads()
    loss, output, _ = small.one_step(task(flip=False), network, x)
    main, auxiliary = (F.cross_entropy(head, x.mask, ignore_index=IGNORE) for head in output)
    assert loss.item() == pytest.approx((main + AUXILIARY * auxiliary).item(), rel=1e-6)


def test_the_metrics_agree_with_torchmetrics():
    meter, pairs = SegmentationMeter(5, CPU), []
    for _ in range(3):
        output, mask = torch.randn(2, 5, 9, 7), torch.randint(4, (2, 9, 7))  # class 4 is predicted but never there
        mask[:, :3] = IGNORE
        meter.update(output, Batch(torch.zeros(2, 3, 9, 7), None, mask))
        pairs.append((output.argmax(1), mask))
    choice, mask = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    result = meter.compute()

    def theirs(average: Any) -> Tensor:
        return multiclass_jaccard_index(choice, mask, 5, average=average, ignore_index=IGNORE)

    assert result["miou"] == pytest.approx(theirs("macro").item(), abs=1e-6)
    assert result["class_iou"] == pytest.approx(theirs("none").tolist(), abs=1e-6)
    known = mask != IGNORE
    assert result["pixel_accuracy"] == pytest.approx((choice == mask)[known].double().mean().item())
    assert result["images"] == 6 and sum(map(sum, result["confusion"])) == known.sum()


def test_a_class_that_never_occurs_does_not_count():
    meter = SegmentationMeter(3, CPU)
    output = torch.zeros(1, 3, 2, 2)
    output[:, 0] = 1
    meter.update(output, Batch(torch.zeros(1, 3, 2, 2), None, torch.tensor([[[0, 0], [0, 1]]])))
    result = meter.compute()
    assert result["class_iou"] == [0.75, 0.0, None] and result["miou"] == 0.375


def test_an_empty_meter_says_zero():
    assert SegmentationMeter(3, CPU).compute()["miou"] == 0


@pytest.mark.parametrize(("height", "width", "window"), [(20, 31, 8), (5, 31, 8), (8, 8, 8), (4, 4, 8)])
def test_windows_cover_the_image_and_agree_with_it_whole_where_the_network_is_local(height, width, window):
    network, image, sizes = nn.Conv2d(3, 4, 1), torch.rand(2, 3, height, width), []

    def watched(x: Tensor) -> Tensor:
        sizes.append(x.shape[-2:])
        return network(x)

    with torch.no_grad():
        found = sliding(watched, image, window)
        assert torch.allclose(found, network(image).log_softmax(1), atol=1e-5)
    assert set(sizes) == {(min(height, window), min(width, window))}


def test_evaluation_slides_only_if_asked_to():
    image, network = torch.rand(1, 3, 12, 12), TwoHeads().eval()
    with torch.no_grad():
        assert torch.equal(task().predict(network, image), network(image))
        assert torch.allclose(task(window=6).predict(network, image), network(image).log_softmax(1), atol=1e-5)
