"""The augmenter as a whole: starts as the identity, everything in it learns, images do not depend on each other."""

import pytest
import torch
from torch.autograd import gradcheck

from teachaugment.augment import color as color_module
from teachaugment.augment.mlp import Live, Sources
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.batch import IGNORE, Batch


def trained(channels=3, classes=10, spread=0.5, **settings):
    """An augmenter whose output layers are no longer zero."""
    augmenter = NeuralAugmenter(channels, classes, **settings)
    with torch.no_grad():
        for name, parameter in augmenter.named_parameters():
            if ".last." in name:
                parameter.normal_(0, spread / 10)
    return augmenter


def batch_of(n=6, channels=3, size=(8, 8), classes=10, **kinds):
    mask = torch.randint(0, 4, (n, *size))
    return Batch(torch.rand(n, channels, *size, **kinds), torch.randint(classes, (n,)), mask)


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("size", [(8, 8), (5, 9), (128, 96)])
def test_the_first_augmentation_is_the_identity(channels, size):
    batch = batch_of(3, channels, size)
    augmented = NeuralAugmenter(channels, 10)(batch)
    assert torch.allclose(augmented.image, batch.image, atol=1e-5)
    assert torch.equal(augmented.mask, batch.mask)


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("size", [(8, 8), (128, 96)])
def test_a_trained_augmenter_changes_images_and_stays_in_range(channels, size):
    batch = batch_of(8, channels, size)
    augmenter = trained(channels)
    with torch.no_grad():
        colored = augmenter.color(batch, augmenter.sample(8, batch.label))
    assert (colored.image - batch.image).abs().max() > 0.05
    assert colored.image.min() >= 0 and colored.image.max() <= 1


def test_one_image_alone_works():
    batch = batch_of(1)
    assert trained()(batch).image.shape == batch.image.shape


def test_drawn_parameters_stay_inside_the_search_range():
    augmenter = trained(spread=50.0)
    draw = augmenter.sample(64, torch.randint(10, (64,)))
    residual = draw.affine - torch.eye(2, 3)
    assert residual.abs().max() <= 0.25
    colors = torch.rand(64, 3, 10)
    unfolded = augmenter.colors.unfolded(colors, draw.color)
    assert (unfolded >= 0.6 * colors - 0.5 - 1e-5).all() and (unfolded <= 1.4 * colors + 0.5 + 1e-5).all()


def test_every_parameter_receives_a_finite_gradient_that_is_not_zero():
    augmenter = trained(classes=4)
    batch = batch_of(64, classes=4)
    (augmenter(batch).image * torch.randn(64, 3, 8, 8)).sum().backward()
    for name, parameter in augmenter.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_black_and_white_images_give_finite_gradients():
    augmenter = trained()
    for value in (0.0, 1.0):
        augmenter(Batch(torch.full((4, 3, 8, 8), value), torch.arange(4))).image.sum().backward()
    assert all(p.grad.isfinite().all() for p in augmenter.parameters())


def test_an_image_does_not_depend_on_its_batch_mates():
    augmenter = trained()
    batch = batch_of(6)
    other = batch.replace(image=torch.cat([batch.image[:3], torch.rand(3, 3, 8, 8)]))
    with torch.no_grad():
        draws = [augmenter.sample(6, batch.label, torch.Generator().manual_seed(1)) for _ in range(2)]
        first, second = (
            augmenter.warp(augmenter.color(b, d), d).image[:3] for b, d in zip((batch, other), draws, strict=True)
        )
    assert torch.equal(first, second)


def test_image_and_mask_receive_the_same_warp_and_uncovered_pixels_are_ignored():
    augmenter = trained(spread=5.0)
    with torch.no_grad():
        augmenter.log_odds.fill_(20.0)  # always applied
        mask = torch.zeros(4, 16, 16, dtype=torch.long)
        mask[:, 4:12, 4:12] = 1
        batch = Batch(mask[:, None].float().expand(-1, 3, -1, -1), torch.arange(4), mask)
        draw = augmenter.sample(4, batch.label)
        warped = augmenter.warp(batch, draw)
        away = augmenter.warp(batch.replace(image=torch.ones(4, 3, 16, 16)), draw).image[:, 0] == 0
    assert ((warped.image[:, 0] > 0.99) <= (warped.mask == 1)).all()
    assert (warped.mask[away] == IGNORE).all()
    assert (warped.mask == IGNORE).any()


def test_sampling_is_hard_without_gradient_and_relaxed_with_it():
    augmenter = trained()
    labels = torch.randint(10, (200,))
    with torch.no_grad():
        assert set(augmenter.sample(200, labels).color.weight.unique().tolist()) == {0.0, 1.0}
    weight = augmenter.sample(200, labels).color.weight
    assert weight.requires_grad and ((weight > 0) & (weight < 1)).any()


def test_each_class_has_its_own_probabilities():
    augmenter = trained(classes=2)
    with torch.no_grad():
        augmenter.log_odds.copy_(torch.tensor([[20.0, -20.0], [-20.0, 20.0]]))
        draw = augmenter.sample(10, torch.tensor([0, 1] * 5))
    assert draw.color.weight.tolist() == [1.0, 0.0] * 5
    assert torch.equal(draw.affine[::2], torch.eye(2, 3).expand(5, 2, 3))
    assert augmenter.probabilities()["color"].tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


def test_a_label_and_its_one_hot_vector_are_the_same_context():
    augmenter = trained()
    labels = torch.randint(10, (5,))
    one_hot = torch.nn.functional.one_hot(labels, 10).float()
    a, b = (augmenter.sample(5, c, torch.Generator().manual_seed(3)) for c in (labels, one_hot))
    assert torch.allclose(a.affine, b.affine, atol=1e-6)
    assert torch.allclose(a.color.shift, b.color.shift, atol=1e-6)


def test_without_a_label_a_class_is_drawn():
    augmenter = trained(classes=2)
    with torch.no_grad():
        augmenter.log_odds.copy_(torch.tensor([[20.0, 20.0], [-20.0, -20.0]]))
        applied = augmenter.sample(400).color.weight
    assert applied.mean().item() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_images_keep_their_dtype(dtype):
    batch = batch_of(4)
    augmented = trained()(batch.replace(image=batch.image.to(dtype)))
    assert augmented.image.dtype == dtype and augmented.image.isfinite().all()


def test_half_precision_weights_and_autocast_work():
    batch = batch_of(4)
    assert trained().to(torch.bfloat16)(batch).image.isfinite().all()
    augmenter = trained()
    plain = augmenter(batch, torch.Generator().manual_seed(5)).image
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(augmenter(batch, torch.Generator().manual_seed(5)).image, plain)


def test_gradcheck_color_map():
    augmenter = trained(classes=None, spread=2.0).double()
    colors = torch.rand(2, 3, 4, dtype=torch.float64)
    last = augmenter.colors.rgb.last.weight
    units = augmenter.colors.rgb.draw_units(2)

    def colored(weight):
        live = Live(augmenter)
        live.parameters["colors.rgb.last.weight"] = weight
        rgb = augmenter.colors.rgb.select(live, "colors.rgb", units)
        level = torch.full((2, 2), 0.1, dtype=torch.float64)
        return augmenter.colors(colors[..., None], color_module.ColorDraw(rgb, 0.0, level, torch.ones(2).double()))

    assert gradcheck(colored, last.detach().clone().requires_grad_(), atol=1e-4)


@pytest.mark.parametrize("normalized", [False, True])
def test_a_cut_out_sub_network_equals_the_masked_network(normalized):
    mlp = trained(spread=1.0).colors.rgb
    units = mlp.draw_units(3)
    x = torch.randn(3, 3, 7)
    found = mlp.select(Live(torch.nn.ModuleDict({"rgb": mlp})), "rgb", units)(x, normalized)
    h = x.mT
    for layer, kept in zip((mlp.first, mlp.second), units, strict=True):
        mask = torch.zeros(3, 1, mlp.hidden).scatter_(2, kept[:, None], 1.0)
        h = torch.nn.functional.leaky_relu(layer(h), 0.2)
        if normalized:
            mean = (h * mask).sum(-1, keepdim=True) / mlp.kept
            h = (h - mean) / (((h - mean) * mask).square().sum(-1, keepdim=True) / mlp.kept + 1e-5).sqrt()
        h = h * mask * mlp.hidden / mlp.kept
    assert torch.allclose(found, mlp.last(h).mT, atol=1e-4)


def test_noise_of_a_group_goes_through_one_sub_network_and_each_image_keeps_its_own_noise():
    mlp = trained(spread=1.0).geometry.noise
    live = Live(torch.nn.ModuleDict({"noise": mlp}))
    noise = torch.randn(11, 128)
    noise[1] = noise[0]  # same group
    noise[9] = noise[8]
    noise[10] = noise[0]  # another group
    out = mlp.from_noise(noise, Sources(live, live), "noise", 8, mlp.scores(2))
    assert out.shape == (11, 6)
    assert torch.allclose(out[0], out[1], atol=1e-6) and torch.allclose(out[8], out[9], atol=1e-6)
    assert not torch.allclose(out[0], out[2]) and not torch.allclose(out[0], out[10])


@pytest.mark.parametrize("size", [(8, 8), (128, 96)])
def test_images_that_stay_as_they_are_may_be_left_out_without_a_difference(size):
    augmenter, batch = trained(), batch_of(12, size=size)
    with torch.no_grad():
        draw = augmenter.sample(12, batch.label).color
        assert 0 < draw.weight.sum() < 12
        whole = augmenter.colors.apply_map(batch.image, draw)
        assert torch.allclose(augmenter.colors(batch.image, draw), whole, atol=1e-4)
        none = draw._replace(weight=torch.zeros(12))
        assert torch.equal(augmenter.colors(batch.image, none), batch.image)


def test_units_are_kept_with_equal_probability_and_never_twice():
    mlp = trained().colors.rgb
    first, _ = mlp.draw_units(3000, torch.Generator().manual_seed(0))
    assert all(len(set(row.tolist())) == mlp.kept for row in first[:20])
    share = torch.bincount(first.flatten(), minlength=mlp.hidden) / 3000
    assert (share - mlp.kept / mlp.hidden).abs().max() < 0.04


@pytest.mark.parametrize("channels", [1, 3])
def test_lattice_and_per_pixel_colours_agree(channels):
    augmenter = trained(channels, classes=None, spread=1.0)
    image = torch.rand(4, channels, 112, 112)
    draw = augmenter.sample(4).color
    draw = draw._replace(weight=torch.ones(4), level=torch.randn(4, 2))
    fast = augmenter.colors(image, draw)
    exact = color_module.triangle_wave(augmenter.colors.unfolded(image.flatten(2), draw)).reshape_as(image)
    assert (exact - image).abs().mean() > 0.02
    assert (fast - exact).abs().mean() < 1 / 255
    probe = torch.randn_like(image)
    weight = augmenter.colors.rgb.second.weight
    grads = [torch.autograd.grad((out * probe).sum(), weight, retain_graph=True)[0] for out in (fast, exact)]
    assert torch.nn.functional.cosine_similarity(grads[0].flatten(), grads[1].flatten(), dim=0) > 0.98


def test_settings_describe_an_augmenter_of_the_same_shape():
    augmenter = NeuralAugmenter(4, 7, affine_width=0.3)
    twin = NeuralAugmenter(**augmenter.describe())
    twin.load_state_dict(augmenter.state_dict())
    assert twin.settings == augmenter.settings


def test_a_draw_tells_which_images_it_leaves_as_they_are():
    augmenter, given = trained(), Batch(torch.rand(64, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        draw = augmenter.weakened(augmenter.sample(64, None, torch.Generator().manual_seed(1)), 0.5)
        made = augmenter.warp(augmenter.color(given, draw), draw)
    same = (made.image - given.image).abs().flatten(1).amax(1) < 1e-6
    assert 4 < int(same.sum()) < 32 and torch.equal(augmenter.arm(draw) == 0, same)
