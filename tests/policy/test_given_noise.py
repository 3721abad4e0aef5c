from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from teachaugment.augment import create
from teachaugment.augment.mlp import Live, Sources
from teachaugment.augment.neural import Noise
from teachaugment.batch import Batch
from teachaugment.errors import UserError
from teachaugment.policy.given_noise import INPUTS, write_onnx
from teachaugment.policy.policy import Policy


def awake(classes: int | None = 5, **settings: int) -> Policy:
    module = create("neural", classes=classes, **settings)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.2)
    return Policy.of(module)


@pytest.mark.parametrize("classes", [5, None])
@pytest.mark.parametrize("strength", [1.0, 0.5])
@pytest.mark.parametrize("size", [16, 120])  # the larger one reads its colours from a lattice
@torch.no_grad()
def test_it_is_the_policy_with_its_noise_given(classes, strength, size):
    policy = awake(classes, group=1).adjust(strength=strength)
    module = policy.with_noise()
    inputs = module.example(4, size, size)
    image, label, applied, z, *units = inputs
    live = Live(policy.augmenter)
    noise = Noise(applied, z, *(scores.transpose(0, 1) for scores in units))
    draw = policy.augmenter.draw_from(noise, label, Sources(live, live), group=1)
    if strength != 1:
        draw = policy.augmenter.weakened(draw, strength)
    expected = policy.augmenter.warp(policy.augmenter.color(Batch(image), draw), draw).image
    assert torch.allclose(module(*inputs), expected, atol=1e-5) and (expected - image).abs().mean() > 0.01


@torch.no_grad()
def test_it_draws_as_the_policy_draws():
    """With a group of one image, the example's noise is what the policy draws from the same generator."""
    policy = awake(group=1)
    label = torch.tensor([0, 1, 2, 3])
    drawn = policy.augmenter.noise(4, 1, torch.Generator().manual_seed(1))
    image = torch.rand(4, 3, 16, 16)
    made = policy.with_noise()(image, label, drawn.applied, drawn.z, *(u.transpose(0, 1) for u in drawn[2:]))
    assert torch.allclose(made, policy(image, label, generator=torch.Generator().manual_seed(1)), atol=1e-5)


def test_other_augmenters_have_no_such_form():
    with pytest.raises(UserError, match="only a neural augmenter"):
        Policy.of(create("dda")).with_noise()


def test_without_onnx_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"pip install '\.\[onnx\]"):
        write_onnx(awake(), tmp_path / "p.onnx", 8, 8)


@pytest.mark.slow  # torch.export alone takes some ten seconds of imports and tracing
@torch.no_grad()
def test_torch_export_gives_the_same_images_for_any_number_of_them():
    module = awake().with_noise()
    program = torch.export.export(module, module.example(3, 24, 24), dynamic_shapes=module.dynamic()).module()
    for n in (1, 3, 9):
        inputs = module.example(n, 24, 24)
        assert torch.allclose(program(*inputs), module(*inputs), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("size", [24, 120])
@torch.no_grad()
def test_onnx_gives_the_same_images(tmp_path, size):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    policy = awake()
    write_onnx(policy, tmp_path / "policy.onnx", size, size)
    session = runtime.InferenceSession(str(tmp_path / "policy.onnx"), providers=["CPUExecutionProvider"])
    module = policy.with_noise()
    inputs = module.example(7, size, size)
    (made,) = session.run(None, {k: v.contiguous().numpy() for k, v in zip(INPUTS, inputs, strict=True)})
    assert np.abs(made - module(*inputs).numpy()).max() < 1e-3 and made.shape == (7, 3, size, size)
