"""Pictures of bytes on a CPU go through Pillow: the same draw, nearly the same pixels."""

from __future__ import annotations

import copy
import pickle
import types

import numpy as np
import pytest
import small
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.augment.one_operation import COLORS as COLORS_DRAWN
from teachaugment.augment.one_operation import COUNT, FIRST_COLOR, FIRST_MOVE, Draw, OneOperation
from teachaugment.batch import IGNORE, Batch
from teachaugment.policy import pillow
from teachaugment.policy.one_image import draw_one
from teachaugment.policy.policy import Policy
from teachaugment.replay import Replay

SIZE = (120, 160)


def augmenter(classes=5, channels=3, seed=0, **ranges):
    torch.manual_seed(seed)
    made = NeuralAugmenter(channels, classes, **ranges)
    with torch.no_grad():
        for network in (made.colors.rgb, made.colors.noise, made.geometry.noise):
            torch.nn.init.normal_(network.last.weight, 0, 0.1)
            torch.nn.init.normal_(network.last.bias, 0, 0.3)
    return made


def with_snapshots():
    made = augmenter()
    replay = Replay(made)
    replay.push()
    with torch.no_grad():
        made.log_odds.add_(0.3)
        made.geometry.noise.last.bias.add_(0.5)
    replay.refresh()
    return Policy.of(made, replay)


POLICIES = {
    "classes": lambda: Policy.of(augmenter()),
    "classes at the input": lambda: Policy.of(augmenter(context="input")),
    "classes in the hidden layer": lambda: Policy.of(augmenter(context="hidden")),
    "normalised everywhere": lambda: Policy.of(augmenter(normalizer="all")),
    "no normaliser": lambda: Policy.of(augmenter(normalizer="none")),
    "no classes": lambda: Policy.of(augmenter(classes=None)),
    "weaker": lambda: Policy.of(augmenter()).adjust(strength=0.5),
    "one class": lambda: Policy.of(augmenter()).adjust(context=2),
    "other names": lambda: Policy.of(augmenter(), classes=list("abcde")).adjust(classes=list("xbz")),
    "snapshots": with_snapshots,
}


def photograph(channels=3, size=SIZE):
    """Smooth shapes of many colours, and some grain."""
    y, x = torch.meshgrid(*(torch.linspace(0, 6, n) for n in size), indexing="ij")
    planes = [0.5 + 0.4 * torch.sin((1 + k) * x + (2 - k) * y) for k in range(channels)]
    grain = torch.randn(channels, *size, generator=torch.Generator().manual_seed(0))
    return (255 * (torch.stack(planes) + 0.01 * grain).clamp(0, 1)).round().byte()


COLORS = pillow.colors(3, 5)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("label", [None, torch.tensor([1])], ids=["no label", "label"])
def test_one_image_is_drawn_as_a_batch_of_one(name, label):
    policy, acted = POLICIES[name](), {"color": 0, "affine": 0}
    for seed in range(12):
        torch.manual_seed(seed)
        wanted = policy.draw(1, label)
        after = torch.rand(1)
        torch.manual_seed(seed)
        found = draw_one(policy, label)
        assert torch.equal(torch.rand(1), after)  # as many random numbers
        assert torch.allclose(found.affine, wanted.affine, atol=1e-5)
        acted["affine"] += bool((found.affine != torch.eye(2, 3)).any())
        acted["color"] += found.color is not None
        assert (found.color is not None) == bool(wanted.color.weight.any())
        if found.color is not None:
            made = found.color.unfolded(COLORS)
            batch_of_one = policy.augmenter.colors.unfolded(torch.from_numpy(COLORS)[None], wanted.color)[0]
            assert np.allclose(made, batch_of_one, atol=1e-5) and np.abs(made - COLORS).max() > 0.01
    assert 0 < acted["color"] < 12 and 0 < acted["affine"] < 12


def one_operation(channels=3):
    return Policy.of(OneOperation(channels), found=0.9, shares={"solarize": 0.5, "rotate": 0.0})


def test_one_operation_is_drawn_as_in_a_batch_of_one():
    policy, found, arms = one_operation(), set(), ("none", *OneOperation.arms)
    for seed in range(100):
        torch.manual_seed(seed)
        wanted, after = policy.draw(1), torch.rand(1)
        torch.manual_seed(seed)
        drawn = pillow.draw(policy, None)
        assert drawn == wanted and torch.equal(torch.rand(1), after)
        found.add((arms[int(drawn.operation)], round(abs(float(drawn.strength)), 3)))
    assert found == {(name, {"solarize": 0.45, "rotate": 0.0}.get(name, 0.9)) for name in arms}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("kind", "levels"), [(lambda n: Policy.of(augmenter(channels=n)), 2), (one_operation, 1)], ids=["neural", "one"]
)
def test_pixels_are_those_of_the_tensor_path(kind, levels, channels):
    policy, plain = kind(channels), photograph(channels)
    differences, changes = [], []
    for seed in range(24):
        made = []
        for item in (plain, F.to_pil_image(plain), plain / 255):
            torch.manual_seed(seed)
            made.append(policy(item))
        assert torch.equal(F.pil_to_tensor(made[1]), made[0])
        differences.append(float((made[0] - 255 * made[2]).abs().mean()))
        changes.append(float((made[0].float() - plain).abs().mean()))
    assert sum(differences) / len(differences) < levels < max(changes)
    assert max(differences) < 4


@pytest.mark.parametrize("strength", [1.0, -0.41])  # no level is just at a threshold
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("number", range(COUNT))
def test_each_operation_is_that_of_the_tensor_path(number, channels, strength):
    """Colours to a level, which is rounding; what moves is read at the nearest pixel, as masks are."""
    made_of, plain = OneOperation(channels), (photograph(channels) * 0.8 + 20).byte()
    drawn = Draw(torch.tensor([number]), torch.tensor([strength]))
    found = F.pil_to_tensor(pillow.augmented(F.to_pil_image(plain), drawn))
    if number >= FIRST_MOVE:
        masks = [made_of.warp(Batch(plain[None] / 255, mask=plane[None].long()), drawn).mask[0] for plane in plain]
        wanted = torch.stack(masks).masked_fill(torch.stack(masks) == IGNORE, 0)
        assert (wanted == found).float().mean() > 0.999  # at the edge between two pixels either is the nearest
    else:
        wanted = 255 * made_of.color(Batch(plain[None] / 255), drawn).image[0]
        assert (wanted - found).abs().max() < 2
    names = [operation.name for operation in COLORS_DRAWN]
    nothing = number == 0 or (channels == 1 and number == FIRST_COLOR + names.index("color"))  # grey has no colour
    assert bool((found != plain).any()) != nothing


@pytest.mark.parametrize("number", range(FIRST_MOVE, COUNT))
def test_small_pictures_are_interpolated_as_in_a_batch(number):
    made_of, plain = OneOperation(), photograph(size=(64, 80))
    drawn = Draw(torch.tensor([number]), torch.tensor([0.7]))
    wanted = 255 * made_of.warp(Batch(plain[None] / 255), drawn).image[0]
    found = F.pil_to_tensor(pillow.augmented(F.to_pil_image(plain), drawn))
    assert (wanted - found).abs().median() < 1


def test_a_policy_that_has_been_used_is_copied_and_pickled_whole():
    """As a worker of a loader gets it: what it keeps for single pictures belongs to the copy."""
    policy, picture = one_operation(), F.to_pil_image(photograph())
    policy(picture)
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        other.adjust(strength=0)
        assert other(picture) is picture and other._of_samples.policy is other
    assert policy.strength == 0.9 and set(policy.state_dict()) == set(one_operation().state_dict())


def test_a_picture_of_two_pixels_or_one_level_is_fine():
    for size in ((1, 1), (2, 5)):
        picture = Image.new("RGB", size, (7, 7, 7))
        for number in range(COUNT):
            drawn = Draw(torch.tensor([number]), torch.tensor([1.0]))
            assert pillow.augmented(picture, drawn).size == size


def test_a_map_that_changes_no_colour_changes_no_pixel():
    policy = Policy.of(augmenter()).adjust(strength=1e-9)
    picture = F.to_pil_image(torch.randint(256, (3, 64, 64), dtype=torch.uint8))
    drawn = next(one for one in (draw_one(policy, None) for _ in range(50)) if one.color is not None)
    assert np.array_equal(pillow.colored(picture, drawn.color), picture)


def test_shades_stay_smooth_where_colours_are_folded_back():
    """What gets brighter than white gets darker again: neighbouring levels stay neighbours."""
    map_of_white = types.SimpleNamespace(unfolded=lambda colors: colors + 0.2)
    ramp = torch.arange(256, dtype=torch.uint8).expand(3, 1, 256).contiguous()
    made = F.pil_to_tensor(pillow.colored(F.to_pil_image(ramp), map_of_white)).int()
    wanted = 255 * (1 - (1 - (torch.arange(256) / 255 + 0.2)).abs())
    assert (made - wanted).abs().max() <= pillow.WIDTH and (made - wanted).abs().mean() < 1
    assert made.diff().abs().max() <= pillow.WIDTH / 2


@pytest.mark.parametrize("kind", [lambda: Policy.of(augmenter()), one_operation], ids=["neural", "one"])
def test_mask_boxes_and_key_points_follow_the_same_draw(kind):
    policy = kind()
    mask = tv_tensors.Mask(torch.randint(4, SIZE, generator=torch.Generator().manual_seed(0)))
    boxes = tv_tensors.BoundingBoxes([[20.0, 30.0, 80.0, 90.0]], format="XYXY", canvas_size=SIZE)
    moved = 0
    for seed in range(16):
        torch.manual_seed(seed)
        _, *by_pillow = policy(tv_tensors.Image(photograph()), mask, boxes)
        torch.manual_seed(seed)
        _, *by_tensors = policy(tv_tensors.Image(photograph() / 255), mask, boxes)
        other = int((by_pillow[0] != by_tensors[0]).sum())
        assert other <= 2  # of 19,200: two ways to multiply round otherwise, at the edge between two pixels
        assert torch.allclose(
            by_pillow[1].as_subclass(torch.Tensor), by_tensors[1].as_subclass(torch.Tensor), atol=1e-3
        )
        moved += not torch.equal(by_pillow[0], mask)
    assert moved > 0


def only_moves():
    policy = Policy.of(augmenter(affine_width=0.8))
    with torch.no_grad():
        policy.augmenter.log_odds.copy_(torch.tensor([-100.0, 100.0]).expand(5, 2))
    return policy


@pytest.mark.parametrize("kind", [only_moves, one_operation], ids=["neural", "one"])
def test_a_white_ellipse_is_where_its_box_is(kind):
    """Image and box move together: a wrong sign or a swapped side would not show in either alone."""
    policy = kind()
    place = [50.0, 40.0, 110.0, 80.0]
    white = (255 * small.ellipse(place, SIZE)).to(torch.uint8).expand(3, -1, -1)
    boxes = tv_tensors.BoundingBoxes([place], format="XYXY", canvas_size=SIZE)
    for seed in range(5):
        torch.manual_seed(seed)
        picture, box = policy(F.to_pil_image(white), boxes)
        left, upper, right, lower = picture.convert("L").point(lambda v: 255 * (v > 127)).getbbox()
        assert torch.allclose(
            box[0].as_subclass(torch.Tensor), torch.tensor([left, upper, right, lower]).float(), atol=2
        )


@pytest.mark.parametrize("kind", [lambda: Policy.of(augmenter()), one_operation], ids=["neural", "one"])
def test_pillow_is_taken_for_bytes_on_a_cpu_and_for_nothing_else(kind, monkeypatch):
    policy, calls = kind(), []
    monkeypatch.setattr(pillow, "augmented", lambda picture, drawn: calls.append(picture.mode) or picture)
    bytes_ = photograph()
    for item in (bytes_, F.to_pil_image(bytes_), Image.new("RGBA", (8, 8)), tv_tensors.Image(bytes_)):
        policy(item)
    assert calls == ["RGB", "RGB", "RGBA", "RGB"]
    policy(bytes_ / 255)
    policy((bytes_ / 255)[None])
    policy({"a": tv_tensors.Image(bytes_), "b": tv_tensors.Image(bytes_ / 255)})  # one draw for both, so one path
    if policy.augmenter.settings.classes:
        policy(bytes_, torch.tensor([0.5, 0.5, 0, 0, 0]))  # shares of classes
    assert len(calls) == 4
