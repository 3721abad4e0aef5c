"""Settings that are not those a run was trained with: what its checkpoint says counts, and an empty file is no run."""

from __future__ import annotations

import json
import re
import shutil

from teachaugment.engine import checkpoint, directory


def test_another_seed_in_the_settings_does_not_evaluate_training_images(lab, record, photos, tmp_path):
    """The folder has no test split: the seed says which images are tested on."""
    path = lab.fresh()
    lab.finish(path, data__path=photos, data__size=8, data__per_class="none", train__epochs=1)
    right = json.loads((path / directory.METRICS).read_text())["test"]["target"]
    config = path / directory.CONFIG
    config.write_text(re.sub(r"(?m)^seed: 0$", "seed: 7", config.read_text()))
    output = tmp_path / "evaluated.json"
    process = lab.start("evaluate", path, "--output", output)
    assert process.wait() == 0, process.said()
    assert json.loads(output.read_text())["test"]["target"] == right
    for command in ("evaluate", "report", "linear"):
        process = lab.start(command, path)
        assert process.wait() == 0, process.said()
        (line,) = [line for line in process.said().splitlines() if "warning" in line]
        assert "seed: 0 -> 7" in line and "those of last.pt count" in line
    assert json.loads((path / directory.LINEAR).read_text())["seed"] == 0
    record("another seed in a run's config.yaml: evaluate, report and linear say so and take the checkpoint's", 3)


def test_settings_that_are_cut_short_are_not_gone_on_with(lab, record, tmp_path):
    whole = (lab.reference / directory.CONFIG).read_text()
    for number, text in enumerate(("", whole[: whole.index("data:")], whole[: whole.index("teach:")])):
        path = tmp_path / str(number)
        shutil.copytree(lab.reference, path)
        for name in (checkpoint.LAST, checkpoint.PREVIOUS, checkpoint.BEST):
            (path / name).unlink()
        (path / directory.CONFIG).write_text(text)
        process = lab.start("train", "--resume", path)
        assert process.wait() == 2 and len(process.said().splitlines()) == 1, process.said()
        assert "is not whole" in process.said()
    record("a config.yaml that is empty or cut short, without a checkpoint: one line", 3)
