"""The examples run as they stand, and the drop-in stays within the few lines it promises."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example, tmp_path):
    for package in ("lightning", "timm", "transformers"):
        if f"import {package}" in (text := example.read_text()) or f"from {package}" in text:
            pytest.importorskip(package, reason=f"{example.name} is not run: {package} is not installed")
    command = [sys.executable, str(example), "--epochs", "2", "--train", "100", "--test", "100"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "accuracy" in result.stdout
    assert (tmp_path / "policy.safetensors").exists()


def test_the_drop_in_takes_at_most_four_lines_besides_the_import():
    lines = next(path for path in EXAMPLES if path.stem == "plain_loop").read_text().splitlines()
    added = [line for line in lines if line.endswith("# +") and "import" not in line]
    assert 1 <= len(added) <= 4


def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    notebook = json.loads((EXAMPLES[0].parent / "first_steps.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"), "clear its outputs"
    program = tmp_path / "notebook.py"
    program.write_text("\n".join(cells).replace("range(10)", "range(2)"), encoding="utf-8")
    result = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "test accuracy" in result.stdout and "2 snapshots" in result.stdout
    assert (tmp_path / "policy.safetensors").exists()
