"""Tasks by name: what is learned, with the defaults, the words and the limits of each.

What differs between tasks is in this room and nowhere else. The table can be read without torch; the classes behind it
are described in ``task.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from teachaugment.tables import Entry, Table


@dataclass(frozen=True)
class TaskEntry(Entry):
    """A task as settings, reports and comparisons know it."""

    metric: str = "accuracy"  # the name in a meter's result that says how good a model is; higher is better
    metric_words: str = ""  # the same for people; empty: the metric itself
    metric_column: str = ""  # the same as the heading of a column; empty: the words
    class_metric: str = "class_accuracy"  # the metric of each class
    class_words: str = "accuracy"
    share_right: str | None = None  # the metric that is a share of right answers, where there is one
    share_of: str = ""  # what that share is of, besides whole images
    tag: str | None = None  # what model hubs call it
    gives: str = "probabilities"  # what its networks say about images, in a word
    output_code: str = ".softmax(1)"  # how a program gets that from the output of a plain network
    prepared: str = "Images are not resized: cut them into pieces of this size."  # where a network takes any size
    networks: str = "classification"  # what kind of network is trained, by ``teachaugment models``
    defaults: Mapping[str, Any] = field(default_factory=dict)  # settings with other defaults than elsewhere
    data_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # the same for data by name
    large_images: Mapping[str, Any] = field(default_factory=dict)  # settings with other defaults for photographs
    held_out: float = 0.0  # of a folder of images without a validation split, the share that becomes one
    beginnings: tuple[str, ...] = ()  # settings that give the whole network weights to begin with: it is fine-tuned
    fine_tuning: Mapping[str, Any] = field(default_factory=dict)  # settings with other defaults where it is
    own_settings: tuple[str, ...] = ()  # settings that no other task has
    refused_settings: Mapping[str, str] = field(default_factory=dict)  # settings it has no use for, and why
    refused_strategies: Mapping[str, str] = field(default_factory=dict)
    refused_predictions: str = ""  # why its networks say nothing about an image by themselves, where they do not
    follow_up: str | None = None  # a command that measures a finished run, where its own metric is not enough

    @property
    def words(self) -> str:
        return self.metric_words or self.metric


HELD_OUT = 0.1  # of a folder of photographs, to choose the epoch by
# Photographs are few and epochs short: many small steps, an evaluation after each epoch, an augmenter that learns from
# a quarter of every batch and starts once the new head is fitted.
_FINE_TUNING = {
    "optim.name": "adamw",
    "optim.warmup_epochs": 1.0,
    "train.epochs": 30,
    "train.eval_every": 1,
    "teach.begin": 0.1,
    "teach.n_inner": 1,
    "teach.fraction": 0.25,
    "teach.n_buffer": 2,
}
_CONSISTENCY = ("consistency-kld", "consistency-mse")
_FOR_BOXES = {"ssd": "is for images with boxes: use --task detection"}
_NO_CUTOUT_OR_JITTER = dict.fromkeys(
    ("augment.cutout", "augment.jitter", "augment.lighting"), "is for classification; leave it at 0 for {task}"
)
_NO_LABELS_TO_MIX = {"augment.mix": "mixes the labels of whole images: there are none in the task {task}"}


_VIEWS = (
    *("area", "jitter", "grey", "blur", "layers", "dim", "hidden"),
    *("fixed_lr", "momentum", "queue", "temperature"),
)


def _for_classification(*strategies: str) -> dict[str, str]:
    return dict.fromkeys(strategies, "is for classification, not for the task {task}")


def _self_supervised(where: str, help: str, **own: Any) -> TaskEntry:
    plain = ("unaugmented", "crop-flip", "cutout")
    return TaskEntry(
        f"self_supervised.{where}",
        help,
        metric="knn",
        metric_words="kNN accuracy",
        metric_column="kNN",
        defaults={  # for a small network
            "optim.lr": 0.05,
            "optim.nesterov": False,
            "views.blur": 0.0,
            "views.layers": 2,
            "views.dim": 256,
            "views.hidden": 64,
            "views.queue": 512,
            "teach.n_buffer": 1,
            "augment.crop": 0,
            **own,
        },
        # What tells two of the built-in images apart is colour, and it says little about the class. Without it, and
        # with most of the figure in sight, features must be about its form.
        data_defaults={"shapes": {"views.area": 0.5, "views.jitter": 0.8, "views.grey": 1.0, "train.batch_size": 32}},
        own_settings=tuple(f"views.{name}" for name in _VIEWS),
        refused_settings={
            **_NO_LABELS_TO_MIX,
            **dict.fromkeys(("model.pretrained", "model.weights"), "is not for {task}, which begins with new weights"),
            "optim.label_smoothing": "is for labels: there are none in the task {task}",
            "augment.area": "is not for {task}; its views are set by views.area, views.jitter …",
        },
        refused_strategies={
            **_for_classification(*_CONSISTENCY),
            **_FOR_BOXES,
            **dict.fromkeys(plain, "is not for {task}; 'none' makes its views and no more"),
        },
        refused_predictions="learns features, not classes; see teachaugment linear and teachaugment export --backbone",
        follow_up="linear",
    )


TASKS: Table[TaskEntry] = Table(
    "task",
    __name__,
    {
        "classification": TaskEntry(
            "classification.task:Classification",
            "a class for every image",
            share_right="accuracy",
            tag="image-classification",
            large_images={"model.name": "torchvision/resnet18"},
            held_out=HELD_OUT,
            beginnings=("model.pretrained", "model.weights"),
            fine_tuning={**_FINE_TUNING, "train.batch_size": 32, "optim.label_smoothing": 0.1},
            refused_strategies=_FOR_BOXES,
            # Of ImageNet's photographs a classifier is trained on random crops, as everywhere.
            data_defaults={"imagenet": {"augment.area": 0.08}},
        ),
        "segmentation": TaskEntry(
            "segmentation.task:Segmentation",
            "a class for every pixel",
            metric="miou",
            metric_words="mean IoU",
            class_metric="class_iou",
            class_words="IoU",
            share_right="pixel_accuracy",
            share_of="the pixels of ",
            tag="image-segmentation",
            networks="segmentation",
            defaults={
                "model.name": "unet-16",
                "optim.lr": 0.05,
                "optim.warmup_epochs": 1.0,
                "train.epochs": 20,
                "train.batch_size": 8,
                "augment.crop": 0,
                "augment.num_ops": 1,  # RandAugment's settings are those of the paper's appendix
                "augment.magnitude": 5,
            },
            held_out=HELD_OUT,
            beginnings=("model.weights",),  # with --pretrained only its backbone has learned something
            fine_tuning=_FINE_TUNING,
            own_settings=("data.crop", "data.scale", "data.images", "data.masks", "data.ignore", "train.window"),
            refused_settings={
                **_NO_CUTOUT_OR_JITTER,
                **_NO_LABELS_TO_MIX,
                "augment.area": "is for classification; for segmentation see data.crop and data.scale",
                "data.fit": "is for classification; images with masks keep their size, see data.crop",
            },
            refused_strategies={**_for_classification(*_CONSISTENCY), **_FOR_BOXES},
        ),
        "detection": TaskEntry(
            "detection.task:Detection",
            "boxes around things, each with a class",
            metric="map",
            metric_words="mAP",
            class_metric="class_map",
            class_words="average precision",
            share_right="recall",
            share_of="the boxes of ",
            tag="object-detection",
            gives="boxes",
            output_code="",
            prepared="Images are made smaller or larger until they just fit into this size, in its upper left corner; "
            "the rest is black. A box is a row of left, upper, right, lower in pixels, score and number of the class; "
            "of rows that are none the class is -1.",
            networks="detection",
            defaults={
                "model.name": "fcos-small",
                "optim.name": "adamw",
                "optim.warmup_epochs": 1.0,
                "optim.clip": 10.0,
                "train.epochs": 30,
                "train.batch_size": 16,
                "augment.crop": 0,
            },
            beginnings=("model.weights",),  # with --pretrained only its backbone has learned something
            fine_tuning=_FINE_TUNING,
            refused_settings={
                **_NO_CUTOUT_OR_JITTER,
                **_NO_LABELS_TO_MIX,
                **dict.fromkeys(("data.centre", "data.interpolation"), "is not for {task}: images are shown whole"),
                "data.balance": "is for labels of whole images: there are none in the task {task}",
                "optim.label_smoothing": "is for labels of whole images: there are none in the task {task}",
            },
            refused_strategies={
                **_for_classification(*_CONSISTENCY),
                "augmix": "averages differently warped copies of an image, which no box can follow",
            },
        ),
        # What decays besides weights is what each method's own code lets decay: in BYOL's, nothing.
        "simsiam": _self_supervised(
            "simsiam:SelfSupervised", "features without labels, by two views (SimSiam)", **{"optim.decay_norms": True}
        ),
        "byol": _self_supervised("momentum:BYOL", "the same against a moving average (BYOL)"),
        "moco": _self_supervised(
            "momentum:MoCo", "the same against earlier images (MoCo v2)", **{"optim.decay_norms": True}
        ),
    },
)
DEFAULT = "classification"
