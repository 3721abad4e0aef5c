"""The claim of the method on real training: the teacher's term is what keeps augmented images recognisable."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from teachaugment import Batch, TeachAugment
from teachaugment.data.shapes import shapes
from teachaugment.objectives.adversarial import adversarial
from teachaugment.objectives.teachaugment import teach_augment


def normalize(images):
    return (images - 0.5) / 0.25


def network():
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def train(target, images, labels, steps, teach=None):
    optimizer = torch.optim.SGD(target.parameters(), 0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, steps)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(images), (50,), generator=generator)
        x, y = images[rows], labels[rows]
        loss = F.cross_entropy(target(normalize(teach(x, y) if teach else x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if teach:
            teach.step(x, y)


def test_without_the_teachers_term_the_same_training_destroys_images_with_it_it_does_not():
    torch.manual_seed(0)
    data = shapes(train=400, test=10, size=20)
    images, labels = data.train.image.float() / 255, data.train.label
    start = network()
    train(start, images, labels, 80)
    with torch.no_grad():
        assert (start.eval()(normalize(images)).argmax(1) == labels).float().mean() > 0.9
    start.train()
    recognised = {}
    for objective in (teach_augment, adversarial):
        target = copy.deepcopy(start)
        teach = TeachAugment(
            target, num_classes=10, normalize=normalize, objective=objective, n_inner=1, n_buffer=0, augmenter="neural"
        )
        train(target, images, labels, 120, teach)
        with torch.no_grad():
            teach.augmenter.log_odds.fill_(20.0)  # look at augmented images only
            residual = teach.augmenter.sample(200).affine - torch.eye(2, 3)
            assert residual.std(0).min() > 0.02  # the warps differ from image to image
            augmented = teach.augmenter(Batch(images, labels), torch.Generator().manual_seed(1)).image
            right = teach.teacher.model(normalize(augmented)).argmax(1) == labels
        recognised[objective] = right.float().mean().item()
    assert recognised[teach_augment] > 0.4  # ten classes
    assert recognised[adversarial] < recognised[teach_augment] - 0.15
