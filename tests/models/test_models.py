"""Networks by name: their sizes, their shapes, and what a wrong name says."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

from teachaugment.errors import UserError
from teachaugment.models import MODELS, create

# At the classes of each network's data set and 3 channels. The numbers of the papers (WRN 2.2 M and 36.5 M, Shake-Shake
# 2.9 M and 26.2 M, PyramidNet 26.2 M, ResNet-50 25.6 M) in full.
PARAMETERS = {
    "cnn-4": 391_466,
    "wrn-16-1": 175_066,
    "wrn-16-2": 691_674,
    "wrn-28-10": 36_479_194,
    "wrn-40-2": 2_243_546,
    "shake-26-2x16d": 735_514,
    "shake-26-2x32d": 2_923_162,
    "shake-26-2x96d": 26_192_922,
    "pyramidnet-29-24": 142_476,
    "pyramidnet-272-200": 26_210_842,
    "resnet-18-cifar": 11_173_962,
    "resnet-50": 25_557_032,
}
SMALL = ["cnn-4", "wrn-16-1", "shake-26-2x16d", "pyramidnet-29-24"]
PUBLISHED = {  # millions, as their papers and the tables of Fast AutoAugment round them
    "wrn-40-2": 2.2, "wrn-28-10": 36.5, "shake-26-2x32d": 2.9, "shake-26-2x96d": 26.2, "pyramidnet-272-200": 26.2,
    "resnet-50": 25.6,
}  # fmt: skip


def test_every_model_of_the_table_has_a_known_size():
    assert {name for name, model in MODELS.items() if model.task == "classification"} == PARAMETERS.keys()


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_count(name):
    with torch.device("meta"):  # no memory, no time
        model = create(name, num_classes=MODELS[name].classes)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name):
    assert PARAMETERS[name] / 1e6 == pytest.approx(PUBLISHED[name], rel=0.02 if PUBLISHED[name] < 3 else 0.01)


@pytest.mark.parametrize("name", [*SMALL, "wrn-16-2", "wrn-40-2", "shake-26-2x32d"])
def test_every_parameter_receives_a_finite_gradient(name):
    model = create(name, num_classes=7)
    logits = model(torch.rand(2, 3, 32, 32))
    assert logits.shape == (2, 7)
    F.cross_entropy(logits, torch.tensor([0, 6])).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all() and parameter.grad.any(), parameter_name


def test_wrn_28_10_runs_forward_and_backward():
    model = create("wrn-28-10", num_classes=10)
    model(torch.rand(2, 3, 8, 8)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("shake-26-2x96d", 32), ("pyramidnet-272-200", 32), ("resnet-50", 224)])
def test_the_large_networks_run_forward_and_backward(name, size):
    model = create(name, num_classes=10)
    model(torch.rand(2, 3, size, size)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("size", [(8, 8), (9, 13), (28, 28)])
def test_any_channel_count_and_size(name, channels, size):
    assert create(name, 4, channels)(torch.rand(2, channels, *size)).shape == (2, 4)


@pytest.mark.parametrize("name", SMALL)
def test_one_image_alone_works_in_both_modes(name):
    model = create(name, 4)
    image = torch.rand(1, 3, 16, 16)
    assert model(image).isfinite().all()
    assert model.eval()(image).isfinite().all()


@pytest.mark.parametrize("name", SMALL)
def test_evaluation_does_not_depend_on_batch_mates(name):
    model = create(name, 4).eval()
    images = torch.rand(3, 3, 16, 16)
    torch.testing.assert_close(model(images)[1:2], model(images[1:2]))


@pytest.mark.parametrize("name", SMALL)
def test_activations_neither_vanish_nor_explode_at_the_start(name):
    logits = create(name, 10)(torch.randn(16, 3, 32, 32))
    assert 0.05 < logits.std() < 5


def test_the_same_seed_gives_the_same_weights():
    weights = []
    for _ in range(2):
        torch.manual_seed(3)
        weights.append(torch.cat([p.flatten() for p in create("wrn-16-1", 4).parameters()]))
    assert torch.equal(*weights)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UserError, match=r"unknown model 'wrn-40_2'; did you mean 'wrn-40-2'\?"):
        create("wrn-40_2", 10)


@pytest.mark.parametrize(("num_classes", "channels"), [(0, 3), (10, 0)])
def test_a_model_without_classes_or_channels_is_refused(num_classes, channels):
    with pytest.raises(UserError, match="at least one class and one channel"):
        create("cnn-4", num_classes, channels)


def test_importing_the_table_does_not_import_torch():
    code = "import sys, teachaugment.models; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
