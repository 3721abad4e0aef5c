"""``teachaugment explore``: a page on this machine where an image meets a policy. Gradio is an extra."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teachaugment.errors import UserError
from teachaugment.terminal import escaped, print_text

if TYPE_CHECKING:
    from PIL import Image

EXAMPLES = """\
examples:
  teachaugment explore                     the policy of the newest run under runs/
  teachaugment explore runs/RUN
  teachaugment explore policy.safetensors --port 7861 --no-browser
"""

HOST = "127.0.0.1"  # never anything else: the page is for the person at this machine
NAMES = [HOST, "localhost"]  # what a browser may call it: a page of another name that leads here is a stranger's
LARGEST = "32mb"  # of an image that is dropped on the page
DRAWN = "a class drawn for each version"
VERSIONS, SIDE = 8, 320
SHOWN = 12  # classes of a run that an image is shown of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "policy", metavar="POLICY_OR_RUN", nargs="?", help="a policy file or a run directory; default: the newest run"
    )
    parser.add_argument("--port", metavar="N", type=int, help="default: the first free one from 7860 on")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(arguments: argparse.Namespace) -> int:
    path = Path(arguments.policy) if arguments.policy else newest_run(Path("runs"))
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, leave)
    with tempfile.TemporaryDirectory(prefix="teachaugment-explore-") as folder:  # for this user only, gone at the end
        page = interface(path, folder)
        launch(page, arguments.port, not arguments.no_browser)
    return 0


def leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def launch(page: Any, port: int | None, browser: bool, wait: bool = True) -> Any:
    """Serve the page on this machine only."""
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    quiet: dict[str, Any] = {"share": False, "quiet": True, "prevent_thread_lock": True}
    quiet |= {"max_file_size": LARGEST, "app_kwargs": {"middleware": [Middleware(TrustedHostMiddleware, NAMES)]}}
    try:
        served = page.launch(server_name=HOST, server_port=port, inbrowser=browser, **quiet)
    except OSError as error:
        raise UserError(f"cannot open the page on {HOST}: {str(error).splitlines()[0]}") from None
    print_text(f"{served[1]}  open on this machine only; stop it with Ctrl-C")
    if wait:
        page.block_thread()
    return served


def newest_run(root: Path) -> Path:
    """The run under ``root`` whose policy was written last."""
    found = sorted(root.glob("*/policy.safetensors"), key=lambda file: file.stat().st_mtime)
    if not found:
        raise UserError(f"there is no run with a policy under {root}/; name a policy file or a run directory")
    return found[-1].parent


def interface(path: Path, folder: str) -> Any:
    """The page: drop an image, choose class, seed and strength, see versions of it. Images come to ``folder``."""
    for name in [name for name in os.environ if name.startswith("GRADIO_")]:
        del os.environ[name]  # one of them serves any files of this machine, another one to any machine
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # nothing leaves this machine
    os.environ["GRADIO_TEMP_DIR"] = folder
    try:
        import gradio
    except ImportError:
        raise UserError("gradio is not installed; install it: pip install '.[explore]'") from None
    from teachaugment.policy.load import load_policy

    policy = load_policy(path)  # complains before the page opens
    known = policy.augmenter.settings.classes
    classes = [] if known is None else policy.classes or [str(i) for i in range(known)]

    def versions(uploaded: str | None, chosen: str, seed: float, strength: float) -> list[Image.Image]:
        try:
            return explore(path, uploaded, None if chosen == DRAWN else chosen, int(seed), float(strength))
        except UserError as error:
            raise gradio.Error(escape(str(error)), print_exception=False) from None

    own = run_images(path, folder)
    names = list(own)
    first = own[names[0]] if names else None

    with gradio.Blocks(title="TeachAugment") as page:
        gradio.Markdown("# What was learned")
        about = f"{path}: {policy.provenance.get('data', 'unknown data')}"
        origin = f"{about}. {'Choose or drop' if names else 'Drop'} an image."
        gradio.Textbox(escaped(origin), show_label=False, interactive=False)  # as plain text: no markup of a stranger's
        with gradio.Row():
            with gradio.Column(scale=1):
                images = gradio.Dropdown(
                    names, value=names[0] if names else None, label="of the run", visible=bool(names)
                )
                image: Any = gradio.Image(first, type="filepath", label="image", sources=["upload", "clipboard"])
                image.preprocess = where  # gradio would decode it with all that Pillow knows
                inputs: list[Any] = [
                    image,
                    gradio.Dropdown([DRAWN, *classes], value=DRAWN, label="augmented as", visible=bool(classes)),
                    gradio.Slider(0, 99, value=0, step=1, label="seed"),
                    gradio.Slider(
                        0, 1, value=1, step=0.05, label="strength", info="0 leaves the image, 1 is the policy"
                    ),
                ]
            with gradio.Column(scale=2):
                gallery = gradio.Gallery(versions(first, DRAWN, 0, 1), label="versions", columns=4, format="png")
        for part in inputs:
            part.change(versions, inputs, gallery, show_progress="hidden")
        if names:
            images.change(own.get, images, inputs[0], show_progress="hidden")
    return page


def where(uploaded: Any) -> str | None:
    """The file of an image that was dropped on the page."""
    path = getattr(uploaded, "path", None)
    return None if path is None else str(path)


def run_images(path: Path, folder: str) -> dict[str, str]:
    """A training image of some classes of a run, by name, as files in ``folder``; none of a policy alone, and none
    where the data are gone."""
    from dataclasses import replace

    import torch
    from torchvision.transforms.v2.functional import to_pil_image

    from teachaugment import data
    from teachaugment.data.splits import Split
    from teachaugment.engine import build, directory

    if not (path / directory.CONFIG).is_file():
        return {}
    try:
        config = directory.settings_of(path, "cpu")
        streams = any(
            (key := data.find(config.data.path, table)) is not None and table[key].streams
            for table in (data.CLASSES, data.MASKS)
        )
        how = replace(config.data, in_memory="never" if streams else "auto", bad_images="skip")
        dataset = build.load_data(replace(config, data=how), training=False)
    except UserError:
        return {}
    found, split = {}, dataset.train.whole()
    for k in dataset.train.label.unique().tolist()[:SHOWN]:
        row = int((dataset.train.label == k).nonzero()[0])
        part = split.select(torch.tensor([row]))
        pixels = part.image[0] if isinstance(part, Split) else part.read(0, 0, 0).views[0]
        found[dataset.classes[k]] = str(Path(folder) / f"{k}.png")
        to_pil_image(pixels).save(found[dataset.classes[k]])
    return found


def explore(path: Path, uploaded: str | None, context: str | None, seed: int, strength: float) -> list[Image.Image]:
    """Versions of the image in a file; none without an image."""
    from torchvision.transforms.v2.functional import to_pil_image

    from teachaugment.commands.preview import draws, opened
    from teachaugment.policy.load import load_policy

    if uploaded is None:
        return []
    policy = load_policy(path, context=context, strength=strength)
    shown = opened(Path(uploaded), policy, SIDE)
    return [to_pil_image(version.clamp(0, 1)) for version in draws(policy, shown, VERSIONS, seed)]
