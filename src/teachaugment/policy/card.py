"""The model card of a policy, in the form the Hugging Face hub shows: its origin, its use and its limits."""

from __future__ import annotations

from typing import Any

import yaml

from teachaugment.policy.policy import Policy
from teachaugment.tasks import TASKS

TAGS = ["teachaugment", "data-augmentation", "computer-vision"]

USE = """\
```python
import teachaugment
from torchvision.transforms import v2

policy = teachaugment.load_policy("{file}")
images = policy(images, labels)  # a batch of images in [0, 1], of {channels} channel(s); labels may be left out
transform = v2.Compose([v2.RandomHorizontalFlip(), policy])  # single samples; masks, boxes and key points move along
```

`load_policy` also takes `strength=` (0 leaves images as they are, 1 is the policy), `context=` (augment every image as
one class) and `classes=` (the names of your classes, if they are others). To train with it:
`teachaugment train --policy {file} --data FOLDER`."""

LIMITS = """\
- It was learned for the data and the network above. On other data it may help less, or harm: compare with and without.
- It expects images in [0, 1], before any normalisation.
- {classes}
- It knows what one network could still recognise, not what is true of the world: look at it before you rely on it
  (`teachaugment preview {file} IMAGE …`), above all where colour or orientation carries the meaning, as in medicine."""


def card(policy: Policy, file: str) -> str:
    """Markdown with the hub's YAML in front; ``file`` is the policy's file name."""
    about, header = policy.provenance, policy.header()
    task = str(about.get("task"))
    tags = [*TAGS, *([TASKS[task].tag] if task in TASKS and TASKS[task].tag else [])]
    front = {"license": "unknown", "library_name": "teachaugment", "tags": tags}
    known = header["augmenter"]["classes"]
    if not known:
        classes = "It was learned without classes and treats all images alike."
    else:
        shown = ", ".join(map(plain, (policy.classes or [])[:20])) + (", …" if known > 20 else "")
        named = f" ({shown})" if policy.classes else ""
        classes = f"It was learned on {known} classes{named}; for images of no class among them, one is drawn."
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---",
        f"# Learned augmentation: {plain(about.get('data', 'unknown data'))}",
        f"{LEARNED if policy.augmenter.learns else FOUND} The licence of this file is its owner's to choose.",
        f"## What it was learned on\n\n{table(facts(policy))}",
        f"## Use\n\n{USE.format(file=file, channels=header['augmenter']['channels'])}",
        f"## What it does\n\n{table(behaviour(policy))}",
        f"## Limits\n\n{LIMITS.format(file=file, classes=classes)}",
    ]
    return "\n\n".join(parts) + "\n"


LEARNED = (
    "An image augmentation that was learned while a network trained, by the method TeachAugment (Suzuki, CVPR 2022): "
    "as hard as was useful for the network, and no harder than a teacher could still recognise."
)
FOUND = (
    "An image augmentation whose strength was found while a network trained: one simple operation for each image, as "
    "strong as the network could bear."
)


def facts(policy: Policy) -> list[tuple[str, str]]:
    about = policy.provenance
    size = "×".join(map(str, about["size"])) if isinstance(about.get("size"), list) else None
    rows = [("data", about.get("data")), ("training images", about.get("images")), ("size", size)]
    rows += [("fingerprint of the data", about.get("fingerprint")), ("network", about.get("model"))]
    rows += [("epochs", about.get("epochs")), ("seed", about.get("seed")), *accuracies(about.get("measured"))]
    if policy.normalization:
        rows += [(name, ", ".join(f"{v:.4f}" for v in values)) for name, values in policy.normalization.items()]
    rows.append(("package", f"teachaugment {about.get('version')}"))
    return [(name, _text(value)) for name, value in rows if value is not None]


def accuracies(measured: Any) -> list[tuple[str, str]]:
    """What the run measured, as it stands in its ``metrics.json``."""
    if not isinstance(measured, dict):
        return []
    metric, split = measured.get("metric", "accuracy"), measured.get("split", "test")
    models = {name: value for name, value in measured.items() if isinstance(value, float)}
    return [(f"{metric} of the {name}, {split} split", f"{100 * value:.2f} %") for name, value in models.items()]


def behaviour(policy: Policy) -> list[tuple[str, str]]:
    rows = []
    if policy.found < 1 or not policy.augmenter.learns:
        rows.append(("strength that was found", f"{policy.found:.2f} of 1, at which the ranges below are reached"))
    rows += [(f"of it, {name} gets", f"{share:.2f}") for name, share in policy.shares.items()]
    for name, values in policy.augmenter.probabilities().items():
        low, mean, high = (float(v) for v in (values.min(), values.mean(), values.max()))
        rows.append((f"share of images changed: {name}", f"{mean:.2f} ({low:.2f} … {high:.2f} over the classes)"))
    rows += [(f"range of {name}", _text(value)) for name, value in policy.augmenter.ranges().items()]
    if policy.replay is not None:
        rows.append(("snapshots", f"{len(policy.replay)} earlier augmenters, drawn from as in training"))
    return rows


def table(rows: list[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {plain(name)} | {plain(value)} |" for name, value in rows)])


def plain(text: Any) -> str:
    """Names come from folders and files: none of them may break out of its line or its table."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    for mark in "\\`|<>[]":
        line = line.replace(mark, f"\\{mark}")
    return line


def _text(value: Any) -> str:
    numbers = isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value)
    return " … ".join(f"{v:g}" for v in value) if numbers else str(value)
