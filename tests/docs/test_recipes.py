"""The programs of docs/recipes.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.transforms import v2

from teachaugment import Batch, TeachAugment

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))


class WithLogits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, images: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.inner(images))


def network(channels: int = 3) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    )


def names() -> dict[str, Any]:
    torch.manual_seed(0)
    model, segmenter = network(), nn.Conv2d(3, 4, 1)
    loader = [(torch.rand(8, 3, 16, 16), torch.randint(10, (8,))) for _ in range(8)]
    optimizer = torch.optim.SGD([*model.parameters(), *segmenter.parameters()], 0.05)
    return {
        **{"TeachAugment": TeachAugment, "Batch": Batch, "torch": torch, "nn": nn, "v2": v2, "epochs": 2, "steps": 16},
        **{name: getattr(F, name) for name in ("cross_entropy", "huber_loss", "one_hot")},
        **{
            "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
            "normalize": lambda x: (x - 0.5) / 0.2,
        },
        **{"model": model, "segmenter": segmenter, "loader": loader, "optimizer": optimizer, "hf_model": WithLogits()},
        **{"scenes": [(torch.rand(4, 3, 16, 16), torch.randint(4, (4, 16, 16)))] * 6},
        **{"grey_model": network(1), "four_model": network(4)},
    }


def test_there_are_recipes():
    assert len(RECIPES) == len(re.findall(r"```python", PAGE)) == len(re.findall("^## ", PAGE, re.MULTILINE)) >= 9


@pytest.mark.parametrize("own", [{}, {"augmenter": "neural", "n_inner": 2}], ids=["default", "paper"])
@pytest.mark.parametrize("title", RECIPES)
def test_the_recipe_runs_and_the_augmentation_follows(title, own):
    given = names()
    if "timm" in RECIPES[title]:
        given["timm"] = pytest.importorskip("timm")
        __import__("timm.optim"), __import__("timm.utils")
    made = []
    given["TeachAugment"] = lambda *a, **k: made.append(TeachAugment(*a, **k, **own)) or made[-1]
    exec(RECIPES[title], given)
    for teach in made:
        assert teach.steps >= 2 and all(p.isfinite().all() for p in teach.augmenter.parameters())
        if own:
            assert any(state["step"] > 0 for state in teach.optimizer.state.values())
        else:
            assert teach.governor is not None and teach.governor.total == given["steps"]
            assert teach.governor.counts is not None and teach.governor.counts.isfinite().all()
