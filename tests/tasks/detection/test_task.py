"""Detection, step by step: what is lost, what is found, what is measured and what is shown."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import small
import torch

from teachaugment import TeachAugment, models
from teachaugment.batch import NO_BOX, Batch
from teachaugment.models.boxes import FOUND
from teachaugment.models.detection import SmallDetector
from teachaugment.tasks.detection.meter import DetectionMeter
from teachaugment.tasks.detection.recall import recall_of_boxes
from teachaugment.tasks.detection.task import Detection

CPU = torch.device("cpu")


def batch(n: int = 4, size: int = 64) -> Batch:
    """Grey images, each with a bright square, its box, and a row that is no box."""
    g = torch.Generator().manual_seed(0)
    image, boxes = 0.3 + 0.1 * torch.rand(n, 3, size, size, generator=g), torch.full((n, 2, 5), float(NO_BOX))
    for i in range(n):
        left, top = torch.randint(4, size - 28, (2,), generator=g).tolist()
        image[i, i % 3, top : top + 20, left : left + 20] = 0.9
        boxes[i, 0] = torch.tensor([left, top, left + 20, top + 20, i % 3])
    return Batch(image, torch.zeros(n, dtype=torch.int64), index=torch.arange(n), boxes=boxes)


def task() -> Detection:
    made = Detection(small.dataset(["red", "green", "blue"]))
    made.size = (64, 64)
    return made


def as_found(boxes: torch.Tensor, score: float = 0.9) -> torch.Tensor:
    """Detections that are the true boxes."""
    kind = boxes[..., 4:]
    made = torch.cat([boxes[..., :4], torch.full_like(kind, score), kind], 2)
    filled = torch.zeros(len(boxes), FOUND, 6)
    filled[..., 5] = NO_BOX
    filled[:, : boxes.shape[1]] = torch.where(kind == NO_BOX, filled[:, : boxes.shape[1]], made)
    return filled


def test_a_small_detector_learns_to_find_squares():
    torch.manual_seed(0)
    own, network, seen = task(), SmallDetector(3, width=8), batch(8)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for _ in range(40):
        loss, _, _ = small.one_step(own, network, seen)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()
    meter = own.meter(CPU)
    with torch.no_grad():
        output = own.predict(network, own.normalize(seen.image))
    meter.update(output, seen)
    result = meter.compute()
    assert result["map_50"] > 0.8 and result["recall"] > 0.8 and result["boxes"] == result["images"] == 8
    assert "mAP on 8 test images" in own.describe(result)
    right, there = own.count_right(output, seen)
    assert int(there) == 8 and int(right) / 8 == result["recall"]


def test_images_of_other_sizes_are_fitted_and_boxes_come_back_in_their_pixels():
    own, asked = task(), []

    def finds_all(image):
        asked.append(image.shape)
        return as_found(torch.tensor([[[0.0, 0.0, 64.0, 32.0, 1.0]]]).expand(len(image), 1, 5))

    found = own.predict(finds_all, torch.zeros(2, 3, 96, 192))  # twice as wide as high
    assert asked == [torch.Size([2, 3, 64, 64])]
    assert found[0, 0].tolist() == pytest.approx([0, 0, 192, 96, 0.9, 1])
    assert own.predictions(found)[1].more()["boxes"] == [{"class": "green", "score": 0.9, "box": [0, 0, 192, 96]}]


def test_what_is_padded_is_black_for_the_network():
    own = task()
    seen = []
    own.predict(lambda image: seen.append(image) or as_found(torch.zeros(1, 1, 5)), torch.ones(1, 3, 32, 64))
    assert torch.equal(seen[0][0, :, 60, 5], own.normalize(torch.zeros(1, 3, 1, 1)).flatten())


def test_average_precision_of_what_is_right_and_of_what_is_not():
    truth = batch(6)
    right, wrong = as_found(truth.boxes), as_found(truth.boxes)
    wrong[:3, 0, :4] += 40  # half of them elsewhere
    results = []
    for output in (right, wrong):
        meter = DetectionMeter(4, CPU)
        for part in range(3):
            rows = slice(2 * part, 2 * part + 2)
            meter.update(output[rows], truth[rows])
        meter.gather()
        results.append(meter.compute())
    assert results[0]["map"] == pytest.approx(1) and results[0]["recall"] == 1
    assert results[0]["class_map"][:3] == pytest.approx([1, 1, 1]) and results[0]["class_map"][3] is None
    assert 0.2 < results[1]["map"] < 0.6 and results[1]["recall"] == 0.5


def test_a_meter_of_a_training_has_its_loss_alone():
    meter = DetectionMeter(3, CPU)
    meter.update(None, batch(4), torch.tensor(2.0))
    meter.update(None, batch(2), torch.tensor(5.0))
    assert meter.compute() == {"loss": pytest.approx(3.0), "images": 6}


def test_recall_counts_true_boxes_class_by_class():
    truth = batch(5)  # of the classes 0, 1, 2, 0, 1
    found = as_found(truth.boxes)
    found[0, 0, 4] = 0.1  # not sure
    found[1, 0, 5] = 2  # another class
    found[2, 0, :4] += 30  # elsewhere
    right, seen = recall_of_boxes(found, truth.boxes, 3)
    assert (right.tolist(), seen.tolist()) == ([1, 1, 0], [2, 2, 1])


@pytest.mark.parametrize("name", ["fcos-small", "fasterrcnn-mobilenet-v3"])
def test_the_augmenters_update_sees_the_detectors_losses_and_changes_nothing_else(name):
    torch.manual_seed(1)
    own, network = task(), models.create(name, 3)
    config = SimpleNamespace(teach=SimpleNamespace(objective="teachaugment", non_saturating=True))
    teach = TeachAugment(network, normalize=own.normalize, n_inner=1, **own.teaching(config), augmenter="neural")
    state = {key: value.clone() for key, value in network.state_dict().items()}
    before = [p.clone() for p in teach.augmenter.parameters()]
    modes = [module.training for module in (*network.modules(), *teach.teacher.model.modules())]
    random = torch.get_rng_state()
    measured = teach.step(batch(2))
    assert all(value.isfinite() for value in measured.values())
    assert any(not torch.equal(a, b) for a, b in zip(before, teach.augmenter.parameters(), strict=True))
    assert all(torch.equal(value, state[key]) for key, value in network.state_dict().items())
    assert [module.training for module in (*network.modules(), *teach.teacher.model.modules())] == modes
    assert torch.equal(random, torch.get_rng_state())  # what is drawn inside a detector is drawn apart


def test_pictures_have_the_boxes_in_the_colours_of_their_classes():
    own, seen = task(), batch(3)
    painted = own.paint(seen)
    for i in range(3):
        left, top = seen.boxes[i, 0, :2].long().tolist()
        assert (painted[i, :, top, left] * 255).round().long().tolist() == list(own.colors[i])
    assert own.captions(seen) == ["red", "green", "blue"]
    assert own.prediction_picture(seen, [as_found(seen.boxes)[:2], as_found(seen.boxes)[2:]]).width > 200


@pytest.mark.parametrize(("name", "asks"), [("fcos-small", False), ("ssdlite-mobilenet-v3", True)])
def test_a_detector_that_says_in_its_update_what_it_finds_is_not_asked(name, asks):
    torch.manual_seed(1)
    own, network, seen = task(), models.create(name, 3), batch(4)
    config = SimpleNamespace(teach=SimpleNamespace(objective="teachaugment", non_saturating=True))
    teach = TeachAugment(network, normalize=own.normalize, total_steps=50, **own.teaching(config))
    teach.governor.strength = 0.5
    calls = []
    network.register_forward_hook(lambda *_: calls.append(1))
    made = teach.augment(seen)
    output = own.forward(network, made)
    teach.observe(output, made)
    teach.step(seen)
    assert len(calls) == (3 if asks else 1)  # plain and augmented
    counts = teach.governor.counts
    assert int(counts[:, 1].sum()) == (8 if asks else int((made.boxes[..., 4] != NO_BOX).sum()))
