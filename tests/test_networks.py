from __future__ import annotations

import torch

from teachaugment.networks import as_it_trains, evaluating


def normed() -> torch.nn.Sequential:
    """A network whose running statistics are of no use yet."""
    torch.manual_seed(0)
    norms = torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)
    norms[1].eval()  # frozen
    return torch.nn.Sequential(*norms, torch.nn.Dropout(0.5))


def test_as_it_trains_uses_the_statistics_of_the_batch_and_leaves_none():
    model, x = normed(), 5 + 3 * torch.randn(8, 3, 6, 6)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with as_it_trains(model):
        seen = model(x)
        assert torch.equal(seen, model(x))  # no dropout
    assert seen.mean().abs() < 1e-4 and (seen.std() - 1).abs() < 0.01
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert [m.training for m in model] == [True, False, True] and all(m.track_running_stats for m in model[:2])
    with evaluating(model):
        assert model(x).mean() > 4
    model[0].eval()
    with as_it_trains(model):
        assert model(x).mean() > 4  # both are frozen
