import pytest
import torch
from torchvision.transforms import v2

from teachaugment.batch import IGNORE, Batch
from teachaugment.strategies.policy_files import RANGES, Operation, Schedule, SubPolicies
from teachaugment.strategies.published import GEOMETRIC, PerImage
from teachaugment.strategies.searched import COLOR, OnSchedule, choose, cut, draw, searched


def always(name, value):
    return searched(SubPolicies([[Operation(name, 1.0, value)]]))


def pixels(n=6, side=16):
    return torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("AutoContrast", 0, v2.functional.autocontrast),
        ("Invert", 0, v2.functional.invert),
        ("Equalize", 0, v2.functional.equalize),
        ("Solarize", 100, lambda x: v2.functional.solarize(x, 100)),
        ("Solarize", 256, lambda x: x),
        ("Solarize", 0, v2.functional.invert),
        ("Posterize", 4.9, lambda x: v2.functional.posterize(x, 4)),
        ("Posterize", 0, torch.zeros_like),
        ("Contrast", 1.5, lambda x: v2.functional.adjust_contrast(x, 1.5)),
        ("Color", 0.1, lambda x: v2.functional.adjust_saturation(x, 0.1)),
        ("Brightness", 1.9, lambda x: v2.functional.adjust_brightness(x, 1.9)),
        ("Sharpness", 0.5, lambda x: v2.functional.adjust_sharpness(x, 0.5)),
    ],
)
def test_colour_operations_are_those_of_torchvision(name, value, expected):
    for image in pixels():
        assert torch.equal(always(name, value)(image), expected(image))


@pytest.mark.parametrize(
    ("name", "value", "moved"),
    [
        ("TranslateX", 0.25, lambda x, s: v2.functional.affine(x, 0, [4 * s, 0], 1.0, [0.0, 0.0])),
        ("TranslateY", 0.25, lambda x, s: v2.functional.affine(x, 0, [0, 4 * s], 1.0, [0.0, 0.0])),
        ("Rotate", 20.0, lambda x, s: v2.functional.rotate(x, 20.0 * s)),
    ],
)
def test_geometric_operations_go_either_way_equally_often(name, value, moved):
    image, seen = pixels(1)[0], {-1: 0, 1: 0}
    for _ in range(40):
        made = always(name, value)(image)
        (sign,) = (s for s in seen if torch.equal(made, moved(image, s)))
        seen[sign] += 1
    assert min(seen.values()) > 8


def test_every_operation_runs_on_one_channel_and_on_three():
    for channels in (1, 3):
        image = torch.randint(0, 256, (channels, 12, 12), dtype=torch.uint8)
        for name, (low, high) in RANGES.items():
            policy = SubPolicies([[Operation(name, 1.0, (low + 2 * high) / 3)]])
            assert searched(policy, channels)(image).shape == image.shape


def test_masks_follow_geometry_and_only_geometry():
    mask = torch.randint(1, 200, (10, 12, 12))
    image = (mask / 255)[:, None].expand(-1, 3, -1, -1)
    for name, (_, high) in RANGES.items():
        made = PerImage(always(name, high))(Batch(image, mask=mask))
        if name not in GEOMETRIC:
            assert torch.equal(made.mask, mask), name
            continue
        outside = made.mask == IGNORE
        assert outside.any() and not torch.equal(made.mask, mask)
        levels = (made.image[:, 0] * 255).round().long()
        assert torch.equal(levels.masked_fill(outside, 0), made.mask.masked_fill(outside, 0)), name


def test_one_sub_policy_and_of_it_what_its_probabilities_let_through():
    policy = SubPolicies([[Operation("Invert", 0.5, 0), Operation("Equalize", 0.0, 0)], [Operation("Color", 1.0, 0.5)]])
    drawn = [tuple(step.name for step in choose(policy)) for _ in range(400)]
    shares = {names: drawn.count(names) / 400 for names in set(drawn)}
    assert shares.keys() == {(), ("Invert",), ("Color",)}
    assert shares["Color",] == pytest.approx(0.5, abs=0.1) and shares["Invert",] == pytest.approx(0.25, abs=0.1)


def test_pba_applies_none_one_or_two_operations():
    always_on = [Operation(str(i), 1.0, 0) for i in range(30)]
    counts = [len(draw(always_on)) for _ in range(600)]
    assert [counts.count(n) / 600 for n in range(4)] == pytest.approx([0.2, 0.3, 0.5, 0.0], abs=0.07)
    assert len({op.name for _ in range(200) for op in draw(always_on)}) == 30  # in random order
    assert all(len(draw([Operation("a", 0.0, 0)] * 30)) == 0 for _ in range(20))


def test_a_schedule_is_followed_by_the_share_of_the_training():
    schedule = Schedule([(0.5, [Operation("Invert", 0.0, 0)] * 30), (1.0, [Operation("Invert", 1.0, 0)] * 30)])
    strategy, batch = OnSchedule(schedule), Batch(torch.zeros(60, 3, 4, 4))
    strategy.at(0.4)
    assert (strategy.augment(batch).image == 0).all()
    strategy.at(0.5)
    white = strategy.augment(batch).image.flatten(1).mean(1)
    assert set(white.tolist()) == {0.0, 1.0} and 0.1 < white.mean() < 0.5  # one inversion: 30 %; two cancel


def test_cutout_leaves_a_square_of_the_mean_colour():
    image = torch.zeros(3, 20, 20, dtype=torch.uint8)
    areas = []
    for _ in range(50):
        made = cut(image, 6, list(COLOR))
        inside = made.sum(0) > 0
        assert [made[c][inside].unique().tolist() for c in range(3)] == [[v] for v in COLOR]
        areas.append(int(inside.sum()))
    assert max(areas) == 36 and min(areas) >= 9 and not image.any()


def test_the_draws_follow_the_global_seed():
    batch = Batch(torch.rand(8, 3, 16, 16))
    policy = SubPolicies([[Operation("Rotate", 0.5, 20.0)], [Operation("Cutout", 0.5, 0.2)]])
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(PerImage(searched(policy))(batch).image)
    assert torch.equal(*results)
