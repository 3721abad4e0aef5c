from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment.commands import cli
from teachaugment.data.codes import class_file
from teachaugment.engine import checkpoint, directory, restore
from teachaugment.networks import evaluating
from teachaugment.tasks.segmentation.overlay import palette


def table(file: Path) -> list[dict[str, str]]:
    with open(file, newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def error(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """The one line of a command that fails."""
    capsys.readouterr()
    assert cli.main(["predict", *words]) == code
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1, said
    return said.err


def evaluated(run: Path, which: str, model: str) -> dict[str, list[float]]:
    """What an evaluation of the run sees: a network's probabilities for each file of the test split."""
    trainer, _ = restore.load_run(directory.settings_of(run), run, which)
    target, task, keys = trainer.models()[model], trainer.task, trainer.data.test.source.keys
    found = {}
    with torch.no_grad(), evaluating(target):
        for batch in trainer.batches("test"):
            output = task.predict(target, task.normalize(batch.image))
            found |= {keys[i]: p for i, p in zip(batch.index.tolist(), task.answers(output).tolist(), strict=True)}
    return found


# --- classes --------------------------------------------------------------------------------------------------------


def chosen(run: Path) -> str:
    """Target or teacher, whichever was better in the best epoch."""
    return checkpoint.load(run / checkpoint.BEST)["best"]["model"]


@pytest.mark.parametrize("which", ["best", "last"])
def test_predictions_are_those_of_an_evaluation_image_by_image(photo_run, photographs, tmp_path, capsys, which):
    test, file = photographs / "test", tmp_path / "p.csv"
    assert cli.main(["predict", str(photo_run), str(test), "-o", str(file), "--checkpoint", which, "--top", "4"]) == 0
    said = capsys.readouterr().err
    model = chosen(photo_run) if which == "best" else "target"
    expected, rows = evaluated(photo_run, which, model), table(file)
    assert [row["image"] for row in rows] == sorted(str(test / key) for key in expected)
    classes = sorted(entry.name for entry in test.iterdir())
    for row in rows:
        probabilities = expected[Path(row["image"]).relative_to(test).as_posix()]
        for number in ("", "_2", "_3", "_4"):
            p = probabilities[classes.index(row[f"class{number}"])]
            assert float(row[f"probability{number}"]) == pytest.approx(p, abs=2e-6)
        assert row["class"] == classes[int(np.argmax(probabilities))]
        assert row["true_class"] == Path(row["image"]).parent.name
    assert cli.main(["evaluate", str(photo_run), "--checkpoint", which, "--json"]) == 0
    accuracy = json.loads(capsys.readouterr().out)["test"][model]["accuracy"]
    right = sum(row["class"] == row["true_class"] for row in rows)
    assert right / len(rows) == accuracy
    assert f"{100 * accuracy:.1f} % right: {right} of the {len(rows)} images" in said and f"({which}.pt)" in said


def test_batches_and_workers_change_nothing(photo_run, photographs, tmp_path):
    words = ["predict", str(photo_run), str(photographs / "test"), "-o"]
    assert cli.main([*words, str(tmp_path / "a.csv")]) == 0
    assert cli.main([*words, str(tmp_path / "b.csv"), "--batch-size", "3", "--workers", "2"]) == 0
    one, other = table(tmp_path / "a.csv"), table(tmp_path / "b.csv")
    assert [(row["image"], row["class"]) for row in one] == [(row["image"], row["class"]) for row in other]


def test_the_best_epoch_is_taken_where_there_is_one_and_the_teacher_if_asked_for(
    photo_run, photographs, tmp_path, capsys
):
    image = str(next((photographs / "test").rglob("*.jpg")))
    assert cli.main(["predict", str(photo_run), image]) == 0
    assert f"the {chosen(photo_run)} of epoch" in (said := capsys.readouterr()).err and "(best.pt)" in said.err
    files = [tmp_path / name for name in ("target.json", "teacher.json")]
    for which, file in zip(("target", "teacher"), files, strict=True):
        assert cli.main(["predict", str(photo_run), image, "-o", str(file), "--which", which]) == 0
    found = [json.loads(file.read_text())[0] for file in files]
    assert found[0]["probability"] != found[1]["probability"] and "the teacher of epoch" in capsys.readouterr().err


def test_lines_of_a_terminal_show_what_is_wrong(photo_run, photographs, capsys):
    assert cli.main(["predict", str(photo_run), str(photographs / "test"), "--top", "2"]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert len(lines) == len(list((photographs / "test").rglob("*.jpg")))
    for line in lines:
        image, answer = line.split("  ", 1)
        true, first = Path(image.strip()).parent.name, answer.strip().split()[0]
        assert answer.count("%") == 2 and ("(is " in answer) == (first != true)


def test_json_has_an_object_for_each_image(photo_run, photographs, tmp_path):
    few = [str(path) for path in sorted((photographs / "test").rglob("*.jpg"))[:3]]
    for name in ("a.json", "a.jsonl"):
        assert cli.main(["predict", str(photo_run), *few, "-o", str(tmp_path / name), "--top", "2"]) == 0
    rows = json.loads((tmp_path / "a.json").read_text())
    assert rows == [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["image"] for row in rows] == few
    assert rows[0].keys() == {"image", "class", "probability", "top"} and rows[0]["top"][0]["class"] == rows[0]["class"]


def test_paths_come_from_standard_input(photo_run, photographs, tmp_path, monkeypatch, capsys):
    few = [str(path) for path in sorted((photographs / "test").rglob("*.jpg"))[:2]]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*few, str(tmp_path / "gone.jpg"), ""])))
    assert cli.main(["predict", str(photo_run), "-"]) == 1
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == few
    assert "gone.jpg: No such file" in said.err and "1 of 3 images could not be read" in said.err


def test_unreadable_files_are_named_and_skipped(photo_run, photographs, tmp_path, capsys):
    folder, file = tmp_path / "folder", tmp_path / "p.csv"
    shutil.copytree(photographs / "test", folder)
    (folder / "half.jpg").write_bytes(next(folder.rglob("*.jpg")).read_bytes()[:300])
    (folder / "text.png").write_text("not an image")
    (folder / "notes.txt").write_text("nobody takes this for an image")
    assert cli.main(["predict", str(photo_run), str(folder), "-o", str(file)]) == 1
    said = capsys.readouterr().err
    assert "half.jpg" in said and "text.png: not an image in a known format\n" in said and "notes.txt" not in said
    assert "bad_images" not in said
    names = {Path(row["image"]).name for row in table(file)}
    assert len(names) == len(list((photographs / "test").rglob("*.jpg"))) and "half.jpg" not in names


def test_what_is_wrong_is_said_in_one_line(photo_run, photographs, tmp_path, capsys):
    run, image = str(photo_run), str(next((photographs / "test").rglob("*.jpg")))
    (tmp_path / "empty").mkdir()
    (tmp_path / "none.png").write_text("not an image")
    assert "has no images" in error(capsys, run, str(tmp_path / "empty"))
    assert "there is no image or folder" in error(capsys, run, str(tmp_path / "nothing.jpg"))
    assert "must end in .csv, .json or .jsonl" in error(capsys, run, image, "-o", str(tmp_path / "p.txt"))
    assert "there is no folder" in error(capsys, run, image, "-o", str(tmp_path / "no" / "p.csv"))
    assert "is not a run directory" in error(capsys, image, image)
    assert "has no config.yaml" in error(capsys, str(tmp_path), image)
    assert "--top" in error(capsys, run, image, "--top", "0")
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(photo_run / directory.CONFIG, bare)
    assert "has no checkpoint yet" in error(capsys, str(bare), image)
    (bare / checkpoint.LAST).write_bytes(b"something else")
    assert "is damaged or not a checkpoint" in error(capsys, str(bare), image)
    out = tmp_path / "p.csv"
    said = error(capsys, run, str(tmp_path / "none.png"), "-o", str(out), code=1)
    assert "none.png: not an image in a known format" in said and not out.exists()


def test_a_run_without_labels_has_no_classes_to_predict(fast, folder, tmp_path, capsys):
    words = ["--task", "simsiam", "--views.dim", "8", "--views.hidden", "4", "--output", str(tmp_path / "run")]
    assert cli.main(["train", *fast, *words]) == 0
    assert "learns features, not classes" in error(capsys, str(tmp_path / "run"), str(folder))


# --- masks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def scenes(tmp_path) -> Path:
    """Images of two sizes, one after the other, and masks beside them."""
    random = np.random.default_rng(1)
    for i in range(5):
        for kind in ("images", "masks"):
            (tmp_path / "scenes" / kind).mkdir(parents=True, exist_ok=True)
            rows = random.integers(0, 256, (16, 16 + 8 * (i % 2), 3), dtype=np.uint8)
            Image.fromarray(rows).save(tmp_path / "scenes" / kind / f"{i}.png")
    return tmp_path / "scenes"


def test_a_mask_of_each_image_is_written_with_the_names_of_the_classes(mask_run, scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["predict", str(mask_run), "scenes"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()[:-1]]
    assert shown == [f"scenes/images/{i}.png" for i in range(5)]  # in their order, and no mask among them
    trainer, _ = restore.load_run(directory.settings_of(mask_run), mask_run)
    for i in range(5):
        with Image.open(f"scenes/images/{i}.png") as opened:
            image = torch.from_numpy(np.array(opened)).permute(2, 0, 1)[None].float() / 255
        with torch.no_grad(), evaluating(trainer.target):
            expected = trainer.target(trainer.task.normalize(image)).argmax(1)[0]
        with Image.open(f"predictions/images/{i}.png") as mask:
            assert mask.mode == "P" and torch.equal(torch.from_numpy(np.array(mask)).long(), expected)
    names, colors = class_file(tmp_path / "predictions" / "classes.txt")
    assert names == trainer.task.classes and colors == palette(len(names))


def test_a_table_of_masks_has_shares_and_files(mask_run, scenes, tmp_path, capsys):
    file = tmp_path / "found.csv"
    assert cli.main(["predict", str(mask_run), str(scenes), "-o", str(file), "--top", "20"]) == 0
    for row in table(file):
        shares = [float(value) for name, value in row.items() if name.startswith("share") and value]
        assert sum(shares) == pytest.approx(1, abs=1e-4) and shares == sorted(shares, reverse=True)
        with Image.open(row["mask"]) as mask:
            assert Path(row["mask"]).parent == tmp_path / "found" / "images"
            assert np.unique(np.array(mask)).size == len(shares)


def test_masks_never_take_the_place_of_images(mask_run, scenes, capsys):
    before = {path: path.read_bytes() for path in scenes.rglob("*.png")}
    said = error(capsys, str(mask_run), str(scenes / "images"), "-o", f"{scenes}.csv")
    assert "choose another --output" in said
    assert {path: path.read_bytes() for path in scenes.rglob("*.png")} == before


def test_images_of_one_name_get_masks_of_their_own(mask_run, scenes, tmp_path):
    (tmp_path / "other").mkdir()
    shutil.copy(scenes / "images" / "0.png", tmp_path / "other" / "0.png")
    given = [str(scenes / "images" / "0.png"), str(tmp_path / "other" / "0.png")]
    assert cli.main(["predict", str(mask_run), *given, "-o", str(tmp_path / "p.json")]) == 0
    masks = [row["mask"] for row in json.loads((tmp_path / "p.json").read_text())]
    assert [Path(mask).name for mask in masks] == ["0.png", "0-2.png"]
    assert Path(masks[0]).read_bytes() == Path(masks[1]).read_bytes()
