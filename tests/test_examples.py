"""The examples run as they stand, and the drop-in stays within the few lines it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example, tmp_path):
    if "lightning" in example.read_text():
        pytest.importorskip("lightning")
    command = [sys.executable, str(example), "--epochs", "2", "--train", "100", "--test", "100"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "accuracy" in result.stdout
    assert (tmp_path / "policy.safetensors").exists()


def test_the_drop_in_takes_at_most_four_lines_besides_the_import():
    lines = next(path for path in EXAMPLES if path.stem == "plain_loop").read_text().splitlines()
    added = [line for line in lines if line.endswith("# +") and "import" not in line]
    assert 1 <= len(added) <= 4
