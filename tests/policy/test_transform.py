from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from strong_policy import SIZE, picture, policy
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from teachaugment.batch import Batch
from teachaugment.errors import UserError

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
