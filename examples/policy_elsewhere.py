"""A learned policy in a training that knows nothing of TeachAugment: plain torchvision data, transforms and network.

python examples/policy_elsewhere.py --policy runs/RUN --data FOLDER   # FOLDER/train/<class>/*, FOLDER/test/<class>/*
python examples/policy_elsewhere.py --policy runs/RUN --data cifar100 --root ~/data --train 5000 --test 10000
python examples/policy_elsewhere.py                                   # learns a policy on built-in images first

The last form learns on images of 32 pixels and trains another network on a folder of images of 48 pixels.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision.datasets import CIFAR10, CIFAR100, ImageFolder
from torchvision.models import shufflenet_v2_x0_5
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import to_pil_image

from teachaugment import TeachAugment, load_policy
from teachaugment.data.shapes import shapes


class Transformed(Dataset):
    """The first images of a data set. The transform sees the label too: the policy then knows what it augments."""

    def __init__(self, data: Dataset, transform, count: int) -> None:
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
        self.data, self.transform = Subset(data, order[:count].tolist()), transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int):
        return self.transform(*self.data[i])


def data_sets(source: str, root: str):
    """Training and test images, by torchvision."""
    if source in ("cifar10", "cifar100"):
        kind = {"cifar10": CIFAR10, "cifar100": CIFAR100}[source]
        return kind(root, train=True, download=True), kind(root, train=False, download=True)
    return ImageFolder(Path(source) / "train"), ImageFolder(Path(source) / "test")


def elsewhere(args: argparse.Namespace, policy_path: Path, source: str) -> float:
    """Train with the policy; the accuracy on the test images."""
    train, test = data_sets(source, args.root)
    policy = load_policy(policy_path, classes=train.classes, strength=args.strength)  # classes are matched by name
    print(f"{len(train.classes)} classes, {len(set(train.classes) & set(policy.classes or []))} known to the policy")
    to_tensor = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)]
    model = shufflenet_v2_x0_5(num_classes=len(train.classes))
    train = Transformed(train, v2.Compose([v2.RandomHorizontalFlip(), policy, *to_tensor]), args.train)
    test = Transformed(test, v2.Compose(to_tensor), args.test)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    loader = DataLoader(train, batch_size=32, shuffle=True, drop_last=True, num_workers=2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, epochs=args.epochs, steps_per_epoch=len(loader))
    for epoch in range(args.epochs):
        model.train()
        for images, labels in loader:
            loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1:3d}  loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        right = [model(images).argmax(1) == labels for images, labels in DataLoader(test, batch_size=100)]
    return torch.cat(right).float().mean().item()


def learn(path: Path, epochs: int, count: int) -> None:
    """A policy from a short training on the built-in images, as in plain_loop.py."""
    data = shapes(train=count, test=10)
    images, labels = data.train.image.float() / 255, data.train.label
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(4),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, len(data.classes)),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    teach = TeachAugment(model, num_classes=len(data.classes), n_inner=1, n_buffer=1, augmenter="neural")
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(50):
            loss = cross_entropy(model(teach(images[rows], labels[rows])), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            teach.step(images[rows], labels[rows])
        teach.end_epoch()
    teach.policy(classes=data.classes, data="shapes").save(path)
    print(f"policy saved to {path}")


def write_folder(root: Path, train: int, test: int) -> None:
    data = shapes(train=train, test=test, size=48)
    for split in ("train", "test"):
        part = getattr(data, split)
        for i, (image, label) in enumerate(zip(part.image, part.label.tolist(), strict=True)):
            folder = root / split / data.classes[label]
            folder.mkdir(parents=True, exist_ok=True)
            to_pil_image(image).save(folder / f"{i}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, help="a policy file or a run directory; default: one is learned first")
    parser.add_argument("--data", help="cifar10, cifar100, or a folder with train/ and test/; default: built-in images")
    parser.add_argument("--root", default="data", help="where CIFAR is, or is downloaded to")
    parser.add_argument("--strength", type=float, default=1.0, help="0: the same training without the policy")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train", type=int, default=500, help="training images")
    parser.add_argument("--test", type=int, default=1000, help="test images")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    policy = args.policy or Path("policy.safetensors")
    if args.policy is None:
        learn(policy, args.epochs, args.train)
    with tempfile.TemporaryDirectory() as scratch:
        if args.data is None:
            write_folder(Path(scratch), args.train, args.test)
        print(f"test accuracy {elsewhere(args, policy, args.data or scratch):.1%}")


if __name__ == "__main__":
    main()
