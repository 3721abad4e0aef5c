"""TeachAugment around a detector of torchvision, in a loop like that of its references. `# +` marks what was added.

python examples/detection_loop.py [--epochs 20]
"""

import argparse

import torch
from torch.utils.data import DataLoader
from torchvision.models.detection import ssdlite320_mobilenet_v3_large

from teachaugment import Batch, TeachAugment  # +
from teachaugment.data.figures import generate
from teachaugment.data.shapes import CLASSES, TEST, TRAIN
from teachaugment.data.streamed import stacked
from teachaugment.models.detection import OfTorchvision  # +
from teachaugment.tasks.detection.recall import recall_of_boxes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train", type=int, default=500, help="training images")
    parser.add_argument("--test", type=int, default=200, help="test images")
    args = parser.parse_args()

    # Pairs of an image [3, H, W] in [0, 1] and its boxes [N, 5]: left, upper, right, lower, class from 0 on.
    train, test = generate(args.train, 96, TRAIN, 0, "train"), generate(args.test, 96, TEST, 0, "test")
    pairs = [(image / 255, boxes[boxes[:, 4] >= 0]) for image, boxes in zip(train.image, train.boxes, strict=True)]
    loader = DataLoader(pairs, batch_size=20, shuffle=True, drop_last=True, collate_fn=list)

    # Normalises and resizes by itself, and gives its losses only in training mode; the wrapper asks for them in any.
    model = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=1 + len(CLASSES))
    model = OfTorchvision(model)  # +
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    teach = TeachAugment(  # +
        model,  # +
        forward=lambda network, batch: network(batch.image, batch.boxes),  # +
        loss=lambda losses, boxes: losses.minimised,  # +
    )  # +

    for epoch in range(args.epochs):
        model.train()
        for rows in loader:
            images, boxes = zip(*rows, strict=True)
            batch = Batch(torch.stack(images), boxes=stacked(boxes))
            seen = teach.augment(batch)  # +
            loss = model(seen.image, seen.boxes).minimised  # was: sum(model(images, targets).values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            teach.step(batch)  # +
        teach.end_epoch()  # +
        print(f"epoch {epoch + 1:3d}  loss {loss.item():.3f}")

    model.eval()
    with torch.no_grad():
        found = torch.cat([model(part / 255) for part in test.image.split(50)])
    right, there = recall_of_boxes(found, test.boxes, len(CLASSES))
    print(f"{right.sum() / there.sum():.1%} of the {there.sum()} test boxes found")
    teach.policy(data="figures").save("policy.safetensors")
    print("policy saved to policy.safetensors")


if __name__ == "__main__":
    main()
