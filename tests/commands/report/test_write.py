"""Reports of real runs: finished, interrupted, without images, without TeachAugment, several at once."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser

import pytest

from teachaugment.commands.cli import main
from teachaugment.engine.directory import REPORT

VOID = {"meta", "link", "img", "input", "line", "circle", "rect", "polyline", "br"}


class Page(HTMLParser):
    """Balanced elements, ids, texts of headings, and everything that would be fetched."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.scripts = 0
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.scripts += tag == "script"
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "img":
            self.images.append(values)
        self.fetched += [v for k, v in attrs if k in ("src", "href") and v and not v.startswith(("#", "data:"))]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag


def read(path) -> tuple[str, Page]:
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def test_a_run_leaves_a_report_when_it_ends(run):
    text, page = read(run / REPORT)
    assert {"diagnosis", "curves", "images", "learned", "colors", "argue", "mistakes", "cost", "settings"} <= set(
        page.ids
    )
    assert page.fetched == [] and "http" not in re.sub(r"data:[^\"]*|http-equiv", "", text)
    assert (run / REPORT).stat().st_size < 10e6
    assert all(image["alt"] for image in page.images)
    assert len(page.ids) == len(set(page.ids))
    for word in ("p<sub>c</sub>", "Rotation", "Contrast", "target, test", "squared distance", "chosen class across"):
        assert word in text


def test_names_of_strangers_stay_text(run):
    text, page = read(run / REPORT)
    assert page.scripts == 1
    assert "&lt;script&gt;alert(1)" in text and "<script>alert" not in text
    assert "quote &#34; &amp; &lt;b&gt;" in text


def test_names_and_settings_of_a_run_stay_text(run, tmp_path):
    nasty = tmp_path / '<script>alert(2)<b> & "quotes"'
    nasty.mkdir()
    shutil.copy(run / "log.jsonl", nasty)
    config = (run / "config.yaml").read_text()
    (nasty / "config.yaml").write_text(re.sub(r"path: .*", 'path: "<script>alert(3)</script>"', config))
    for runs in ([nasty], [nasty, run]):
        assert main(["report", *map(str, runs), "-o", str(tmp_path / "page.html")]) == 0
        text, page = read(tmp_path / "page.html")
        assert page.scripts == 1 and "<script>alert" not in text and "<b> &" not in text
        assert "&lt;script&gt;alert(2)&lt;b&gt; &amp; &#34;quotes&#34;" in text
        assert "&lt;script&gt;alert(3)&lt;/script&gt;" in text


def test_there_is_a_frame_for_each_snapshot_and_they_differ(run):
    _, page = read(run / REPORT)
    frames = {image["data-name"]: image["src"] for image in page.images if "data-name" in image}
    assert list(frames) == ["epoch 1", "epoch 2", "epoch 3"]
    assert len(set(frames.values())) == 3


def test_a_report_is_the_same_every_time(run, tmp_path, capsys):
    for name in ("a.html", "b.html"):
        assert main(["report", str(run), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert "a.html" in capsys.readouterr().out


def test_other_strategies_have_the_parts_that_apply(plain):
    text, page = read(plain / REPORT)
    assert {"diagnosis", "curves", "images", "mistakes", "cost", "settings"} <= set(page.ids)
    assert not {"learned", "argue", "moment"} & set(page.ids)
    assert "The target" in text


def test_an_interrupted_run_has_a_report(run, tmp_path):
    cut = tmp_path / "cut"
    cut.mkdir()
    shutil.copy(run / "config.yaml", cut)
    assert main(["report", str(cut)]) == 0
    assert "Without pictures" in (cut / REPORT).read_text(encoding="utf-8")
    shutil.copy(run / "last.pt", cut)
    shutil.copytree(run / "snapshots", cut / "snapshots")
    (cut / "log.jsonl").write_text((run / "log.jsonl").read_text().splitlines()[1] + "\n")
    assert main(["report", str(cut)]) == 0
    text, page = read(cut / REPORT)
    assert "has not finished" in text and "moment" in page.ids


def test_images_that_are_gone_are_no_reason_to_fail(run, tmp_path, capsys):
    moved = tmp_path / "moved"
    shutil.copytree(run, moved)
    config = (moved / "config.yaml").read_text()
    (moved / "config.yaml").write_text(re.sub(r"path: .*", f"path: {tmp_path}/gone", config))
    before = (moved / REPORT).read_bytes()
    assert main(["report", str(moved)]) == 0
    assert "which has pictures" in capsys.readouterr().out and (moved / REPORT).read_bytes() == before
    (moved / REPORT).unlink()
    assert main(["report", str(moved)]) == 0
    text, page = read(moved / REPORT)
    assert "without pictures" in capsys.readouterr().out
    assert "mistakes" in page.ids and "images" not in page.ids and "Without pictures" in text


def test_several_runs_are_compared(run, plain, tmp_path, capsys):
    assert main(["report", str(run), str(plain), "-o", str(tmp_path / "both.html")]) == 0
    text, page = read(tmp_path / "both.html")
    assert page.ids[-1] != "main" and {"numbers", "curves", "settings"} <= set(page.ids)
    assert "augment.strategy" in text and "optim.lr" in text and "data.path" not in text
    assert text.count("<polyline") >= 8


def test_what_is_no_run_is_refused_in_one_line(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "is not a run directory" in capsys.readouterr().err


def test_a_problem_with_the_page_never_loses_a_training(train_run, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("no ink\nsecond line")

    monkeypatch.setattr("teachaugment.commands.report.write.write_report", broken)
    with pytest.warns(UserWarning, match=r"no report.html: RuntimeError: no ink$"):
        path = train_run(tmp_path / "run", "--epochs", "1")
    assert (path / "metrics.json").exists() and not (path / REPORT).exists()


def test_masks_go_along_and_pixels_are_judged(tmp_path):
    small = ["--task", "segmentation", "--data.per_class", "2", "--data.size", "32", "--model", "unet-16-half"]
    fast = ["--epochs", "2", "--batch-size", "10", "--teach.n_inner", "1", "--teach.n_buffer", "1", "--device", "cpu"]
    fast += ["--strategy", "teachaugment"]
    path = tmp_path / "scenes"
    assert main(["train", *small, *fast, "--train.tensorboard", "false", "--output", str(path)]) == 0
    text, page = read(path / REPORT)
    assert [image["data-name"] for image in page.images if "data-name" in image] == ["epoch 1", "epoch 2"]
    assert {"diagnosis", "curves", "images", "learned", "mistakes", "cost"} <= set(page.ids)
    for sentence in ("of the pixels of augmented training images", "of the pixels of test images", "Mean IoU"):
        assert sentence in text


@pytest.mark.parametrize("strategy", ["teachaugment", "none"])
def test_without_labels_both_views_are_shown(train_run, tmp_path, strategy):
    own = ["--strategy", strategy] if strategy == "none" else []
    path = train_run(tmp_path / "views", "--task", "simsiam", *own, "--epochs", "2")
    text, page = read(path / REPORT)
    frames = [image["data-name"] for image in page.images if "data-name" in image]
    assert frames == (["epoch 1", "epoch 2"] if strategy == "teachaugment" else ["none"])
    assert {"diagnosis", "curves", "images", "cost"} <= set(page.ids) and "argue" not in page.ids
    assert "representations" in text


def test_runs_on_different_data_are_compared_with_a_warning(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    config = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(re.sub(r"path: .*", "path: /data/elsewhere", config))
    with pytest.warns(UserWarning, match="not tested on the same images"):
        assert main(["report", str(run), str(other), "-o", str(tmp_path / "both.html")]) == 0
    assert "their numbers do not compare" in (tmp_path / "both.html").read_text()
