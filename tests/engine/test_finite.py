from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from teachaugment.engine.finite import IN_A_ROW, Finite, check, summary
from teachaugment.errors import UserError

CPU = torch.device("cpu")


def network(gradient: float = 1.0) -> nn.Module:
    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    return module


def losses(value: float = 1.0) -> dict[str, torch.Tensor]:
    return {"loss": torch.tensor([0.5, value])}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_tensors_summary_shows_what_is_not_finite_and_nothing_else(value):
    big = torch.full((50,), 1e30)  # whose squares are not finite
    found = summary([torch.zeros(3), big, torch.tensor([1.0, value, 2.0])])
    assert found.isfinite().tolist() == [True, True, False]


def test_finite_numbers_pass():
    for on_nan in ("stop", "skip"):
        finite = Finite(on_nan, CPU)
        assert finite.update("target", network(), losses())
        finite.weights("target", network())
        finite.read()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda module, found: found["loss"].fill_(math.nan), "the target's loss is not finite at step 7"),
        (
            lambda module, found: module[2].bias.grad.fill_(math.inf),
            "gradient of the target's 2.bias is not finite",
        ),
        (lambda module, found: module[0].weight.data[1].fill_(math.nan), "the target's weight 0.weight is not finite"),
    ],
    ids=["loss", "gradient", "weight"],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "kept on the device"])
def test_the_first_number_that_is_not_finite_is_named(spoil, says, at_once):
    """On a CPU at once, otherwise when it is read, with the step in which it was."""
    finite = Finite("stop", CPU, at_once)

    def steps(begin: int, end: int) -> None:
        for finite.step in range(begin, end):
            finite.update("target", module, found)
            finite.weights("target", module)
            finite.update("augmenter", network(), {"objective": torch.zeros(())})

    module, found = network(), losses()
    steps(1, 7)
    finite.read()
    spoil(module, found)
    with pytest.raises(UserError, match=says) as error:
        steps(7, 10)
        assert not at_once
        finite.read()
    assert "at step 7" in str(error.value) and "--lr" in str(error.value)


def test_skipping_leaves_out_the_update_and_says_so_once_in_a_row():
    finite = Finite("skip", CPU)
    for finite.step in range(1, 4):
        assert not finite.update("augmenter", network(), {"color_distance": torch.tensor(math.nan)})
    assert finite.update("augmenter", network(), {"color_distance": torch.tensor(1.0)})
    assert finite.skipped == 3
    assert finite.news == ["step 1: the augmenter's color_distance is not finite; the augmenter's update is skipped"]


def test_a_weight_cannot_be_skipped():
    finite, module = Finite("skip", CPU), network(math.nan)
    module[2].weight.data.fill_(math.inf)
    with pytest.raises(UserError, match=r"the target's weight 2.weight is not finite"):
        finite.update("target", module, losses())


def test_a_run_that_skips_everything_stops():
    finite = Finite("skip", CPU)
    with pytest.raises(UserError, match=f"{IN_A_ROW} updates in a row were skipped"):
        for _ in range(IN_A_ROW + 1):
            finite.update("target", network(), losses(math.nan))


def test_a_state_with_a_number_that_is_not_finite_is_refused_by_name():
    state = {"step": 3, "target": {"a": torch.zeros(2)}, "teach": {"replay": [torch.ones(1), torch.tensor([1, 2])]}}
    check(state)
    state["teach"]["replay"][0][0] = math.nan
    with pytest.raises(UserError, match=r"teach.replay.0 is not finite at step 3: it is not saved"):
        check(state)
