"""Detectors: one form for all, losses in any mode, and the choice among overlapping boxes."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from torchvision.ops import batched_nms, generalized_box_iou_loss

from teachaugment import models
from teachaugment.batch import NO_BOX
from teachaugment.errors import UserError
from teachaugment.models import detection
from teachaugment.models.boxes import FOUND, LEAST_SCORE, OVERLAP, best_of_overlapping, generalized_iou
from teachaugment.models.detection import SmallDetector, answering, cell_losses
from teachaugment.models.parts import heads


def some_boxes(n: int, generator: torch.Generator) -> torch.Tensor:
    corner, sides = 80 * torch.rand(n, 2, generator=generator), 10 + 30 * torch.rand(n, 2, generator=generator)
    return torch.cat([corner, corner + sides], 1)


def true_boxes(n: int) -> torch.Tensor:
    boxes = torch.full((n, 2, 5), float(NO_BOX))
    boxes[:, 0] = torch.tensor([10.0, 12.0, 50.0, 40.0, 1.0])
    return boxes


def test_the_choice_among_overlapping_boxes_is_the_greedy_one():
    g = torch.Generator().manual_seed(0)
    for _ in range(5):
        boxes, score, kind = some_boxes(120, g), torch.rand(120, generator=g), torch.randint(3, (120,), generator=g)
        order = score.argsort(descending=True)
        found = torch.cat([boxes, score[:, None], kind[:, None].float()], 1)[order]
        expected = batched_nms(found[:, :4], found[:, 4], found[:, 5].long(), OVERLAP)
        expected = expected[found[expected, 4] >= LEAST_SCORE][:FOUND]
        made = best_of_overlapping(found[None])[0]
        assert torch.equal(made[made[:, 5] != NO_BOX], found[expected])


def test_generalised_iou_is_torchvisions():
    g = torch.Generator().manual_seed(1)
    a, b = some_boxes(50, g), some_boxes(50, g)
    assert torch.allclose(1 - generalized_iou(a, b), generalized_box_iou_loss(a, b), atol=1e-5)


def test_every_box_has_cells_that_answer_for_it_and_no_row_without_a_box_has_any():
    boxes = torch.tensor([[[3.0, 3.0, 5.0, 5.0, 0.0], [16.0, 16.0, 60.0, 60.0, 1.0], [NO_BOX] * 5]])
    answers, which = answering(boxes, torch.zeros(1, 1, 8, 8))
    assert {0, 1} == set(which[answers].tolist())  # the first is smaller than a cell
    nothing, _ = answering(boxes[:, 2:], torch.zeros(1, 1, 8, 8))
    assert not nothing.any()


def test_losses_are_small_where_cells_are_right_and_finite_without_boxes():
    boxes = true_boxes(1)
    answers, _ = answering(boxes, torch.zeros(1, 1, 8, 8))
    logits = torch.full((1, 3, 64), -8.0)
    logits[:, 1][answers] = 8.0
    middle = detection.centres(torch.zeros(8, 8))
    box = boxes[0, 0, :4]
    sides = torch.cat([middle - box[:2], box[2:] - middle], 1).clamp_min(1) / detection.STRIDE
    right = cell_losses(logits.view(1, 3, 8, 8), sides.log().mT.reshape(1, 4, 8, 8), boxes)
    wrong = cell_losses(-logits.view(1, 3, 8, 8), torch.zeros(1, 4, 8, 8), boxes)
    assert float(right.minimised) < 0.01 < 1 < float(wrong.minimised)
    assert float(right.maximised) < float(wrong.maximised)
    none = cell_losses(logits.view(1, 3, 8, 8), torch.zeros(1, 4, 8, 8), boxes[:, 1:])
    assert none.minimised.isfinite() and none.maximised.isfinite()


def test_in_its_own_update_it_says_which_of_the_true_boxes_it_finds():
    """One that is sure of the class and covers it, and none that is unsure, of another class or elsewhere."""
    boxes = true_boxes(4)
    answers, _ = answering(boxes, torch.zeros(1, 1, 8, 8))
    logits, sides = torch.full((4, 3, 64), -8.0), torch.zeros(4, 4, 8, 8)
    for image, (kind, logit) in enumerate([(1, 8.0), (1, -2.0), (2, 8.0), (1, 8.0)]):
        logits[image, kind][answers[image]] = logit
    middle, box = detection.centres(torch.zeros(8, 8)), boxes[0, 0, :4]
    right = torch.cat([middle - box[:2], box[2:] - middle], 1).clamp_min(1) / detection.STRIDE
    sides[:3] = right.log().mT.reshape(4, 8, 8)
    losses = cell_losses(logits.view(4, 3, 8, 8), sides, boxes)
    assert losses.found.tolist() == [[True, False], [False, False], [False, False], [False, False]]


def test_what_is_maximised_does_not_saturate():
    logits = torch.full((1, 3, 8, 8), 6.0, requires_grad=True)
    losses = cell_losses(logits, torch.zeros(1, 4, 8, 8), true_boxes(1))
    answers = answering(true_boxes(1), logits)[0].view(8, 8)
    both = (losses.minimised, losses.maximised)
    gradients = [torch.autograd.grad(loss, logits, retain_graph=True)[0][0, 1][answers].abs().max() for loss in both]
    assert float(gradients[0]) < 1e-4 < 1e-2 < float(gradients[1])


@pytest.mark.parametrize("size", [(64, 64), (48, 80), (33, 47)])
def test_the_small_detector_takes_any_size(size):
    network = SmallDetector(4).eval()
    found = network(torch.rand(2, 3, *size))
    assert found.shape == (2, FOUND, 6)
    assert (found[..., :4] >= 0).all() and (found[..., 2] <= size[1]).all() and (found[..., 3] <= size[0]).all()
    assert sum(p.numel() for p in network.parameters()) < 310_000


@pytest.mark.parametrize(
    "name", ["ssdlite-mobilenet-v3", "fasterrcnn-mobilenet-v3", "retinanet-mobilenet-v3", "fcos-mobilenet-v3"]
)
def test_torchvisions_detectors_give_losses_in_any_mode_and_change_nothing(name):
    torch.manual_seed(0)
    network, image = models.create(name, 3), torch.rand(2, 3, 64, 64)
    losses = network(image, true_boxes(2))
    losses.minimised.backward()
    assert losses.minimised is losses.maximised and losses.minimised.isfinite()
    network.eval()
    state = {key: value.clone() for key, value in network.state_dict().items()}
    torch.manual_seed(7)
    first = network(image, true_boxes(2)).minimised
    torch.manual_seed(7)
    assert torch.equal(first, network(image, true_boxes(2)).minimised)
    assert not any(module.training for module in network.modules())
    assert all(torch.equal(value, state[key]) for key, value in network.state_dict().items())
    with torch.no_grad():
        found = network(image)
    assert found.shape == (2, FOUND, 6) and set(found[..., 5].unique().tolist()) <= {NO_BOX, 0, 1, 2}
    assert all(network.get_submodule(part) for part in heads(network))


def test_the_weights_of_a_detector_for_other_classes_are_taken_but_for_its_head(tmp_path):
    torch.manual_seed(0)
    other, file = SmallDetector(7), tmp_path / "other.safetensors"
    save_file(other.state_dict(), file)
    network = SmallDetector(3)
    rare = network.classes[1].bias.clone()
    models.load_weights(network, str(file), "fcos-small")
    assert torch.equal(network.stem[0][0].weight, other.stem[0][0].weight)
    assert torch.equal(network.sides[1].weight, other.sides[1].weight)
    assert torch.equal(network.classes[1].bias, rare) and rare.max() < -4
    whole = models.create("ssdlite-mobilenet-v3", 90)
    torch.save(whole.network.state_dict(), tmp_path / "coco.pth")  # as torchvision has them
    taken = models.create("ssdlite-mobilenet-v3", 3)
    models.load_weights(taken, str(tmp_path / "coco.pth"), "ssdlite-mobilenet-v3")
    found, given = taken.network.backbone.state_dict(), whole.network.backbone.state_dict()
    assert all(torch.equal(found[key], given[key]) for key in given)


def test_a_detector_says_what_it_cannot_take():
    with pytest.raises(UserError, match="fcos-small takes any number"):
        models.create("fcos-resnet-50", 3, channels=1)
    with pytest.raises(UserError, match="is for detection, not for classification"):
        models.check("fcos-small", "classification")
    assert models.create("fcos-small", 2, channels=1)(torch.rand(2, 1, 32, 32), true_boxes(2)).minimised > 0
