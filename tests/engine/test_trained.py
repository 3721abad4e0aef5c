"""``load_model``: a run's network in the hands of a program."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from small import settings, train

from teachaugment import UserError, load_model
from teachaugment.engine import checkpoint, directory

BASE = {"data.per_class": 2, "data.size": 16, "train.batch_size": 4, "train.epochs": 1, "device": "cpu"}


def trained(path: Path, **changed) -> Path:
    train(settings({**BASE, "train.tensorboard": False, "output": str(path)}, changed), tests=2)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    torch.set_num_threads(1)
    return trained(tmp_path_factory.mktemp("runs") / "run")


def close(found, expected) -> None:
    torch.testing.assert_close(found.probabilities, expected.probabilities, atol=1e-6, rtol=0)


def test_the_model_knows_what_the_run_was_about(run):
    model, saved = load_model(run), checkpoint.load(run / checkpoint.LAST)["data"]
    assert (model.classes, list(model.size), list(model.mean)) == (saved["classes"], saved["size"], saved["mean"])
    assert model.name == "cnn-4" and model.channels == 3 and not model.network.training
    assert not any(p.requires_grad for p in model.network.parameters())


def test_an_image_may_come_in_any_form(run, tmp_path):
    model, pixels = load_model(str(run)), torch.randint(0, 256, (3, 16, 16), dtype=torch.uint8)
    rows = pixels.permute(1, 2, 0).numpy()
    picture = Image.fromarray(rows)
    picture.save(tmp_path / "x.png")
    with torch.no_grad():
        logits = model.network(model.task.normalize(pixels[None].float() / 255))
    one = model.predict(pixels)
    torch.testing.assert_close(one.probabilities, logits.softmax(1)[0], atol=1e-6, rtol=0)
    assert one.label == model.classes[int(logits.argmax())] == one.top(1)[0][0] and 0 < one.probability < 1
    forms = [pixels.float() / 255, picture, rows, rows / 255, tmp_path / "x.png", str(tmp_path / "x.png")]
    for form in forms:
        close(model.predict(form), one)
    assert picture.getpixel((0, 0)) == tuple(rows[0, 0].tolist())  # the user's own image is not closed
    several = model.predict(forms, batch_size=4)
    assert len(several) == 6
    for each in [*several, *model.predict(torch.stack([pixels] * 2)), *model.predict(np.stack([rows] * 3))]:
        close(each, one)
    assert model.predict([]) == []


def test_an_image_of_another_size_is_read_as_an_evaluation_reads_it(run, tmp_path):
    model, rows = load_model(run), np.random.default_rng(0).integers(0, 256, (30, 44, 3), dtype=np.uint8)
    Image.fromarray(rows).save(tmp_path / "large.png")
    one = model.predict(tmp_path / "large.png")
    for form in (rows, Image.fromarray(rows), torch.from_numpy(rows).permute(2, 0, 1), rows.astype("float32") / 255):
        close(model.predict(form), one)
    assert not torch.allclose(model.predict(rows[:30, :30]).probabilities, one.probabilities)


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (torch.zeros(3, 16, 16) - 2, "give images in [0, 1]"),
        (torch.zeros(1, 16, 16), "the network takes [3, height, width]"),
        (torch.zeros(3, 16, 16, dtype=torch.int64), "give uint8, or float"),
        (np.zeros(5), "[height, width, channels]"),
        (7, "is a int"),
        ("nothing.png", "cannot read image nothing.png: No such file"),
    ],
)
def test_what_is_no_image_is_said_in_one_line(run, image, says):
    with pytest.raises(UserError) as error:
        load_model(run).predict([image])
    assert says in str(error.value) and "\n" not in str(error.value) and "bad_images" not in str(error.value)


def test_the_teacher_and_either_checkpoint_can_be_had(run, tmp_path):
    state = checkpoint.load(run / checkpoint.LAST)
    weights = load_model(run, which="teacher").network.state_dict()
    assert all(torch.equal(value, state["teach"]["teacher"]["model"][name]) for name, value in weights.items())
    plain = trained(tmp_path / "plain", augment__strategy="none", data__val_fraction=0.5, data__per_class=4)
    best = {**checkpoint.load(plain / checkpoint.BEST)}
    best["target"] = {name: value * 0 for name, value in best["target"].items()}
    checkpoint.save(plain / checkpoint.BEST, {key: value for key, value in best.items() if key != "format"})
    sums = [
        float(next(load_model(plain, checkpoint=c).network.parameters()).abs().sum()) for c in (None, "best", "last")
    ]
    assert sums[0] == sums[1] == 0 < sums[2]
    assert load_model(plain).which == "target" and load_model(plain).file == plain / checkpoint.BEST
    with pytest.raises(UserError, match="has no teacher: its strategy was none"):
        load_model(plain, which="teacher")
    with pytest.raises(UserError, match="must be one of target, teacher"):
        load_model(run, which="student")


def test_the_network_that_was_chosen_with_the_best_epoch_is_taken(run, tmp_path):
    state = {key: value for key, value in checkpoint.load(run / checkpoint.LAST).items() if key != "format"}
    shutil.copy(run / directory.CONFIG, tmp_path)
    checkpoint.save(tmp_path / checkpoint.BEST, {**state, "best": {"epoch": 1, "accuracy": 0.5, "model": "teacher"}})
    assert load_model(tmp_path).which == "teacher" and load_model(tmp_path, which="target").which == "target"
    weights = load_model(tmp_path).network.state_dict()
    assert all(torch.equal(value, state["teach"]["teacher"]["model"][name]) for name, value in weights.items())


@pytest.mark.parametrize("which", ["target", "teacher"])
def test_a_run_in_half_precision_predicts_as_it_was_evaluated(tmp_path, which):
    run = trained(tmp_path / "run", train__amp="bf16")
    model, image = load_model(run, which=which), torch.rand(2, 3, 16, 16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = model.network(model.task.normalize(image)).float().softmax(1)
    found = torch.stack([each.probabilities for each in model.predict(image)])
    assert torch.equal(found, expected)


def test_images_without_colour_are_read_for_a_network_without_colour(tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (20, 12, 12), dtype=np.uint8)
    labels = np.arange(20) % 2
    np.savez(tmp_path / "grey.npz", x_train=rows, y_train=labels, x_test=rows, y_test=labels)
    run = trained(tmp_path / "run", data__path=str(tmp_path / "grey.npz"), data__size=None)
    Image.fromarray(rows[0]).save(tmp_path / "grey.png")
    model = load_model(run)
    assert model.channels == 1
    for form in (tmp_path / "grey.png", torch.from_numpy(rows[:1]), Image.fromarray(rows[0]).convert("RGB")):
        close(model.predict(form), model.predict(rows[0]))


def test_the_data_of_a_run_may_be_gone(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(4):
            rows = np.random.default_rng(i).integers(0, 256, (12, 12, 3), dtype=np.uint8)
            Image.fromarray(rows).save(tmp_path / "photos" / name / f"{i}.png")
    run = trained(tmp_path / "run", data__path=str(tmp_path / "photos"), data__size=None, data__per_class=None)
    before = load_model(run).predict(rows)
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    after = load_model(run)
    assert after.classes == ["cat", "dog"] and after.size == (12, 12)
    close(after.predict(rows), before)


def test_a_segmenter_gives_masks_of_the_images_size(tmp_path):
    run = trained(tmp_path / "run", task="segmentation")
    found = load_model(run).predict([torch.rand(3, 16, 16), torch.rand(3, 24, 32), torch.rand(3, 16, 16)])
    assert [tuple(each.mask.shape) for each in found] == [(16, 16), (24, 32), (16, 16)]
    assert sum(share for _, share in found[1].top(99)) == pytest.approx(1)


def test_runs_that_are_none_and_runs_without_classes_get_one_line(tmp_path):
    run = trained(tmp_path / "run", task="byol", views__dim=8, views__hidden=4)
    with pytest.raises(UserError, match="has no classes to predict: the task byol learns features"):
        load_model(run)
    with pytest.raises(UserError, match="is not a run directory"):
        load_model(tmp_path / "run" / directory.CONFIG)


@pytest.mark.parametrize("name", ["classification", "segmentation", "consistency"])
def test_a_run_of_version_0_1_is_loaded(name, tmp_path):
    with tarfile.open(Path(__file__).parents[1] / "fixtures" / "v0.1" / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    model = load_model(tmp_path / name)
    assert model.preparation.centre == 1 and len(model.predict(torch.rand(2, 3, *model.size))) == 2


def test_the_name_costs_nothing_until_it_is_used():
    code = (
        "import sys, teachaugment as t; assert 'torch' not in sys.modules; t.load_model; assert 'torch' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0
