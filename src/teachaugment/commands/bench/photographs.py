"""Reading photographs: random crops of JPEG files to 224², by our loader and those people use, on one core each; and
how long a training step waits for what two workers read.

Every way starts from the same files and ends with one float batch, with crops from the same distribution.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import chain, count, islice, repeat
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode, v2

from teachaugment.batch import Batch
from teachaugment.commands.bench.augmentation import on_one_thread
from teachaugment.commands.bench.clock import Case, interleave, ratio, seconds, summary
from teachaugment.commands.bench.objects import Normalize, labels, photograph, training_step
from teachaugment.commands.bench.plan import Plan
from teachaugment.data.decode import crop_box, random_crop
from teachaugment.data.files import Files
from teachaugment.data.loader import batches
from teachaugment.data.streamed import StreamedSplit
from teachaugment.models import create

OURS, TORCHVISION, TIMM = "TeachAugment's loader", "torchvision's ImageFolder", "timm's loader"
AREA = 0.08  # of an image, at least, in a random crop: ImageNet's


def measure(plan: Plan, device: torch.device) -> dict[str, Any]:
    """Images per second from files of each size, and the waiting of a training that reads files of all sizes."""
    with tempfile.TemporaryDirectory() as made:
        folders = [_folder(Path(made) / str(side), side, plan.photographs_each) for side in plan.photographs]
        rows = [
            row for side, folder in zip(plan.photographs, folders, strict=True) for row in _rows(plan, side, folder)
        ]
        waiting = _waiting(plan, device, [str(file) for folder in folders for file in _files(folder)])
    return {"rows": rows, "waiting": waiting, "size": plan.photograph_size}


def _folder(folder: Path, side: int, files: int) -> Path:
    """A folder with one class of photographs, 4 by 3, whose longer side has so many pixels."""
    (folder / "class").mkdir(parents=True)
    image = Image.fromarray(photograph(side * 3 // 4, side).permute(1, 2, 0).numpy())
    for number in range(files):
        image.save(folder / "class" / f"{number}.jpg", quality=90)
    return folder


def _files(folder: Path) -> list[str]:
    return [str(file) for file in sorted(folder.rglob("*.jpg"))]


def _rows(plan: Plan, side: int, folder: Path) -> list[dict[str, Any]]:
    ways = {OURS: _ours(plan, folder), TORCHVISION: _torchvision(plan, folder)}
    if find_spec("timm"):
        ways[TIMM] = _timm(plan, folder)
    cases: list[Case] = [(name, on_one_thread(way)) for name, way in ways.items()]
    rounds = interleave(cases, torch.device("cpu"), plan.repeats, 0.0, f"photographs of {side} pixels")
    found, rows = summary(rounds), []
    for name in (OURS, TORCHVISION, TIMM):
        row: dict[str, Any] = {"side": side, "name": name, "installed": name in ways}
        if name in ways:
            row["seconds"], row["times_ours"] = found[name], ratio(rounds, name, OURS)
            row["images_per_second"] = plan.photographs_each / found[name]["median"]
        rows.append(row)
    return rows


def _ours(plan: Plan, folder: Path) -> Callable[[], object]:
    split = _split(_files(folder), plan)
    epochs = count()  # other crops each time, as the other loaders have them
    return lambda: list(batches(split, len(split), seed=0, epoch=next(epochs), shuffle=True, device="cpu"))


def _split(files: list[str], plan: Plan) -> StreamedSplit:
    nothing = torch.zeros(len(files), dtype=torch.int64)
    return StreamedSplit(Files(files, nothing), (plan.photograph_size, plan.photograph_size), area=AREA)


def _torchvision(plan: Plan, folder: Path) -> Callable[[], object]:
    transform = v2.Compose([_SameCrops(plan.photograph_size), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)])
    loader: DataLoader[Any] = DataLoader(ImageFolder(folder, transform), plan.photographs_each, shuffle=True)
    return lambda: list(loader)


def _timm(plan: Plan, folder: Path) -> Callable[[], object]:
    from timm.data import create_dataset, create_loader

    loader = create_loader(
        create_dataset("", str(folder)),
        (3, plan.photograph_size, plan.photograph_size),
        plan.photographs_each,
        is_training=True,
        use_prefetcher=False,
        hflip=0.0,
        color_jitter=0.0,
        interpolation="bicubic",
        num_workers=0,
        persistent_workers=False,
    )
    _, *others = loader.dataset.transform.transforms  # its own random crop, to a tensor, normalised
    loader.dataset.transform = v2.Compose([_SameCrops(plan.photograph_size), *others])
    return lambda: list(loader)


class _SameCrops:
    """Crops as ours are drawn, by torchvision's function: the work should differ by the reading only."""

    def __init__(self, size: int) -> None:
        self.size = (size, size)

    def __call__(self, image: Any) -> Any:
        box = crop_box(image.size, self.size, random_crop(AREA, torch.default_generator))
        left, upper, right, lower = map(round, box)
        place = (upper, left, lower - upper, right - left)
        return v2.functional.resized_crop(image, *place, list(self.size), InterpolationMode.BICUBIC)


def _waiting(plan: Plan, device: torch.device, files: list[str]) -> dict[str, Any] | None:
    """The share of its time that a training step waits, once the workers have begun; None: the network is not there."""
    if plan.photograph_model.startswith("timm/") and not find_spec("timm"):
        return None
    torch.manual_seed(0)
    target = create(plan.photograph_model, plan.classes).to(device).train()
    optimizer = torch.optim.SGD(target.parameters(), lr=0.01, momentum=0.9)
    normalize = Normalize().to(device)
    images = plan.photograph_batch * (plan.repeats + 1)
    split = _split(list(islice(chain.from_iterable(repeat(files)), images)), plan)
    stream: Iterator[Batch] = batches(
        split, plan.photograph_batch, seed=0, epoch=0, shuffle=True, device=device, workers=plan.photograph_workers
    )
    waited, stepped = [], []
    for _ in range(plan.repeats + 1):
        began = time.perf_counter()
        batch = next(stream)
        waited.append(time.perf_counter() - began)
        step = partial(training_step, target, optimizer, normalize(batch.image), labels(batch))
        stepped.append(seconds(step, device))
    return {
        "model": plan.photograph_model,
        "batch_size": plan.photograph_batch,
        "workers": plan.photograph_workers,
        "waited_seconds": sum(waited[1:]),
        "step_seconds": sum(stepped[1:]),
        "share": sum(waited[1:]) / (sum(waited[1:]) + sum(stepped[1:])),
    }
