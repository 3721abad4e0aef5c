"""Whatever a file holds, a mistake is one line that starts with "teachaugment: error:", and never a traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from teachaugment.commands import cli, presets
from teachaugment.commands.report import page
from teachaugment.engine import checkpoint, directory

SCRIPT = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>"


def changed(run: Path, **parts: Any) -> None:
    """A checkpoint with a right checksum and other content."""
    state = checkpoint.load(run / checkpoint.LAST)
    for key, value in parts.items():
        first, _, second = key.partition("__")
        if second:
            state[first][second] = value
        else:
            state[first] = value
    (run / checkpoint.PREVIOUS).unlink(missing_ok=True)
    checkpoint.save(run / checkpoint.LAST, state)


CONTENT: dict[str, dict[str, Any]] = {
    "no settings": {"config": None},
    "settings as a list": {"config": [1]},
    "no data": {"data": 3},
    "classes that are numbers": {"data__classes": [1, 2]},
    "a size of text": {"data__size": ["8", "8"]},
    "a size without end": {"data__size": [10**9, 10**9]},
    "an epoch of text": {"epoch": "2"},
    "no weights": {"target": {}},
    "weights of text": {"target": {"a": "b"}},
    "no optimiser": {"optimizer": 5},
    "no augmenter": {"teach": {}},
    "an augmenter of text": {"teach": "x"},
    "a setting of another kind": {"config__optim": {"lr": [1]}},
    "a best epoch of text": {"best": "x"},
    "progress of text": {"progress": "x"},
}


def test_checkpoints_whose_content_is_something_else(lab, record, tmp_path):
    times = 0
    for number, (name, parts) in enumerate(CONTENT.items()):
        run = tmp_path / str(number)
        shutil.copytree(lab.reference, run)
        (run / checkpoint.BEST).unlink()
        changed(run, **parts)
        for words in (["train", "--resume", run], ["evaluate", run], ["export", run, "-o", tmp_path / "p.safetensors"]):
            process = lab.start(*words)
            code = process.wait()  # what a command does not look at does not matter to it
            lines = process.error_lines()
            assert "Traceback" not in process.said(), (name, words, process.said())
            assert (code, len(lines)) in ((2, 1), (0, 0), (143, 0)), (name, words, process.said())
            assert "a mistake of the program" not in process.said(), (name, words, process.said())
            times += 1
    record("checkpoints with a right checksum and wrong content: one line", times)


def arrays(path: Path) -> None:
    images, labels = np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 1, 0, 1])
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)


def plain_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def other_archive(path: Path) -> None:
    """As another method packs it, and with a member that says it is encrypted."""
    arrays(path)
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as new:
        for name, content in members.items():
            new.writestr(name, content[: len(content) // 2])


def encrypted(path: Path) -> None:
    arrays(path)
    content = bytearray(path.read_bytes())
    for match in re.finditer(b"PK\x03\x04", bytes(content)):
        content[match.start() + 6] |= 1
    for match in re.finditer(b"PK\x01\x02", bytes(content)):
        content[match.start() + 8] |= 1
    path.write_bytes(content)


def text(content: str | bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content) and None


def class_folder(name: bytes, size: tuple[int, int] = (8, 8)) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        for i, folder in enumerate((name, b"other")):
            os.makedirs(os.path.join(os.fsencode(path), folder))
            for k in range(5):
                picture = Image.fromarray(np.full((*size, 3), 40 * k + i, np.uint8))
                with open(os.path.join(os.fsencode(path), folder, b"%d.png" % k), "wb") as file:
                    picture.save(file, "PNG")

    return make


def latin_classes(path: Path) -> None:
    for part in ("images", "masks"):
        (path / part).mkdir(parents=True)
        for i in range(4):
            mode = np.zeros((8, 8, 3), np.uint8) if part == "images" else np.zeros((8, 8), np.uint8)
            Image.fromarray(mode).save(path / part / f"{i}.png")
    (path / "classes.txt").write_bytes("dog\nkäse\n".encode("latin-1"))


ROW = {"strategy": "none", "seed": 0, "settings": {}, "test": {"target": 0.5}, "seconds": 1.0}
TRAIN = ["train", "--device", "cpu", "--epochs", "1"]
CASES: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "deep YAML": (text("a: " + "[" * 3000), [*TRAIN, "--config", "FILE"]),
    "deep YAML by indentation": (text("\n".join(" " * i + "a:" for i in range(1500))), [*TRAIN, "--config", "FILE"]),
    "a date": (text("train: {epochs: 2024-01-01}"), [*TRAIN, "--config", "FILE"]),
    "an impossible date": (text("seed: 2024-13-45"), [*TRAIN, "--config", "FILE"]),
    "a number of 400 digits": (text(f"optim: {{lr: {'9' * 400}}}"), [*TRAIN, "--config", "FILE"]),
    "a number of 9,000 digits": (text(f"seed: {'9' * 9000}"), [*TRAIN, "--config", "FILE"]),
    "a list of settings": (text("- 1"), [*TRAIN, "--config", "FILE"]),
    "settings that are not UTF-8": (text(b"seed: \xff"), [*TRAIN, "--config", "FILE"]),
    "an array named as an archive": (plain_array, [*TRAIN, "--data", "FILE.npz"]),
    "an archive packed otherwise and cut": (other_archive, [*TRAIN, "--data", "FILE.npz"]),
    "an encrypted archive": (encrypted, [*TRAIN, "--data", "FILE.npz"]),
    "no archive": (text("x"), [*TRAIN, "--data", "FILE.npz"]),
    "a row of numbers": (text("[1]\n"), ["compare", "--from", "FILE"]),
    "a row of deep JSON": (text("[" * 9000 + "\n"), ["compare", "--from", "FILE"]),
    "a row whose seed is text": (text(json.dumps({**ROW, "seed": "x"}) + "\n"), ["compare", "--from", "FILE"]),
    "a row whose result is text": (text(json.dumps({**ROW, "test": "x"}) + "\n"), ["compare", "--from", "FILE"]),
    "a row that is not finite": (text('{"strategy": "none", "seed": 0, "settings": {}, "test": {"target": NaN}, '
                                      '"seconds": 1}\n'), ["compare", "--from", "FILE"]),
    "a class file that is not UTF-8": (latin_classes, ["train", "--task", "segmentation", "--data", "FILE"]),
    "an output of 300 characters": (text(""), [*TRAIN, "--output", "x" * 300]),
    "a policy of deep JSON": (text(b"\xff\x7f\0\0\0\0\0\0" + b"[" * 0x7FFF), ["preview", "FILE", "x.png"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_files_that_are_something_else(lab, record, tmp_path, name):
    make, words = CASES[name]
    file = tmp_path / ("file.npz" if "FILE.npz" in words else "file")
    make(file)
    process = lab.start(*(str(file) if word.startswith("FILE") else word for word in words))
    assert process.wait() == 2 and len(process.said().splitlines()) == 1, process.said()[:2000]
    assert process.said().startswith("teachaugment: error: ") and len(process.said()) < 1000
    assert "a mistake of the program" not in process.said()
    record(f"one line: {name}", 1)


def test_odd_images_and_names_train_or_are_refused_in_words(lab, record, tmp_path):
    """1 × 1 and 4 × 4000 pixels, and names of classes that are not UTF-8."""
    cases = {"1": class_folder(b"a", (1, 1)), "2": class_folder(b"a", (4, 4000)), "3": class_folder(b"caf\xe9")}
    for name, make in cases.items():
        make(tmp_path / name)
        path = lab.fresh()
        shape = {
            "data__size": 16 if name == "2" else "none",
            "data__per_class": "none",
            "train__epochs": 1,
            "train__batch_size": 4,
        }
        process = lab.train(path, data__path=tmp_path / name, data__val_fraction=0, model__name="wrn-16-1", **shape)
        assert process.wait(300) in (0, 2), process.said()
        assert "Traceback" not in process.said() and "a mistake of the program" not in process.said(), process.said()
        if process.code == 0:
            for words in (
                ["evaluate", path],
                ["predict", path, tmp_path / name, "--output", tmp_path / f"{name}.json"],
            ):
                process = lab.start(*words)
                assert process.wait() == 0, process.said()
    record("images of 1 × 1 and 4 × 4000 pixels, classes that are not UTF-8: trained, or refused in words", len(cases))


def imported_for(photos: Path) -> None:
    """All that a training imports: for another user, the files of the package may be out of reach."""
    flags = ["--data.size", "8", "--data.in_memory", "never", "--epochs", "1", "--device", "cpu"]
    flags += ["--strategy", "teachaugment", "--teach.n_inner", "2"]
    assert cli.main(["train", "--data", str(photos), *flags, "--output", str(photos.parent / "first")]) == 0


def test_without_a_home_or_a_name(lab, record, photos):
    """As in a container whose user has no entry."""

    def prepare() -> None:
        for name in ("HOME", "XDG_CACHE_HOME", "USER", "LOGNAME"):
            os.environ.pop(name, None)
        os.setuid(54321)

    if os.getuid() != 0:
        pytest.skip("needs the right to become somebody else")
    imported_for(photos)
    os.chmod(lab.root, 0o777)
    for parent in (lab.root, *lab.root.parents, photos, *photos.parents):
        if parent.stat().st_uid == os.getuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o777)
    path = lab.fresh()
    process = lab.train(path, prepare=prepare, data__path=photos, data__size=8, data__per_class="none",
                        data__in_memory="never", train__epochs=1)  # fmt: skip
    assert process.wait() == 0, process.said()
    record("no home directory and no entry for the user: trained", 1)


def test_folders_that_cannot_be_read(lab, record, photos):
    if os.getuid() != 0:
        pytest.skip("needs the right to become somebody else")
    imported_for(photos)
    for parent in (lab.root, *lab.root.parents, photos, *photos.parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o777)
    for mode in (0o000, 0o444):
        (photos / "cat").chmod(mode)
        process = lab.start("train", "--data", photos, "--device", "cpu", prepare=lambda: os.setuid(54321))
        assert process.wait() == 2 and len(process.said().splitlines()) == 1, process.said()
        assert str(photos / "cat") in process.said()
    (photos / "cat").chmod(0o755)
    record("folders that cannot be read or searched: one line", 2)


def test_what_nobody_has_foreseen_is_one_line_with_a_file(monkeypatch, capsys):
    def fail(arguments: Any) -> int:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(presets, "run", fail)
    assert cli.main(["presets"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("teachaugment: error: teachaugment presets: ZeroDivisionError: by zero; a mistake of")
    file = Path(line.rpartition(" ")[2])
    assert "in fail" in file.read_text() and file.stat().st_mode & 0o077 == 0
    file.unlink()
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")):
        monkeypatch.setattr(presets, "run", lambda _, error=error: (_ for _ in ()).throw(error))
        assert cli.main(["presets"]) == 2
        assert "out of memory; smaller batches" in capsys.readouterr().err


# --- the report ------------------------------------------------------------------------------------------------------


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def hostile(tree: Any) -> Any:
    """Every text becomes a script, and every number a text."""
    if isinstance(tree, dict):
        return {(key if len(key) < 40 else SCRIPT): hostile(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [hostile(value) for value in tree]
    return SCRIPT


@pytest.mark.parametrize("where", ["settings", "log", "metrics", "all", "names"])
def test_no_value_of_a_run_becomes_a_script(lab, record, tmp_path, where):
    run = tmp_path / SCRIPT.replace("/", "-")
    shutil.copytree(lab.reference, run)
    (run / checkpoint.LAST).unlink()  # a stranger sends what a report reads
    (run / checkpoint.PREVIOUS).unlink()
    if where in ("settings", "all"):
        text = (run / directory.CONFIG).read_text()
        (run / directory.CONFIG).write_text(re.sub(r"(?m)^(\s+\w+): (?!$).*$", rf"\1: '{SCRIPT}'", text))
    if where in ("log", "all"):
        lines = [json.loads(line) for line in (run / directory.LOG).read_text().splitlines()]
        kept = [{**hostile(line), "event": line["event"], "epoch": line.get("epoch", 0)} for line in lines]
        (run / directory.LOG).write_text("".join(json.dumps(line) + "\n" for line in kept))
    metrics = json.loads((run / directory.METRICS).read_text())
    if where in ("metrics", "all"):
        (run / directory.METRICS).write_text(json.dumps(hostile(metrics)))
    if where == "names":
        metrics["classes"] = [SCRIPT] * len(metrics["classes"])
        (run / directory.METRICS).write_text(json.dumps(metrics))
    for words in (["report", run], ["report", run, run, "-o", tmp_path / "both.html"]):
        process = lab.start(*words)
        assert process.wait() == 0 and "Traceback" not in process.said(), process.said()
        written = (tmp_path / "both.html" if len(words) > 2 else run / directory.REPORT).read_text()
        elements = Elements()
        elements.feed(written)
        assert [tag for tag, _ in elements.found].count("script") == 1
        assert not [tag for tag, attributes in elements.found for name in attributes if name.startswith("on")]
        assert not [1 for tag, attributes in elements.found if tag == "img" and attributes.get("src") == "x"]
        (policy,) = [a["content"] for t, a in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
        (scripts,) = [part for part in str(policy).split(";") if "script-src" in part]
        assert "sha256-" in scripts and "unsafe" not in scripts
        assert (page.TEMPLATES / "script.js").read_text() in written
    record(f"scripts in the {where} of a run: its report shows them as text", 2)


def test_damaged_metrics_in_a_comparison(tmp_path):
    from teachaugment.commands.compare import rows
    from teachaugment.commands.compare.plan import Run
    from teachaugment.config.resolve import resolve
    from teachaugment.errors import UserError

    run = Run("none", 0, resolve(), tmp_path)
    good = {"event": "epoch", "epoch": 1, "train": {}, "time": {"seconds": 1.0}}
    for log, metrics in (("{", "{}"), (json.dumps(good), "[" * 9000), (json.dumps(good), "{}"), ("[1]", "{}")):
        (tmp_path / directory.LOG).write_text(f"{log}\n")
        (tmp_path / directory.METRICS).write_text(metrics)
        with pytest.raises(UserError, match="damaged"):
            rows.collect(run, {}, 1)
        assert not rows.trained(run)
