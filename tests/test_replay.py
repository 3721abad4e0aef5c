import pytest
import torch

from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.replay import CHUNK, Replay, quantize


def augmenter(classes=4, **settings):
    return scramble(NeuralAugmenter(3, classes, **settings))


def scramble(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.06)
    return module


def test_priorities_are_powers_of_gamma_and_the_current_augmenter_weighs_one():
    replay = Replay(augmenter(), decay=0.9)
    for _ in range(4):
        replay.push()
    assert replay.priorities().tolist() == pytest.approx([0.9**3, 0.9**2, 0.9, 1.0, 1.0])


def test_draws_follow_the_priorities():
    replay = Replay(augmenter(group=1), decay=0.5)
    for _ in range(3):
        replay.push()
    slots = replay.draw(20000, torch.Generator().manual_seed(0)).images.slots
    expected = replay.priorities() / replay.priorities().sum()
    assert torch.allclose(torch.bincount(slots, minlength=4) / 20000, expected, atol=0.015)


def test_images_of_a_group_share_their_snapshot():
    replay = Replay(augmenter(group=8))
    for _ in range(30):
        replay.push()
    slot = replay.draw(20, torch.Generator().manual_seed(0)).images.slots
    assert slot.shape == (20,)
    assert all(len(set(part.tolist())) == 1 for part in slot.split(8))
    assert len(set(slot.tolist())) > 1


def test_an_empty_replay_draws_nothing():
    assert Replay(augmenter()).draw(8) is None


def test_a_snapshot_is_the_augmenter_of_its_time():
    module = augmenter(group=4)
    replay = Replay(module)
    labels, seen = torch.tensor([0, 1, 2, 3, 0, 1]), []
    for _ in range(CHUNK + 3):  # the stack grows on the way
        with torch.no_grad():
            seen.append(module.sample(6, labels, torch.Generator().manual_seed(7)))
        replay.push()
        scramble(module)
        replay.refresh()
    drawn = replay.draw(6)
    for i in (0, 3, CHUNK + 2):
        drawn.groups.slots.fill_(i)
        drawn.images.slots.fill_(i)
        with torch.no_grad():
            again = module.sample(6, labels, torch.Generator().manual_seed(7), drawn)
        assert (again.affine - seen[i].affine).abs().mean() < 0.005
        assert torch.equal(again.color.weight, seen[i].color.weight)
        x = torch.rand(6, 3, 5, 5)
        error = (module.colors(x, again.color) - module.colors(x, seen[i].color)).abs().mean()
        assert error < 0.02, error


def test_the_slot_behind_the_snapshots_follows_the_augmenter():
    module = augmenter()
    replay = Replay(module)
    replay.push()
    scramble(module)
    replay.refresh()
    assert torch.equal(replay.values["log_odds"][1], module.log_odds.detach())
    assert not torch.equal(replay.values["log_odds"][0], module.log_odds.detach())


def test_vector_contexts_draw_the_same_as_labels():
    module = augmenter()
    replay = Replay(module)
    replay.push()
    labels = torch.tensor([2, 0, 3])
    one_hot = torch.nn.functional.one_hot(labels, 4).float()
    with torch.no_grad():
        a, b = (
            module.sample(3, c, g, replay.draw(3, g))
            for c, g in ((labels, torch.Generator().manual_seed(1)), (one_hot, torch.Generator().manual_seed(1)))
        )
    assert torch.allclose(a.affine, b.affine, atol=1e-6)


def test_state_comes_back_bit_for_bit():
    module = augmenter()
    replay = Replay(module)
    for _ in range(3):
        replay.push()
        scramble(module)
    replay.refresh()
    twin = Replay(module)
    twin.load_state_dict(replay.state_dict())
    for name, value in replay.values.items():
        assert torch.equal(twin.values[name][:4], value[:4])
    for name, scale in replay.scales.items():
        assert torch.equal(twin.scales[name][:4], scale[:4])
    assert len(twin) == 3


def test_quantized_rows_are_within_half_a_step():
    weight = torch.randn(20, 50)
    stored, scale = quantize(weight)
    assert stored.dtype == torch.int8
    assert ((stored * scale - weight).abs() <= scale / 2 + 1e-7).all()
    zero, scale = quantize(torch.zeros(3, 4))
    assert torch.equal(zero * scale, torch.zeros(3, 4))


def test_270_snapshots_of_imagenet_size_fit_in_300_megabytes():
    replay = Replay(NeuralAugmenter(3, 1000))
    replay.push()
    per_snapshot = replay.nbytes() / CHUNK
    assert -(-271 // CHUNK) * CHUNK * per_snapshot < 300e6
