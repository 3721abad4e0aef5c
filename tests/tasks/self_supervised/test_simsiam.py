from __future__ import annotations

import pytest
import small
import torch
from torch import nn

from teachaugment.batch import Batch
from teachaugment.models.simsiam import Embedding, SimSiam
from teachaugment.tasks.self_supervised.simsiam import SelfSupervised, distance

CPU = torch.device("cpu")


def task(**options: object) -> SelfSupervised:
    return SelfSupervised(small.dataset(["a", "b"]), **options)  # type: ignore[arg-type]


def batch(n: int = 8) -> Batch:
    image = torch.rand(n, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return Batch(image, torch.arange(n) % 2, torch.zeros(n, 16, 16, dtype=torch.int64))


def network() -> SimSiam:
    return SimSiam(nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten()), 48, dim=16, hidden=8, layers=2)


def test_before_makes_two_different_views_in_range():
    made = task().before(batch(), torch.Generator().manual_seed(0))
    assert len(made.others) == 1 and made.mask is None and made.label is not None
    for view in (made.image, made.others[0]):
        assert view.shape == (8, 3, 16, 16) and view.min() >= 0 and view.max() <= 1
    assert not torch.equal(made.image, made.others[0])
    again = task().before(batch(), torch.Generator().manual_seed(0))
    assert torch.equal(made.image, again.image) and torch.equal(made.others[0], again.others[0])


def test_everything_off_leaves_the_images():
    x = batch()
    made = task(flip=False, area=1.0, jitter=0, grey=0, blur=0).before(x, torch.Generator())
    assert torch.equal(made.image, x.image) and torch.equal(made.others[0], x.image)


def test_crops_that_come_with_the_batch_are_not_cropped_again():
    x = batch().replace(others=(torch.rand(8, 3, 16, 16),))
    made = task(flip=False, area=0.2, jitter=0, grey=0, blur=0).before(x, torch.Generator())
    assert torch.equal(made.image, x.image) and torch.equal(made.others[0], x.others[0])


def test_the_distance_is_the_symmetrised_negative_cosine():
    def output(z: list[float], p: list[float]) -> Embedding:
        return Embedding(torch.zeros(1, 1), torch.tensor([z]), torch.tensor([p]))

    one, two = output([1.0, 0.0], [0.0, 2.0]), output([0.0, 3.0], [1.0, 1.0])
    expected = -(1.0 + 0.5**0.5) / 2  # p1 along z2; p2 at 45 degrees to z1
    assert distance((one, two), (one, two)).item() == pytest.approx(expected, abs=1e-6)


def test_the_projections_get_no_gradient_from_the_loss():
    """Stop-gradient: the gradient is that of the predictions alone, with the projections as constants."""
    made, model, kept = task(), network(), []

    def spy(image: torch.Tensor) -> Embedding:
        output = model(image)
        output.projection.retain_grad()
        kept.append(output)
        return output

    g = torch.Generator().manual_seed(0)
    loss, _, seen = small.one_step(made, spy, batch(), generator=g)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
    one, two = kept
    constants = [output.projection.detach().clone() for output in kept]
    by_hand = (
        -(
            torch.cosine_similarity(one.prediction, constants[1]).mean()
            + torch.cosine_similarity(two.prediction, constants[0]).mean()
        )
        / 2
    )
    for mine, hand in zip(gradients, torch.autograd.grad(by_hand, parameters, retain_graph=True), strict=True):
        assert torch.allclose(mine, hand, atol=1e-7)
    through = distance((one, two), (one, two))  # without it the gradient would be another one
    others = torch.autograd.grad(through, parameters)
    assert not all(torch.allclose(mine, other, atol=1e-4) for mine, other in zip(gradients, others, strict=True))
    assert len(seen.others) == 1


def test_the_strategy_gets_both_views_and_the_model_normalised_ones():
    made, saw = task(), []
    model = network()

    def strategy(b: Batch) -> Batch:
        return b.replace(image=torch.zeros_like(b.image), others=(torch.ones_like(b.others[0]),))

    def spy(image: torch.Tensor) -> Embedding:
        saw.append(image)
        return model(image)

    g = torch.Generator().manual_seed(0)
    small.one_step(made, spy, batch(), strategy, g)
    assert torch.equal(saw[0], made.normalize(torch.zeros(8, 3, 16, 16)))
    assert torch.equal(saw[1], made.normalize(torch.ones(8, 3, 16, 16)))
