"""Files and flags that the documentation names are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cosine_similarity

from teachaugment import Batch, TeachAugment
from teachaugment.commands import COMMANDS
from teachaugment.commands.cli import overview_parser
from teachaugment.commands.parser import spelling

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = ("src", "tests", "examples", "benchmarks", "experiments")
FILES = [f"/{path.relative_to(ROOT).as_posix()}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
# Files of other projects, and one that must not be.
ELSEWHERE = {"FastAutoAugment/archive.py", "archive.py", "genotype.py", "fast-autoaugment/FastAutoAugment/genotype.py"}
FORBIDDEN = {"utils.py"}
# Flags of torchrun, of pytest, and of the example of a command.
OTHER_FLAGS = {"--nproc-per-node", "--nnodes", "--node-rank", "--master-addr", "--master-port", "--slow", "--name"}


@cache
def known_flags() -> set[str]:
    parser, commands = overview_parser()
    for name, command in commands.items():
        COMMANDS.load(name).add_arguments(command)
    return {flag for each in (parser, *commands.values()) for flag in each._option_string_actions}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_files_that_are_there(page):
    named = set(re.findall(r"`([\w./-]+\.py)\b", page.read_text(encoding="utf-8"))) - ELSEWHERE - FORBIDDEN
    assert [name for name in sorted(named) if not any(file.endswith(f"/{name}") for file in FILES)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_flags_that_there_are(page):
    named = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*\w", page.read_text(encoding="utf-8"))) - OTHER_FLAGS
    assert {flag for flag in named if spelling(flag) not in known_flags()} == set()


def test_the_loop_of_several_views_runs():
    page = (ROOT / "docs" / "self_supervised.md").read_text(encoding="utf-8")
    source = next(code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "views=2" in code)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
    names = {
        **{"TeachAugment": TeachAugment, "Batch": Batch, "cosine_similarity": cosine_similarity},
        **{"model": model, "normalize": lambda images: images, "loader": [torch.rand(2, 4, 3, 8, 8)] * 6},
        "optimizer": torch.optim.SGD(model.parameters(), 0.1),
    }
    exec(source, names)
    assert names["teach"].steps == 6 and len(names["teach"].policies()) == 2
    assert names["first_policy"](torch.rand(2, 3, 8, 8)).shape == (2, 3, 8, 8)
