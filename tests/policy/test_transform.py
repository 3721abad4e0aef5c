from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import small
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from teachaugment.augment import create
from teachaugment.augment.functional import affine_warp, warp_points
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.batch import Batch
from teachaugment.errors import UserError
from teachaugment.policy.policy import Policy

SIZE = (60, 80)


def policy(classes=5, channels=3, odds=100.0, **options):
    """One that always acts, and strongly."""
    module = NeuralAugmenter(channels, classes)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.2)
        module.log_odds.fill_(odds)
    return Policy.of(module).adjust(**options)


def picture(mode="RGB", size=SIZE):
    channels = len(mode)
    pixels = np.random.default_rng(0).integers(0, 256, (*size, channels), dtype=np.uint8)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels, mode=mode)


def image(size=SIZE):
    return F.pil_to_tensor(picture(size=size))


# --- kinds of images -------------------------------------------------------------------------------------------------


def test_every_kind_of_image_is_changed_alike():
    smooth = picture(size=(3, 4)).resize(SIZE[::-1], Image.Resampling.BICUBIC)  # noise would show how bytes are read
    module, plain = policy(), F.pil_to_tensor(smooth)
    made = {}
    for name, item in {
        "uint8": plain,
        "float": plain.float() / 255,
        "half": (plain.float() / 255).half(),
        "pil": smooth,
        "tv": tv_tensors.Image(plain),
    }.items():
        torch.manual_seed(1)
        made[name] = module(item)
    assert isinstance(made["pil"], Image.Image) and made["pil"].mode == "RGB"
    assert type(made["tv"]) is tv_tensors.Image and made["uint8"].dtype == torch.uint8
    assert torch.equal(made["uint8"], made["tv"]) and torch.equal(F.pil_to_tensor(made["pil"]), made["uint8"])
    assert made["half"].dtype == torch.half and (made["half"].float() - made["float"]).abs().max() < 2e-3
    assert (made["uint8"].float() / 255 - made["float"]).abs().mean() < 2 / 255
    assert (made["uint8"] != plain).float().mean() > 0.5


def test_a_sample_is_drawn_as_a_batch_of_one():
    module, sample = policy(), torch.rand(3, 32, 32)
    torch.manual_seed(2)
    alone = module(sample, torch.tensor(3))
    torch.manual_seed(2)
    assert torch.equal(alone[0], module(sample[None], torch.tensor([3]))[0].clamp(0, 1))
    assert alone[1] == 3


def test_transparency_moves_with_the_image_and_is_no_color():
    pixels = np.full((*SIZE, 4), 255, dtype=np.uint8)
    module = policy()
    torch.manual_seed(1)
    made = F.pil_to_tensor(module(Image.fromarray(pixels, mode="RGBA")))
    torch.manual_seed(1)
    mask = module(F.pil_to_tensor(picture()), tv_tensors.Mask(torch.zeros(SIZE, dtype=torch.uint8)))[1]
    assert ((made[3] < 128) == (mask == 255)).float().mean() > 0.98  # where nothing was, it is transparent
    assert made[3].max() == 255


def test_grey_images():
    module = policy(channels=1)
    assert module(picture("L")).mode == "L"
    assert module(picture("LA")).mode == "LA"
    assert module(torch.rand(1, 9, 9)).shape == (1, 9, 9)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (picture("L"), r"3 channel.*v2\.RGB"),
        (picture("RGB").convert("P"), r"not P.*v2\.RGB"),
        (picture("RGB").convert("CMYK"), "not CMYK"),
        (torch.rand(3, 8, 8) * 3 - 1, "augment before normalising"),
        (torch.rand(8, 8), "3 channel"),
        (tv_tensors.Video(torch.rand(2, 3, 8, 8)), "videos"),
    ],
)
def test_what_cannot_be_augmented_is_refused(item, said):
    with pytest.raises(UserError, match=said):
        policy().transform()(item)


# --- one draw for all ------------------------------------------------------------------------------------------------


def overlap(a, b):
    return float((a & b).sum() / (a | b).sum())


@pytest.mark.parametrize("seed", range(4))
def test_image_mask_box_and_key_points_move_together(seed):
    box = torch.tensor([25.0, 20.0, 60.0, 42.0])
    mask = small.ellipse(box, SIZE) > 0
    middle = torch.tensor([[42.5, 31.0]])
    sample = {
        "image": tv_tensors.Image(mask.expand(3, -1, -1).float()),
        "mask": tv_tensors.Mask(mask),
        "boxes": tv_tensors.BoundingBoxes(box, format="XYXY", canvas_size=SIZE),
        "points": tv_tensors.KeyPoints(middle, canvas_size=SIZE),
        "name": "an ellipse",
    }
    module = policy()
    module.augmenter.log_odds[:, 0] = -100  # colours stay, so that the image can be compared
    torch.manual_seed(seed)
    made = module(sample)
    assert made["name"] == "an ellipse" and type(made["mask"]) is tv_tensors.Mask and made["mask"].dtype == torch.bool
    assert (made["boxes"][0] - box).abs().max() > 2  # it moved
    assert overlap(made["image"][0] > 0.5, made["mask"]) > 0.97
    y, x = made["mask"].nonzero().T
    around = torch.stack([x.min(), y.min(), x.max() + 1, y.max() + 1]).float()
    assert (made["boxes"][0] - around).abs().max() <= 1.5  # the box is the one around the mask
    if around.min() > 0 and around[2] < SIZE[1] and around[3] < SIZE[0]:  # all of it is in the image
        assert (made["points"][0] - (around[:2] + around[2:]) / 2).abs().max() <= 1.5


def test_a_point_goes_where_its_pixel_goes():
    height, width = 40, 60
    matrix = torch.tensor([[0.9, 0.2, 0.1], [-0.15, 1.1, -0.2]])
    plain = torch.zeros(1, 1, height, width)
    plain[0, 0, 21, 33] = 1
    bright = affine_warp(plain, matrix[None])[0, 0].flatten().argmax()
    x, y = warp_points(torch.tensor([33.5, 21.5]), matrix, (height, width)).tolist()
    assert abs(x - (float(bright % width) + 0.5)) <= 1 and abs(y - (float(bright // width) + 0.5)) <= 1


def test_uncovered_pixels_of_a_mask_are_ignored():
    module = policy()
    torch.manual_seed(0)
    made = module(image(), tv_tensors.Mask(torch.full(SIZE, 7, dtype=torch.int64)))[1]
    assert set(made.unique().tolist()) == {7, 255} and made.dtype == torch.int64
    torch.manual_seed(0)
    other = module.transform(mask_fill=0)(image(), tv_tensors.Mask(torch.full((2, *SIZE), 7, dtype=torch.uint8)))[1]
    assert other.shape == (2, *SIZE) and torch.equal(other[0] == 0, made == 255) and torch.equal(other[0], other[1])
    assert module(image(), tv_tensors.Mask(torch.zeros(0, *SIZE, dtype=torch.bool)))[1].shape == (0, *SIZE)


@pytest.mark.parametrize("format", ["XYXY", "XYWH", "CXCYWH"])
def test_boxes_of_every_format_become_the_same_box(format):
    module = policy()
    box = tv_tensors.BoundingBoxes([[10.0, 12, 50, 44], [60, 5, 79, 30]], format="XYXY", canvas_size=SIZE)
    made = []
    for kind in ("XYXY", format):
        torch.manual_seed(3)
        item = module(image(), F.convert_bounding_box_format(box, new_format=tv_tensors.BoundingBoxFormat[kind]))[1]
        assert item.format.value == kind and item.canvas_size == SIZE
        made.append(F.convert_bounding_box_format(item, new_format=tv_tensors.BoundingBoxFormat.XYXY))
    assert torch.allclose(*made, atol=1e-3)
    assert (made[0] >= 0).all() and (made[0][:, 2] <= SIZE[1]).all() and (made[0][:, 3] <= SIZE[0]).all()


@pytest.mark.parametrize("format", ["XYWHR", "CXCYWHR", "XYXYXYXY"])
def test_rotated_boxes_hold_their_corners(format):
    kind, corner_kind = tv_tensors.BoundingBoxFormat[format], tv_tensors.BoundingBoxFormat.XYXYXYXY
    box = tv_tensors.BoundingBoxes([[40.0, 30, 20, 10, 25]], format="CXCYWHR", canvas_size=SIZE, clamping_mode=None)
    corners = F.convert_bounding_box_format(box, new_format=corner_kind).as_subclass(torch.Tensor).view(4, 2)
    torch.manual_seed(4)
    _, made, points = policy()(
        image(),
        F.convert_bounding_box_format(box, new_format=kind),
        tv_tensors.KeyPoints(corners, canvas_size=SIZE),
    )
    assert made.format is kind
    hull = F.convert_bounding_box_format(made, new_format=corner_kind).as_subclass(torch.Tensor).view(4, 2)
    points, side, down = points.as_subclass(torch.Tensor), hull[1] - hull[0], hull[3] - hull[0]
    assert abs(float(side @ down)) < 1e-2 * float(side.norm() * down.norm())  # a rectangle
    for axis in (side, down):
        place = (points - hull[0]) @ axis / (axis @ axis)
        assert place.min() > -0.01 and place.max() < 1.01  # which holds all corners
        assert math.isclose(float(place.max() - place.min()), 1, abs_tol=0.02)  # and no more than that


def test_boxes_are_clamped_as_torchvision_clamps_them():
    """The same warp through torchvision's own affine transform: smaller by a fifth, and moved."""
    module = policy()
    matrix = torch.tensor([[1.25, 0.0, 0.5], [0.0, 1.25, 0.25]])
    module.augmenter.matrix = lambda drawn, size: matrix[None]
    box = tv_tensors.BoundingBoxes([[0.0, 0, 30, 20], [45, 40, 60, 60]], format="XYXY", canvas_size=(60, 60))
    made = module(image((60, 60)), box)[1]
    expected = F.affine(box, angle=0, translate=[-12, -6], scale=0.8, shear=[0, 0])
    assert torch.allclose(made, expected, atol=1e-3)


def test_whole_numbers_stay_whole_numbers():
    boxes = tv_tensors.BoundingBoxes(torch.tensor([[3, 4, 20, 20]]), format="XYXY", canvas_size=SIZE)
    points = tv_tensors.KeyPoints(torch.tensor([[3, 4]]), canvas_size=SIZE)
    _, made, moved = policy()(image(), boxes, points)
    assert made.dtype == moved.dtype == torch.int64


def test_no_boxes_are_fine():
    boxes = tv_tensors.BoundingBoxes(torch.zeros(0, 4), format="XYWH", canvas_size=SIZE)
    assert policy()(image(), boxes)[1].shape == (0, 4)


@pytest.mark.parametrize("seed", range(3))
def test_boxes_follow_the_stages_of_dda(seed):
    torch.manual_seed(seed)
    module = Policy.of(create("dda"))
    mask = small.ellipse([25.0, 20.0, 60.0, 42.0], SIZE)
    boxes = tv_tensors.BoundingBoxes([[25.0, 20.0, 60.0, 42.0]], format="XYXY", canvas_size=SIZE)
    moved = 0
    for _ in range(20):
        _, made, box = module(image(), tv_tensors.Mask(mask.long()), boxes)
        y, x = (made == 1).nonzero().T
        around = torch.stack([x.min(), y.min(), x.max() + 1, y.max() + 1]).float()
        moved += int((around - boxes[0]).abs().max() >= 1)
        if (made == 255).sum() == 0 or not (made == 255)[1:-1, 1:-1].any():  # cutout may paint over its corners
            assert (box[0] - around).abs().max() <= 2
    assert moved > 3


def test_what_bends_the_image_takes_no_boxes_along():
    module = Policy.of(create("online"))
    assert module(image()).shape == (3, *SIZE)
    with pytest.raises(UserError, match="Mask cannot follow an online augmenter"):
        module(image(), tv_tensors.Mask(torch.zeros(SIZE)))


# --- labels ----------------------------------------------------------------------------------------------------------


def acts_for(*rows, classes=3):
    module = policy(classes, odds=-100)
    module.augmenter.log_odds[list(rows)] = 100
    return module


def changes(transform, *sample):
    plain = torch.rand(3, 16, 16)
    first = transform(plain, *sample)
    return not torch.allclose(first if not sample else first[0], plain, atol=1e-4)


@pytest.mark.parametrize(
    "label",
    [
        lambda k: k,
        lambda k: torch.tensor(k),
        lambda k: np.int64(k),
        lambda k: torch.tensor([k]),
        lambda k: torch.eye(3)[k],
        lambda k: torch.nn.functional.one_hot(torch.tensor(k), 3),
        lambda k: {"labels": torch.tensor(k)},
        lambda k: {"fine_label": k, "id": 77},
    ],
    ids=["int", "tensor", "numpy", "tensor of one", "one-hot", "one-hot of integers", "labels", "key with label"],
)
def test_the_label_in_the_sample_decides(label):
    module = acts_for(1)
    assert changes(module, label(1)) and not changes(module, label(0)) and not changes(module, label(2))


def test_a_dictionary_may_be_the_whole_sample():
    module, plain = acts_for(1), torch.rand(3, 16, 16)
    assert torch.allclose(module({"image": plain, "label": 0})["image"], plain, atol=1e-4)
    assert not torch.allclose(module({"image": plain, "label": 1})["image"], plain, atol=1e-4)


def test_without_a_label_a_class_is_drawn():
    module = acts_for(1)
    several = tv_tensors.BoundingBoxes(torch.zeros(3, 4), format="XYXY", canvas_size=(16, 16))
    for extra in ((), ("a name",), (None,), ({"labels": torch.tensor([0, 0, 1]), "boxes": several},), (0.5,)):
        share = sum(changes(module, *extra) for _ in range(60)) / 60
        assert 0.1 < share < 0.6, extra


def test_a_given_context_comes_first():
    module = acts_for(2).adjust(context=2)
    assert changes(module) and changes(module, 0)


def test_a_getter_finds_labels_elsewhere_or_leaves_them():
    module = acts_for(1)
    assert changes(module.transform(labels_getter=lambda sample: sample[1]["class"]), {"class": 1})
    ignoring = module.transform(labels_getter=None)
    assert 0.1 < sum(changes(ignoring, 1) for _ in range(60)) / 60 < 0.6
    with pytest.raises(UserError, match="labels_getter"):
        module.transform(labels_getter="label")


def test_labels_of_another_data_set_are_refused_or_translated():
    with pytest.raises(UserError, match=r"label 3 .*classes="):
        acts_for(1)(torch.rand(3, 8, 8), 3)
    module = acts_for(1)
    module.classes = ["ant", "bee", "cat"]
    module.adjust(classes=["dog", "cat", "ant", "bee"])
    assert changes(module, 3) and not changes(module, 2)
    assert changes(module, torch.eye(4)[3]) and not changes(module, torch.eye(4)[1])


# --- in company ------------------------------------------------------------------------------------------------------


def test_strength_zero_returns_the_sample_itself():
    sample = (picture(), 3)
    made = policy(strength=0)(*sample)
    assert made[0] is sample[0] and made[1] == 3


def test_inside_compose():
    chain = v2.Compose(
        [
            v2.RandomHorizontalFlip(1.0),
            policy(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    made, label = chain(picture(), 2)
    assert made.shape == (3, *SIZE) and label == 2 and made.min() < -1
    assert chain(picture()).shape == (3, *SIZE)


class Pictures(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.transform(torch.full((3, 8, 8), 100 + i, dtype=torch.uint8), i % 5)


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_workers_draw_anew_and_reproducibly(workers):
    data = Pictures(v2.Compose([policy()]))

    def epoch():
        loader = DataLoader(data, batch_size=4, num_workers=workers, generator=torch.Generator().manual_seed(3))
        torch.manual_seed(9)
        return torch.cat([images for images, _ in loader])

    first = epoch()
    assert torch.equal(first, epoch())
    relative = first.float().mean((2, 3)) / torch.arange(100, 112)[:, None]
    assert len({tuple(row) for row in relative.tolist()}) == 12  # no two samples had the same draw


def test_the_transform_can_be_copied_and_leaves_no_gradient():
    module = copy.deepcopy(policy())
    assert not module(torch.rand(3, 8, 8, requires_grad=True)).requires_grad
    assert "mask_fill=255" in repr(module.transform())
    assert torch.is_tensor(module.augment(Batch(torch.rand(2, 3, 8, 8))).image)
