"""A run's network, ready to be used: ``teachaugment.load_model(run).predict(images)``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from teachaugment.config.sections import Config
from teachaugment.data.decode import BICUBIC
from teachaugment.data.files import AnyImage, Preparation
from teachaugment.data.splits import DataSet, Split
from teachaugment.data.torchvision import IMAGENET_CENTRE
from teachaugment.engine import build, checkpoint, directory, restore
from teachaugment.engine.precision import Precision
from teachaugment.engine.trainer import STRATEGY_KEYS
from teachaugment.errors import UserError
from teachaugment.networks import evaluating
from teachaugment.tasks import TASKS
from teachaugment.tasks.prediction import Prediction
from teachaugment.tasks.task import Task

WHICH = ("target", "teacher")
UNFIT = (RuntimeError, KeyError, ValueError, TypeError, AttributeError)  # of weights that are not a network's


class TrainedModel:
    """A trained network with all that belongs to its use, made by ``load_model``.

    network:   the network itself, in eval mode; it takes normalised images.
    classes:   the names of its classes.
    size:      height and width of the images it takes; of a segmenter, those it was trained on.
    channels:  of the images; 3 is RGB.
    mean, std: by which images in [0, 1] are normalised. ``predict`` does so itself.
    name:      of the network, as in ``teachaugment models``.
    which:     "target" or "teacher", of the epoch ``epoch`` and the checkpoint ``file``.
    """

    def __init__(
        self,
        network: nn.Module,
        called: nn.Module,
        task: Task,
        config: Config,
        state: dict[str, Any],
        file: Path,
        which: str,
    ) -> None:
        saved = state["data"]
        self.network = network
        self.classes = list(task.classes)
        self.size: tuple[int, int] = (saved["size"][0], saved["size"][1])
        self.channels: int = saved["channels"]
        self.mean, self.std = tuple(saved["mean"]), tuple(saved["std"])
        self.name, self.task_name = config.model.name, config.task
        self.batch_size = config.train.batch_size
        size = self.size if task.fixed_size else None
        how = saved.get("interpolation", BICUBIC), saved.get("fit", "crop")
        self.preparation = Preparation(size, centre_of(saved), self.channels, *how)
        self.task = task
        self.about = {key: state[key] for key in ("config", "data", "epoch")}
        self.file, self.which = file, which
        self._called = called  # the network as an evaluation calls it, in the run's precision

    @property
    def epoch(self) -> int:
        return self.about["epoch"]

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    def predict(self, images: AnyImage | Sequence[AnyImage], batch_size: int | None = None) -> Any:
        """What the network says about images: a list, or for a single image one prediction.

        An image is a path, an image of Pillow, an array [H, W, C] or a tensor [C, H, W]; arrays and tensors are uint8,
        or float in [0, 1], and may have a dimension more for several images. Images are resized and cropped as in the
        run's evaluation. A prediction of a classifier has ``label``, ``probability``, ``probabilities`` and ``top(k)``,
        one of a segmenter ``mask``, ``picture()`` and ``top(k)``, the classes that cover most of the image.
        """
        several = isinstance(images, (list, tuple)) or (isinstance(images, (Tensor, np.ndarray)) and images.ndim == 4)
        given: list[AnyImage] = list(images) if several else [images]
        size, found = batch_size or self.batch_size, []
        for start in range(0, len(given), size):
            part = given[start : start + size]
            names = [f"image {start + i}" if several else "the image" for i in range(len(part))]
            prepared = [self.preparation.any(image, name) for image, name in zip(part, names, strict=True)]
            found += self._predicted(prepared)
        return found if several else found[0]

    def _predicted(self, images: list[Tensor]) -> list[Prediction]:
        """Images of one size pass through the network together."""
        by_size: dict[torch.Size, list[int]] = {}
        for i, image in enumerate(images):
            by_size.setdefault(image.shape, []).append(i)
        found: dict[int, Prediction] = {}
        for same in by_size.values():
            batch = torch.stack([images[i].to(self.device) for i in same])
            found |= dict(zip(same, self.predict_batch(batch), strict=True))
        return [found[i] for i in range(len(images))]

    @torch.no_grad()
    def predict_batch(self, image: Tensor) -> Sequence[Prediction]:
        """The same of prepared images, [B, C, H, W] in [0, 1] on the network's device."""
        with evaluating(self._called):
            output = self.task.predict(self._called, self.task.normalize(image))
        return self.task.predictions(output)


def load_model(
    run: str | Path, *, checkpoint: str | None = None, which: str | None = None, device: str | None = None
) -> TrainedModel:
    """The network of a run directory, to predict with.

    checkpoint: "last" or "best"; None: the best epoch where a validation split chose one, otherwise the last.
    which:      "target", the network that was trained, or "teacher", its moving average; None: the one that was chosen
                with the best epoch, otherwise the target.
    device:     "cpu", "cuda", …; None: the run's own setting.
    """
    path = directory.existing_run(str(run))
    config = directory.settings_of(path, device)
    return load_trained(config, path, checkpoint, which)


def load_trained(config: Config, path: Path, which_checkpoint: str | None, which: str | None) -> TrainedModel:
    """The same of the run in ``path``, with these settings."""
    if which not in (None, *WHICH):
        raise UserError(f"which is {which!r}; it must be one of {', '.join(WHICH)}")
    _check_task(config, path)  # complains before anything is read
    device = build.device(config.device)
    state, file = _state(path, which_checkpoint)
    config = restore.as_trained(config, checkpoint.of_run(state, file), file)
    _check_task(config, path)
    which = which or _chosen(state, file)
    dataset = without_images(state["data"])
    task = TASKS.load(config.task).from_config(config, dataset)
    network = task.network(config, dataset)
    called = Precision(config.train.amp, device).wrap(network)
    try:
        if which == "teacher":
            called.load_state_dict(_teacher(state, config, path))
        else:
            network.load_state_dict(state["target"])
    except UNFIT as error:
        raise unfit(file, config, error) from None
    called.to(device).eval().requires_grad_(False)
    if config.train.channels_last:
        called.to(memory_format=cast(Any, torch.channels_last))
    return TrainedModel(network, called, task, config, state, file, which)


def unfit(file: Path, config: Config, error: Exception) -> UserError:
    """What to say where a checkpoint's weights are not the network's."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return UserError(f"{file} does not fit the model {config.model.name}: {reason}")


def _check_task(config: Config, path: Path) -> None:
    entry = TASKS[config.task]
    if entry.refused_predictions:
        raise UserError(f"{path} has no classes to predict: the task {config.task} {entry.refused_predictions}")


def _state(path: Path, which: str | None) -> tuple[dict[str, Any], Path]:
    """The best epoch where it was asked for, or where nothing was and there is one; otherwise the last."""
    if not checkpoint.exists(path) and not (path / checkpoint.BEST).exists():
        raise UserError(f"{path} has no checkpoint yet; train it with: teachaugment train --resume {path}")
    return checkpoint.chosen(path, which, replay=False)


def _chosen(state: dict[str, Any], file: Path) -> str:
    """Which of the two networks is the better one, as far as the best epoch's checkpoint says it."""
    return (state["best"] or {}).get("model", WHICH[0]) if file.name == checkpoint.BEST else WHICH[0]


def without_images(saved: dict[str, Any]) -> DataSet:
    """A data set without images, which a task and its network can be made for: the run's own may be gone."""
    height, width = saved["size"]
    split = Split(torch.zeros(0, saved["channels"], height, width, dtype=torch.uint8), torch.zeros(0).long())
    mean, std = tuple(saved["mean"]), tuple(saved["std"])
    colors = None if saved.get("colors") is None else [tuple(color) for color in saved["colors"]]
    about = saved["classes"], saved["channels"], (height, width), mean, std
    return DataSet(saved["name"], split, split, *about, colors=colors, centre=centre_of(saved))


def centre_of(saved: dict[str, Any]) -> float:
    """What centre crops keep; runs of version 0.1 do not say it, and only ImageNet's kept less than all."""
    return saved.get("centre", IMAGENET_CENTRE if saved["name"] == "imagenet" else 1.0)


def _teacher(state: dict[str, Any], config: Config, path: Path) -> dict[str, Any]:
    """The weights of the target's moving average."""
    if config.teach.teacher:
        raise UserError(f"the teacher of {path} was a network of its own, {config.teach.teacher}; leave which out")
    parts: Iterator[Any] = (state.get(key) for key in STRATEGY_KEYS)
    teacher = next((part["teacher"] for part in parts if isinstance(part, dict) and "teacher" in part), None)
    if teacher is None:
        raise UserError(f"{path} has no teacher: its strategy was {config.augment.strategy}")
    return teacher["model"]
