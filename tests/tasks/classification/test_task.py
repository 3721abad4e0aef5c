from __future__ import annotations

import math

import pytest
import small
import torch
from torch import nn

from teachaugment.batch import Batch
from teachaugment.tasks.classification.meter import ClassificationMeter
from teachaugment.tasks.classification.task import Classification

CPU = torch.device("cpu")


def task(**options: object) -> Classification:
    return Classification(small.dataset(["a", "b"]), **options)  # type: ignore[arg-type]


def batch(n: int = 4) -> Batch:
    image = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return Batch(image, torch.arange(n) % 2, torch.zeros(n, 8, 8, dtype=torch.int64))


def test_normalising_removes_mean_and_standard_deviation():
    image = torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1).expand(1, 3, 8, 8)
    assert task().normalize(image).abs().max() == 0
    assert torch.allclose(task().normalize(image + 0.1)[0, :, 0, 0], torch.tensor([0.5, 0.5, 1.0]))


def test_everything_off_only_normalises():
    plain, g = task(flip=False, crop=0, cutout=0), torch.Generator()
    x = batch()
    assert torch.equal(plain.before(x, g).image, x.image)
    assert torch.equal(plain.after(x, g).image, plain.normalize(x.image))


def test_the_strategy_sees_no_padding():
    """A strategy that turns black into white would show padding that passed through it."""
    white = Batch(torch.ones(16, 3, 8, 8), torch.zeros(16, dtype=torch.int64))
    saw = []

    def strategy(x: Batch) -> Batch:
        saw.append(x.image.min().item())
        return x.replace(image=1 - x.image)

    made = task(crop=4)
    g = torch.Generator().manual_seed(0)
    _, _, seen = small.one_step(made, nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), white, strategy, g)
    assert saw == [1.0]
    black = made.normalize(torch.zeros(1, 3, 8, 8))
    assert torch.allclose(seen.image, black.expand_as(seen.image))


def test_cutout_leaves_the_mean_colour():
    made = task(flip=False, crop=0, cutout=4)
    x = Batch(torch.ones(32, 3, 8, 8))
    seen = made.after(x, torch.Generator().manual_seed(0)).image
    cut = seen == 0
    assert cut.any(dim=(1, 2, 3)).all() and cut.sum() <= 32 * 3 * 16


def test_the_same_generator_state_gives_the_same_batch():
    made = task(cutout=3)
    results = [
        made.after(made.before(batch(), g), g).image for g in (torch.Generator().manual_seed(s) for s in (1, 1, 2))
    ]
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


def test_masks_play_no_part():
    assert task().before(batch(), torch.Generator()).mask is None


def test_metrics_agree_with_a_count_by_hand():
    meter = ClassificationMeter(3, CPU)
    output = torch.tensor([[5.0, 0, 0], [5, 0, 0], [0, 5, 0]])
    meter.update(output, Batch(torch.zeros(3, 3, 8, 8), torch.tensor([0, 1, 1])))
    meter.update(output[:1], Batch(torch.zeros(1, 3, 8, 8), torch.tensor([0])))
    result = meter.compute()
    wrong, right = math.log(math.exp(5) + 2), math.log(math.exp(5) + 2) - 5
    assert result["loss"] == pytest.approx((3 * right + wrong) / 4, abs=1e-6)
    assert result["accuracy"] == 0.75 and result["images"] == 4
    assert result["confusion"] == [[2, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert result["class_accuracy"] == [1.0, 0.5, None]


def test_the_label_is_among_the_five_likeliest():
    meter = ClassificationMeter(7, CPU)
    output = torch.arange(7.0).repeat(7, 1)  # class 6 is likeliest, then 5, 4, 3, 2
    meter.update(output, Batch(torch.zeros(7, 3, 8, 8), torch.arange(7)))
    assert meter.compute()["top5"] == pytest.approx(5 / 7)


def test_with_fewer_than_five_classes_all_are_among_the_five_likeliest():
    meter = ClassificationMeter(2, CPU)
    meter.update(torch.tensor([[1.0, 0], [1, 0]]), Batch(torch.zeros(2, 3, 8, 8), torch.tensor([0, 1])))
    assert meter.compute()["top5"] == 1.0


def test_the_calibration_error_agrees_with_its_definition():
    generator = torch.Generator().manual_seed(0)
    output, label = 2 * torch.randn(500, 4, generator=generator), torch.randint(4, (500,), generator=generator)
    meter = ClassificationMeter(4, CPU)
    for part in range(0, 500, 100):
        batch = Batch(torch.zeros(100, 3, 8, 8), label[part : part + 100])
        meter.update(output[part : part + 100], batch)
    confidence, choice = output.softmax(1).max(1)
    error = 0.0
    for i in range(15):
        inside = (confidence > i / 15) & (confidence <= (i + 1) / 15)
        if inside.any():
            right = (choice == label)[inside].double().mean()
            error += inside.double().mean().item() * abs(right - confidence[inside].double().mean()).item()
    assert meter.compute()["calibration_error"] == pytest.approx(error, abs=1e-6)


def test_a_confident_and_right_model_is_calibrated():
    meter = ClassificationMeter(3, CPU)
    meter.update(100 * torch.eye(3), Batch(torch.zeros(3, 3, 8, 8), torch.arange(3)))
    assert meter.compute()["calibration_error"] == 0


def test_a_random_part_of_each_image_fills_it_if_an_area_is_given():
    made, image = task(flip=False, crop=0, area=0.2), batch().image
    seen = made.before(batch(), torch.Generator().manual_seed(0)).image
    assert seen.shape == image.shape and not torch.equal(seen, image) and seen.min() >= 0 and seen.max() <= 1
    assert torch.equal(task(flip=False, crop=0).before(batch(), torch.Generator()).image, image)


def test_colours_are_distorted_before_the_strategy_and_stay_in_range():
    made = task(flip=False, crop=0, jitter=0.4, lighting=0.1)
    seen = made.before(batch(), torch.Generator().manual_seed(0)).image
    assert not torch.equal(seen, batch().image) and seen.min() >= 0 and seen.max() <= 1
