import json

import pytest
import torch
from safetensors.torch import save_file

from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.errors import UserError
from teachaugment.policy import Policy


def augmenter():
    module = NeuralAugmenter(3, 5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.2)
    return module


def test_a_saved_policy_comes_back_bit_for_bit(tmp_path):
    policy = Policy.of(augmenter(), {"data": "shapes"})
    policy.save(tmp_path / "policy.safetensors")
    loaded = Policy.load(tmp_path / "policy.safetensors")
    images, labels = torch.rand(6, 3, 8, 8), torch.randint(5, (6,))
    a, b = (p(images, labels, generator=torch.Generator().manual_seed(0)) for p in (policy, loaded))
    assert torch.equal(a, b)
    assert loaded.about == {"data": "shapes"}
    assert not torch.equal(a, images)


def test_a_policy_does_not_follow_further_training():
    module = augmenter()
    policy = Policy.of(module)
    before = policy.augmenter.log_odds.clone()
    with torch.no_grad():
        module.log_odds.add_(1)
    assert torch.equal(policy.augmenter.log_odds, before)
    assert module.log_odds.requires_grad


def test_a_policy_works_without_labels():
    assert Policy.of(augmenter())(torch.rand(3, 3, 8, 8)).shape == (3, 3, 8, 8)


@pytest.mark.parametrize("kind", ["missing", "text", "no header", "other version", "wrong shape"])
def test_files_that_are_no_policy_are_refused_in_one_line(tmp_path, kind):
    path = tmp_path / "x.safetensors"
    if kind == "text":
        path.write_text("hello")
    elif kind == "no header":
        save_file({"a": torch.zeros(1)}, path)
    elif kind == "other version":
        save_file({"a": torch.zeros(1)}, path, metadata={"teachaugment": json.dumps({"format": 99})})
    elif kind == "wrong shape":
        header = {"format": 1, "augmenter": {"channels": 3, "classes": 2}}
        save_file({"a": torch.zeros(1)}, path, metadata={"teachaugment": json.dumps(header)})
    with pytest.raises(UserError, match=r"x\.safetensors") as caught:
        Policy.load(path)
    assert "\n" not in str(caught.value)
