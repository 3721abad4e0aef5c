"""The examples run as they stand, and the drop-in stays within the few lines it promises."""

import importlib.util
import json
import shutil
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
    assert "accuracy" in result.stdout or "test boxes found" in result.stdout
    assert (tmp_path / "policy.safetensors").exists()


def test_fine_tuning_begins_with_the_weights_of_a_file(tmp_path):
    """Weights of another number of classes: all but the head are taken. A file that is none is not passed over."""
    timm = pytest.importorskip("timm")
    from safetensors.torch import save_file

    example = next(path for path in EXAMPLES if path.stem == "timm_finetune")
    save_file(timm.create_model("test_resnet", num_classes=1000).state_dict(), tmp_path / "w.safetensors")
    (tmp_path / "none.safetensors").write_bytes(b"nothing")
    words = [sys.executable, str(example), "--epochs", "1", "--train", "50", "--test", "20", "--weights"]
    done = [
        subprocess.run([*words, name], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        for name in ("w.safetensors", "none.safetensors")
    ]
    assert done[0].returncode == 0 and "test accuracy" in done[0].stdout, done[0].stderr
    assert done[1].returncode != 0


def test_the_drop_in_takes_at_most_four_lines_besides_the_import():
    lines = next(path for path in EXAMPLES if path.stem == "plain_loop").read_text().splitlines()
    added = [line for line in lines if line.endswith("# +") and "import" not in line]
    assert 1 <= len(added) <= 4


def test_the_notebook_runs_from_top_to_bottom_and_shows_what_came_of_it(tmp_path):
    folder = EXAMPLES[0].parent
    notebook = json.loads((folder / "first_steps.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shown = [output for cell in cells for output in cell["outputs"]]
    assert sum("image/png" in output.get("data", {}) for output in shown) == 3  # photographs, a plot, and figures
    assert "test accuracy" in json.dumps(shown) and all(output["output_type"] != "error" for output in shown)
    sources = ["".join(cell["source"]) for cell in cells]
    if importlib.util.find_spec("matplotlib") is None:
        sources = [source for source in sources if "matplotlib" not in source]
    shutil.copytree(folder / "hands", tmp_path / "hands")
    program = tmp_path / "notebook.py"
    text = "\n".join(sources).replace("epochs=100", "epochs=5").replace("epochs=10,", "epochs=2,")
    program.write_text(text, encoding="utf-8")
    result = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "test accuracy" in result.stdout and "2 snapshots" in result.stdout
    assert (tmp_path / "policy.safetensors").exists()
