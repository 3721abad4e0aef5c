"""The page of ``teachaugment explore``: what strangers drop on it, write into a policy, or ask it for."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from teachaugment.augment import create
from teachaugment.commands import cli, explore
from teachaugment.policy.policy import Policy

from .test_strangers import bomb_picture

PROGRAM = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"
FETCHED = "![x](http://evil.example/x.png) <img src=http://evil.example/y.png>"


def test_what_strangers_send_to_the_page(record, tmp_path, monkeypatch):
    gradio = pytest.importorskip("gradio")
    monkeypatch.setenv("GRADIO_ALLOWED_PATHS", "/")
    monkeypatch.setenv("GRADIO_SHARE", "True")
    module = create("neural", classes=2)
    Policy.of(module, classes=["cat", FETCHED], provenance={"data": FETCHED}).save(tmp_path / "p.safetensors")
    page = explore.interface(tmp_path / "p.safetensors", str(tmp_path))
    assert "GRADIO_ALLOWED_PATHS" not in os.environ and os.environ["GRADIO_TEMP_DIR"] == str(tmp_path)
    shown = [c["props"] for c in page.config["components"] if c["type"] in ("markdown", "html")]
    assert shown and all("evil" not in str(props.get("value")) for props in shown)
    function = next(iter(page.fns.values()))
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(tmp_path / "good.png")
    good = str(tmp_path / "good.png")
    assert len(function.fn(good, "cat", 0, 1.0)) == explore.VERSIONS
    bomb_picture(tmp_path / "bomb", tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    files = {"program.eps": PROGRAM, "program.png": PROGRAM, "text.png": b"no picture"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    dropped = [*(tmp_path / name for name in files), tmp_path / "bomb" / "cat" / "0.png", tmp_path / "pipe.png"]
    for path in dropped:
        with pytest.raises(gradio.Error, match="cannot read image"):
            function.fn(str(path), "cat", 0, 1.0)
    image = function.inputs[0]
    assert image.preprocess(gradio.data_classes.ImageData(path=str(dropped[0]))) == str(dropped[0])  # not decoded
    try:
        _, address, shared = explore.launch(page, None, browser=False, wait=False)
        assert not shared and page.allowed_paths == [] and page.max_file_size == 32 * 2**20
        for host in ("evil.example", "127.0.0.1.evil.example"):
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(urllib.request.Request(address, headers={"Host": host}), timeout=60)
        with pytest.raises(urllib.error.HTTPError, match=r"403|404"):
            urllib.request.urlopen(f"{address}gradio_api/file=/etc/passwd", timeout=60)
    finally:
        page.close()
    record("the page of explore: programs, bombs and pipes as images, other names, files of this machine", 9)


def test_what_was_dropped_is_gone_at_the_end(tmp_path, monkeypatch):
    """The folder is this user's alone, and goes with the page."""
    seen: list[Path] = []

    def launch(*_: object) -> None:
        folder = Path(os.environ["GRADIO_TEMP_DIR"])
        seen.append(folder)
        (folder / "picture.png").touch()
        assert folder.stat().st_mode & 0o077 == 0
        raise SystemExit(143)  # as SIGTERM does

    pytest.importorskip("gradio")
    monkeypatch.setattr(explore, "launch", launch)
    monkeypatch.setattr(explore.signal, "signal", lambda *_: None)
    Policy.of(create("neural", classes=2)).save(tmp_path / "p.safetensors")
    with pytest.raises(SystemExit):
        cli.main(["explore", str(tmp_path / "p.safetensors")])
    assert seen and not seen[0].exists()
