"""TeachAugment in a plain PyTorch loop. The lines marked `# +` are all that was added to the ordinary loop.

python examples/plain_loop.py [--epochs 20]
"""

import argparse

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from teachaugment import TeachAugment  # +
from teachaugment.data.shapes import shapes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train", type=int, default=500, help="training images")
    parser.add_argument("--test", type=int, default=1000, help="test images")
    args = parser.parse_args()

    data = shapes(train=args.train, test=args.test)
    train = TensorDataset(data.train.image.float() / 255, data.train.label)
    loader = DataLoader(train, batch_size=50, shuffle=True)
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")

    def normalize(images: torch.Tensor) -> torch.Tensor:
        return (images - 0.5) / 0.25

    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, len(data.classes)),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=args.epochs, steps_per_epoch=len(loader))
    teach = TeachAugment(
        model, num_classes=len(data.classes), normalize=normalize, total_steps=args.epochs * len(loader)
    )  # +

    for epoch in range(args.epochs):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            output = model(normalize(teach(images, labels)))  # was: model(normalize(images))
            loss = cross_entropy(output, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            teach.step(images, labels, output=output)  # +
        teach.end_epoch()  # +
        print(f"epoch {epoch + 1:3d}  loss {loss.item():.3f}")

    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(normalize(part.to(device).float() / 255)) for part in data.test.image.split(250)])
    print(f"test accuracy {(logits.argmax(1).cpu() == data.test.label).float().mean():.1%}")
    teach.policy(data="shapes").save("policy.safetensors")
    print("policy saved to policy.safetensors")


if __name__ == "__main__":
    main()
