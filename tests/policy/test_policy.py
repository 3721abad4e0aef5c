import copy
import json
import pickle

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import teachaugment
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.augment.one_operation import OneOperation
from teachaugment.batch import Batch
from teachaugment.errors import UserError
from teachaugment.policy.card import card
from teachaugment.policy.digest import digest
from teachaugment.policy.load import load_policy
from teachaugment.policy.policy import Policy
from teachaugment.replay import Replay

NAMES = ["ant", "bee", "cat", "dog", "eel"]


def awake(classes=5, channels=3):
    """An augmenter that changes what it gets."""
    module = NeuralAugmenter(channels, classes)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.2)
    return module


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def batch():
    return torch.rand(6, 3, 8, 8), torch.tensor([0, 1, 2, 3, 4, 0])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "policy.safetensors"
    Policy.of(awake(), classes=NAMES, provenance={"data": "shapes"}).save(path)
    return path


def test_a_saved_policy_comes_back_bit_for_bit(tmp_path, batch):
    policy = Policy.of(
        awake(),
        classes=NAMES,
        normalization={"mean": (0.1, 0.2, 0.3), "std": (1, 1, 1)},
        provenance={"data": "shapes", "accuracy": {"test": 0.75}},
    )
    policy.save(tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    a, b = (p(*batch, generator=seeded()) for p in (policy, loaded))
    assert torch.equal(a, b) and not torch.equal(a, batch[0])
    assert loaded.header() == policy.header()
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "policy.safetensors").read_bytes()


def test_the_header_says_what_the_policy_is(file):
    with safe_open(str(file), framework="pt") as opened:
        header = json.loads(opened.metadata()["teachaugment"])
    assert header["format"] == 3 and header["kind"] == "neural" and header["context"] == "class"
    assert header["augmenter"]["channels"] == 3 and header["classes"] == NAMES and header["snapshots"] is None
    assert header["ranges"] == {"scale": [0.6, 1.4], "shift": [-0.5, 0.5], "affine": [-0.25, 0.25]}
    assert header["provenance"] == {"version": teachaugment.__version__, "data": "shapes"}


def test_a_policy_does_not_follow_further_training(batch):
    module, replay = awake(), None
    replay = Replay(module)
    replay.push()
    policy = Policy.of(module, replay)
    before = policy(*batch, generator=seeded())
    with torch.no_grad():
        module.log_odds.add_(1)
    replay.push()
    assert torch.equal(policy(*batch, generator=seeded()), before) and len(policy.replay) == 1
    assert module.log_odds.requires_grad


def test_a_policy_draws_what_its_augmenter_draws(file, batch):
    policy = load_policy(file)
    with torch.no_grad():
        drawn = policy.augmenter(Batch(*batch), seeded(3)).image
    assert torch.equal(policy(*batch, generator=seeded(3)), drawn)
    torch.manual_seed(3)  # without a generator it draws from torch's own
    first = policy(*batch)
    torch.manual_seed(3)
    assert torch.equal(policy(*batch), first)


def test_loading_leaves_torchs_generator_alone(file):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    load_policy(file)
    assert torch.equal(torch.rand(3), expected)


# --- context -------------------------------------------------------------------------------------------------------


def always_for(classes, rows):
    """Colour and geometry always for the classes in ``rows``, never for the others."""
    module = awake(classes)
    with torch.no_grad():
        module.log_odds.fill_(-100)
        module.log_odds[rows] = 100
    return module


def changed(policy, n=40, labels=None):
    """Which of n images are changed."""
    images = 0.2 + 0.6 * torch.rand(n, 3, 8, 8)
    return (policy(images, labels) - images).abs().amax((1, 2, 3)) > 1e-3


def test_without_labels_a_class_is_drawn_for_each_image():
    share = changed(Policy.of(always_for(2, [1])), 200).float().mean()
    assert 0.3 < share < 0.7


@pytest.mark.parametrize("context", [2, "cat"])
def test_a_given_context_holds_whatever_the_label(context):
    policy = Policy.of(always_for(5, [2]), classes=NAMES)
    assert not changed(policy, labels=torch.zeros(40, dtype=torch.long)).any()
    assert changed(policy.adjust(context=context), labels=torch.zeros(40, dtype=torch.long)).all()
    assert changed(policy).all()


@pytest.mark.parametrize("context", [5, -1, "cta", "7"])
def test_an_unknown_context_is_refused(context):
    with pytest.raises(UserError, match="cat'" if context == "cta" else "class"):
        Policy.of(awake(), classes=NAMES).adjust(context=context)


def test_labels_of_other_classes_are_translated_by_name():
    policy = Policy.of(always_for(5, [2]), classes=NAMES).adjust(classes=["cat", "dog"])
    assert policy.known() == 2
    seen = changed(policy, labels=torch.tensor([0, 1] * 20))
    assert seen[::2].all() and not seen[1::2].any()
    one_hot = torch.eye(2)[torch.tensor([0, 1] * 20)]
    assert torch.equal(changed(policy, labels=one_hot), seen)


def test_for_a_class_without_a_namesake_one_is_drawn():
    policy = Policy.of(always_for(2, [1]), classes=["ant", "bee"]).adjust(classes=["ant", "bee", "zebra"])
    seen = changed(policy, 300, torch.tensor([0, 1, 2] * 100)).view(100, 3)
    assert not seen[:, 0].any() and seen[:, 1].all() and 0.3 < seen[:, 2].float().mean() < 0.7


def test_a_policy_without_classes_ignores_labels(batch):
    policy = Policy.of(awake(None)).adjust(classes=["x", "y"])
    assert policy(batch[0], batch[1] % 2).shape == batch[0].shape and policy.known() is None


# --- strength ------------------------------------------------------------------------------------------------------


def test_strength_zero_changes_nothing_and_one_is_the_policy(file, batch):
    learned = load_policy(file)(*batch, generator=seeded())
    assert torch.equal(load_policy(file, strength=1)(*batch, generator=seeded()), learned)
    assert torch.equal(load_policy(file, strength=0)(*batch, generator=seeded()), batch[0])


def test_strength_scales_what_is_drawn_and_not_how_often(file):
    policy = load_policy(file)
    whole = policy.draw(50, generator=seeded())
    half = policy.adjust(strength=0.5).draw(50, generator=seeded())
    identity = torch.eye(2, 3)
    assert torch.allclose(half.affine - identity, 0.5 * (whole.affine - identity), atol=1e-6)
    assert torch.equal(half.color.weight, 0.5 * whole.color.weight)
    assert torch.equal((half.affine != identity).any(-1), (whole.affine != identity).any(-1))
    image = torch.rand(50, 3, 8, 8)
    colors = image.flatten(2)  # before the triangle wave: x + s ((α - 1) x + β)
    unfolded = policy.augmenter.colors.unfolded
    step, full = unfolded(colors, half.color) - colors, unfolded(colors, whole.color) - colors
    assert torch.allclose(step, 0.5 * full, atol=1e-6)


@pytest.mark.parametrize("strength", [-0.1, 1.5, float("nan"), "strong"])
def test_a_strength_that_is_none_is_refused(file, strength):
    with pytest.raises(UserError, match="strength"):
        load_policy(file, strength=strength)


# --- snapshots -----------------------------------------------------------------------------------------------------


def test_snapshots_travel_with_the_policy_and_are_drawn_from(tmp_path, batch):
    module = awake()
    replay = Replay(module, 0.9)
    for _ in range(3):
        replay.push()
        with torch.no_grad():
            module.log_odds.sub_(1)
    replay.refresh()
    path = tmp_path / "policy.safetensors"
    Policy.of(module, replay).save(path)
    loaded = load_policy(path, snapshots=True)
    assert len(loaded.replay) == 3 and loaded.replay.decay == 0.9
    random = seeded(5)
    with torch.no_grad():
        draw = module.sample(6, batch[1], random, replay.draw(6, random))  # needs the same order of random numbers
        expected = module.warp(module.color(Batch(*batch), draw), draw).image
    assert torch.equal(loaded(*batch, generator=seeded(5)), expected)
    assert len(load_policy(path).replay) == 3 and load_policy(path, snapshots=False).replay is None
    again = copy.deepcopy(loaded).to(torch.float64).to(torch.float32)  # they follow the module
    assert torch.equal(again(*batch, generator=seeded(5)), expected)


def test_snapshots_that_are_not_there_are_missed(file):
    with pytest.raises(UserError, match="has no snapshots; export it"):
        load_policy(file, snapshots=True)


# --- files that cannot be trusted ------------------------------------------------------------------------------------


def header_of(path):
    with safe_open(str(path), framework="pt") as opened:
        return json.loads(opened.metadata()["teachaugment"])


def write(path, tensors, header):
    """With a right checksum."""
    header = {**header, "digest": digest(header, tensors)}
    save_file(tensors, path, metadata={"teachaugment": json.dumps(header)})


class Explosive:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code ran')",))


BROKEN_HEADERS = {
    "other version": {"format": 99},
    "no settings": {"augmenter": None},
    "endless memory": {"augmenter": {"channels": 3, "classes": 10**12}},
    "impossible shape": {"augmenter": {"channels": -3}},
    "foreign settings": {"augmenter": {"channels": 3, "classes": 5, "path": "/etc/passwd"}},
    "wrong type": {"augmenter": {"channels": "3", "classes": 5}},
    "no group": {"augmenter": {"channels": 3, "classes": 5, "group": 0}},
    "dropout": {"augmenter": {"channels": 3, "classes": 5, "dropout": -5}},
    "foreign kind": {"kind": "os.system"},
    "names": {"classes": ["a", "b"]},
    "no names": {"classes": "ant"},
    "no provenance": {"provenance": [1]},
    "all memory for a group": {"augmenter": {"channels": 3, "classes": 5, "group": 10**12}},
    "an endless range": {"augmenter": {"channels": 3, "classes": 5, "scale_width": 1e300}},
    "a range that is no number": {"augmenter": {"channels": 3, "classes": 5, "affine_width": float("nan")}},
    "normalisation as text": {"normalization": {"mean": "0.5", "std": "0.2"}},
    "normalisation of too few channels": {"normalization": {"mean": [0.5], "std": [0.2]}},
    "normalisation of texts": {"normalization": {"mean": ["a", "b", "c"], "std": [1, 1, 1]}},
    "deep provenance": {"provenance": {"data": json.loads("[" * 100 + "]" * 100)}},
}


@pytest.mark.parametrize(
    "kind", ["missing", "folder", "text", "pickle", "cut", "no header", "list", "not finite", "shape", *BROKEN_HEADERS]
)
def test_files_that_are_no_policy_are_refused_in_one_line(tmp_path, file, kind):
    path = tmp_path / "x.safetensors"
    tensors, header = load_file(file), header_of(file)
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("hello")
    elif kind == "pickle":
        path.write_bytes(pickle.dumps(Explosive()))
    elif kind == "cut":
        path.write_bytes(file.read_bytes()[:-1000])
    elif kind == "no header":
        save_file(tensors, path)
    elif kind == "list":
        save_file(tensors, path, metadata={"teachaugment": "[]"})
    elif kind == "not finite":
        tensors["log_odds"][0] = float("nan")
        write(path, tensors, header)
    elif kind == "shape":
        tensors["log_odds"] = torch.zeros(6, 2)
        write(path, tensors, header)
    elif kind != "missing":
        write(path, tensors, {**header, **BROKEN_HEADERS[kind]})
    with pytest.raises(UserError, match=r"x\.safetensors") as caught:
        load_policy(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_a_policy_of_version_0_1_has_no_checksum_and_loads(file, batch, tmp_path):
    old = {key: value for key, value in header_of(file).items() if key != "digest"} | {"format": 2}
    save_file(load_file(file), tmp_path / "old.safetensors", metadata={"teachaugment": json.dumps(old)})
    policies = [load_policy(path) for path in (file, tmp_path / "old.safetensors")]
    assert torch.equal(*(policy(*batch, generator=seeded()) for policy in policies))
    assert policies[0].fingerprint() == policies[1].fingerprint()


def test_a_checksum_that_was_taken_away_is_missed(file, tmp_path):
    header = header_of(file)
    for changed in ({**header, "format": 2, "classes": list("abcde")}, {**header, "digest": None}):
        save_file(load_file(file), path := tmp_path / "x.safetensors", metadata={"teachaugment": json.dumps(changed)})
        with pytest.raises(UserError, match="does not agree with its checksum"):
            load_policy(path)


def test_what_json_has_no_word_for_is_refused_when_it_is_saved(tmp_path):
    with pytest.raises(UserError, match="plain data"):
        Policy.of(awake(), provenance={"data": tmp_path}).save(tmp_path / "policy.safetensors")


@pytest.mark.parametrize(
    "change", [{"count": 10**9, "decay": 0.9}, {"count": 0, "decay": 0.9}, {"count": 1, "decay": 7}]
)
def test_snapshots_that_do_not_fit_are_refused(tmp_path, change):
    replay = Replay(module := awake())
    replay.push()
    path = tmp_path / "x.safetensors"
    Policy.of(module, replay).save(path)
    write(path, load_file(path), {**header_of(path), "snapshots": change})
    with pytest.raises(UserError, match="snapshots have other"):
        load_policy(path, snapshots=True)


def test_a_batch_that_cannot_be_right_is_refused(file):
    with pytest.raises(UserError, match="3, height, width"):
        load_policy(file)(torch.rand(2, 1, 8, 8))
    with pytest.raises(UserError, match="float in"):
        load_policy(file)(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(UserError, match="labels must lie in"):
        load_policy(file)(torch.rand(2, 3, 8, 8), torch.tensor([0, 9]))


def test_what_each_operation_gets_of_the_strength_is_saved_and_said(tmp_path):
    path = tmp_path / "policy.safetensors"
    Policy.of(OneOperation(), found=0.5, shares={"solarize": 0.25, "rotate": 1.0}).save(path)
    policy = load_policy(path)
    assert policy.shares == {"solarize": 0.25} and "of it, solarize gets | 0.25" in card(policy, path.name)
    draw = policy.draw(400, generator=seeded())
    solarized = draw.operation == 1 + OneOperation.arms.index("solarize")
    assert set(draw.strength[solarized].abs().tolist()) == {0.125} and set(
        draw.strength[~solarized].abs().tolist()
    ) == {0.5}
    assert (
        Policy.of(OneOperation(), found=0.5).header().keys() == Policy.of(awake()).header().keys()
    )  # as it was before


@pytest.mark.parametrize(
    "shares", [{"sparkle": 0.5}, {"solarize": 1.5}, {"solarize": "much"}, {"solarize": float("nan")}]
)
def test_shares_that_there_cannot_be_are_refused(shares):
    with pytest.raises(UserError, match=r"no operation 'sparkle'|share of solarize is a number from 0 to 1"):
        Policy.of(OneOperation(), shares=shares)
