"""The examples of docs/extending.md are those that tests/test_one_file_one_line.py tries."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch
from test_one_file_one_line import TOYS

from teachaugment.objectives.passes import Passes

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", TOYS)
def test_an_example_is_the_one_that_is_tried(kind):
    table, _, line, file, text = TOYS[kind]
    shown = re.search(rf'```python title="{re.escape(file)}"\n(.*?)```', PAGE, re.DOTALL)
    assert shown is not None, f"no example {file}"
    assert ast.dump(ast.parse(shown[1])) == ast.dump(ast.parse(text))
    assert re.search(rf'title="[A-Z]+ in {re.escape(table)}"}}\n{re.escape(line)}\n```', PAGE), f"no line of {table}"


@pytest.mark.parametrize("kind", TOYS)
def test_contributing_names_the_table_of_each_kind(kind):
    table, *_ = TOYS[kind]
    assert f"in `{table}` |" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_objective_of_the_page_works():
    source = next(code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def cautious" in code)
    names: dict = {}
    exec(source.rpartition("\n\nteach = ")[0], names)
    passes = Passes(torch.tensor(3.0), torch.tensor(1.0), None, lambda x, _: x, lambda x, _: x, lambda: (None, None))
    assert [float(term) for term in names["cautious"](passes)] == [1.0, 3.0, 1.0]
