"""Linear evaluation: what a linear classifier makes of frozen features.

Two protocols. ``simsiam`` is that of Chen and He (2021), which the paper follows: random crops and flips, LARS, 90
epochs, batch 4,096, so every epoch passes all images through the network. ``cached`` is for small machines: each image
passes once, unchanged, and a logistic regression is fitted to the features until it stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment.augment import fixed
from teachaugment.batch import Batch
from teachaugment.engine.optim import lars, learning_rate
from teachaugment.tasks.classification.meter import ClassificationMeter

Network = Callable[[Tensor], Tensor]  # normalised images to features [B, F]
LEAST_AREA = 0.08  # of an image that a random crop of the protocol "simsiam" shows
BASE_LR = 0.1  # per 256 images, as in SimSiam's released code
CALIBRATED = 2000  # images on which an untrained network takes the statistics of its batch norm


@torch.no_grad()
def features(
    networks: Mapping[str, Network], batches: Iterable[Batch], normalize: Network
) -> tuple[dict[str, Tensor], Tensor]:
    """Features of all images for each network, and their classes."""
    found: dict[str, list[Tensor]] = {name: [] for name in networks}
    labels = []
    for batch in batches:
        assert batch.label is not None
        image = normalize(batch.image)
        labels.append(batch.label)
        for name, network in networks.items():
            found[name].append(network(image).float())
    return {name: torch.cat(parts) for name, parts in found.items()}, torch.cat(labels)


def cached(
    networks: Mapping[str, Network],
    train: Iterable[Batch],
    test: Iterable[Batch],
    normalize: Network,
    classes: int,
) -> dict[str, dict[str, Any]]:
    """Test metrics of a logistic regression on the features of each network."""
    seen, label = features(networks, train, normalize)
    unseen, truth = features(networks, test, normalize)
    results = {}
    for name in networks:
        mean, std = seen[name].mean(0), seen[name].std(0, correction=0)
        std = torch.where(std > 1e-6, std, 1.0)
        head = logistic_regression((seen[name] - mean) / std, label, classes)
        results[name] = measure(head((unseen[name] - mean) / std), truth, classes)
    return results


def logistic_regression(x: Tensor, label: Tensor, classes: int, iterations: int = 500) -> nn.Linear:
    """The linear classifier that minimises mean cross-entropy + ‖W‖² / 2N, found by L-BFGS.

    The weight of the second term is scikit-learn's default. The problem is convex: nothing is drawn at random.
    """
    head = nn.Linear(x.shape[1], classes).to(x)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    optimizer = torch.optim.LBFGS(
        head.parameters(), max_iter=iterations, history_size=20, tolerance_grad=1e-6, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(head(x), label) + head.weight.square().sum() / (2 * len(x))
        value.backward()
        return value

    optimizer.step(loss)
    return head.requires_grad_(False)


def simsiam(
    networks: Mapping[str, Network],
    train: Iterable[Iterable[Batch]],
    test: Iterable[Batch],
    normalize: Network,
    classes: int,
    *,
    widths: Mapping[str, int],
    steps: int,
    lr: float,
    cropped: bool,
    generator: Callable[[int], torch.Generator],
    at_once: int,
) -> dict[str, dict[str, Any]]:
    """Test metrics of linear classifiers trained with LARS beside each other, so that images are read once for all.

    train:      the batches of each epoch.
    widths:     features of each network.
    steps:      in all epochs.
    lr:         the peak, of a cosine.
    cropped:    the images come as random crops already.
    generator:  of the random numbers of a step.
    at_once:    images that pass through a network together.
    """
    heads: dict[str, nn.Linear] = {}
    device = generator(0).device
    for name, width in widths.items():
        heads[name] = nn.Linear(width, classes, device=device)
        nn.init.normal_(heads[name].weight, std=0.01, generator=generator(-1))
        nn.init.zeros_(heads[name].bias)
    parameters = [p for head in heads.values() for p in head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=lr, momentum=0.9)
    for step, batch in enumerate(chain.from_iterable(train)):
        random = generator(step)
        optimizer.param_groups[0]["lr"] = learning_rate(step, steps, peak=lr)
        optimizer.zero_grad()
        for part in batch.split(at_once):
            assert part.label is not None
            image = part.image if cropped else fixed.resized_crop(part.image, LEAST_AREA, random)
            image = normalize(fixed.flip(Batch(image), random).image)
            for name, head in heads.items():
                with torch.no_grad():
                    x = networks[name](image).float()
                (F.cross_entropy(head(x), part.label) * (len(part) / len(batch))).backward()
        lars(parameters)
        optimizer.step()
    with torch.no_grad():
        unseen, truth = features(networks, test, normalize)
        return {name: measure(heads[name](unseen[name]), truth, classes) for name in networks}


def measure(logits: Tensor, label: Tensor, classes: int) -> dict[str, Any]:
    """Metrics of a classifier from its logits and the true classes."""
    meter = ClassificationMeter(classes, logits.device)
    meter.update(logits, Batch(logits, label))
    found = meter.compute()
    return {name: found[name] for name in ("accuracy", "top5", "loss", "images")}


@torch.no_grad()
def calibrate(network: nn.Module, batches: Iterable[Batch], normalize: Network) -> None:
    """Give an untrained network's batch norms the statistics of real images, without which it would say little."""
    norms = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    network.train()
    seen = 0
    for batch in batches:
        if seen >= CALIBRATED:
            break
        network(normalize(batch.image))
        seen += len(batch)
    network.eval()
