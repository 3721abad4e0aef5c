"""What the class takes and refuses in a loop of one's own: batches, labels, losses, outputs, precisions."""

import re
import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from teachaugment import TeachAugment, UserError
from teachaugment.losses import cross_entropy, non_saturating

from .test_algorithm import images, network


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), None, "divide by 255"),
        (torch.full((2, 3, 8, 8), -2.0), None, "normalize="),
        (torch.full((2, 3, 8, 8), torch.nan), None, "normalize="),
        (torch.zeros(2, 1, 8, 8), None, "channels="),
        (torch.zeros(3, 8, 8), None, "channels="),
        (torch.zeros(2, 3, 8, 8), torch.tensor([0, 4]), "num_classes="),
    ],
)
def test_a_first_batch_that_cannot_be_right_is_refused_in_one_line(x, y, message):
    with pytest.raises(UserError, match=message) as caught:
        TeachAugment(network(), num_classes=4, augmenter="neural")(x, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("augmenter", ["operations", "neural"])
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.full((4, 3, 8, 8), 2.0), torch.zeros(4).long(), "normalize="),
        (torch.zeros(4, 3, 8, 8).double(), torch.zeros(4).long(), r"float32, not torch.float64; pass images.float()"),
        (torch.zeros(4, 3, 8, 8), torch.tensor([0, 1, 2, 4]), "labels must lie in 0 … 3"),
        (torch.zeros(4, 3, 8, 8), torch.tensor([0, 1, -1, 3]), "labels must lie in 0 … 3"),
        (torch.zeros(4, 3, 8, 8), None, "labels are missing"),
        (torch.zeros(4, 3, 8, 8), torch.zeros(4), "class labels must be int64"),
        (torch.zeros(4, 3, 8, 8), torch.ones(4, 4).long(), "several classes for an image are"),
        (torch.zeros(4, 3, 8, 8), torch.ones(4, 4), "must sum up to 1"),
        (torch.zeros(4, 3, 8, 8), torch.zeros(4, 8, 8).long(), "are masks, which must move with their images"),
        (torch.zeros(4, 3, 8, 8), torch.zeros(3).long(), "4 images and 3 labels"),
    ],
)
def test_a_later_batch_that_cannot_be_right_is_refused_too(x, y, message, augmenter):
    teach = TeachAugment(network(), num_classes=4, augmenter=augmenter)
    teach(*images())
    teach.step(*images())
    for call in (teach, teach.step):
        with pytest.raises(UserError, match=re.escape(message)) as caught:
            call(x, y)
        assert "\n" not in str(caught.value)


def test_labels_of_other_whole_numbers_and_shares_are_taken():
    teach = TeachAugment(network(), num_classes=4, augmenter="neural", n_inner=1)
    x, y = images()
    for labels in (y.int(), y.to(torch.uint8), F.one_hot(y, 4).float()):
        assert teach(x, labels).shape == x.shape and teach.step(x, labels)["objective"].isfinite()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_cross_entropies_of_torch_are_known(smoothing):
    known = [nn.CrossEntropyLoss(label_smoothing=smoothing), partial(F.cross_entropy, label_smoothing=smoothing)]
    x, y = images()
    found = []
    for loss in (partial(cross_entropy, smoothing=smoothing) if smoothing else cross_entropy, *known):
        torch.manual_seed(0)
        target_loss = partial(non_saturating, smoothing=0.1) if loss not in known else None
        teach = TeachAugment(
            network().eval(), num_classes=4, augmenter="neural", n_inner=1, loss=loss, target_loss=target_loss
        )
        found.append([float(value) for value in teach.step(x, y).values()])
    assert found[0] == pytest.approx(found[1]) and found[0] == pytest.approx(found[2])


def test_a_cross_entropy_with_weights_is_another_loss_and_says_so():
    loss = nn.CrossEntropyLoss(weight=torch.ones(4))
    with pytest.warns(UserWarning, match="not in its non-saturating form"):
        assert TeachAugment(network(), num_classes=4, augmenter="neural", loss=loss).target_loss is loss
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the default maximises nothing
        TeachAugment(network(), num_classes=4, loss=loss)


def test_logits_of_an_output_are_taken():
    class Output(dict):
        """As those of Hugging Face: a mapping with attributes."""

        logits = property(lambda self: self["logits"])

    class Wrapped(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return Output(logits=self.inner(x))

    inner, batch = network().eval(), images()
    found = [
        [float(v) for v in TeachAugment(model, num_classes=4, augmenter="neural", n_inner=1).step(*batch).values()]
        for model in (inner, Wrapped(inner))
    ]
    assert found[0] == found[1]


def test_with_a_compiled_model_the_augmenters_update_is_compiled_and_the_same(monkeypatch):
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", partial(compiled, backend="aot_eager"))  # the others take half a minute
    inner, batch = network().eval(), images()
    found = []
    for model in (inner, torch.compile(inner)):
        teach = TeachAugment(model, num_classes=4, augmenter="neural", n_inner=1)
        found.append([float(value) for value in teach.step(*batch).values()])
        found.append([float(p.grad.norm()) for p in teach.augmenter.parameters() if p.grad is not None])
    assert hasattr(teach.frozen, "_torchdynamo_orig_callable")
    assert found[0] == pytest.approx(found[2], rel=1e-4) and found[1] == pytest.approx(found[3], rel=1e-3, abs=1e-6)


def test_augmentation_and_losses_stay_in_32_bits_inside_autocast():
    x, y = images()
    plain, inside = (
        TeachAugment(network().eval(), num_classes=4, augmenter="neural", n_inner=1, seed=3) for _ in range(2)
    )
    inside.target.load_state_dict(plain.target.state_dict())
    expected, drawn = plain.step(x, y), plain(x, y)
    with torch.autocast("cpu", torch.bfloat16):
        measured, made = inside.step(x, y), inside(x, y)
    assert made.dtype == torch.float32 and all(value.dtype == torch.float32 for value in measured.values())
    assert float(measured["color_distance"]) == float(expected["color_distance"])
    assert (made - drawn).abs().mean() < 0.02  # one update apart, whose gradient came through half precision
