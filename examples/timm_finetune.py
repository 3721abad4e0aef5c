"""Fine-tuning a network of timm on a folder of photographs, with TeachAugment: the lines marked `# +` were added.

python examples/timm_finetune.py --data FOLDER --model tf_efficientnet_lite0 --pretrained       timm fetches the weights
python examples/timm_finetune.py --data FOLDER --model tf_efficientnet_lite0 --weights FILE     or: weights on disk
python examples/timm_finetune.py                                built-in images and random weights, just to see it run

FOLDER has train/ and test/, with a folder for each class in both.
"""

import argparse
import tempfile
from pathlib import Path

import timm
import torch
from timm.data import resolve_model_data_config
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import normalize, to_pil_image

from teachaugment import TeachAugment  # +
from teachaugment.data.shapes import shapes


def fine_tune(args: argparse.Namespace, folder: Path) -> float:
    classes = sorted(entry.name for entry in (folder / "train").iterdir() if entry.is_dir())
    file = {"pretrained_cfg_overlay": {"file": args.weights}} if args.weights else {}
    pretrained = args.pretrained or args.weights is not None
    model = timm.create_model(args.model, pretrained=pretrained, num_classes=len(classes), **file)
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    model.to(device)

    asks = resolve_model_data_config(model)  # size, crop, interpolation, mean and deviation of its pretraining
    size, how = args.size or asks["input_size"][-1], v2.InterpolationMode(asks["interpolation"])
    tensor = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]  # images stay in [0, 1]: no normalisation here
    crop = v2.RandomResizedCrop(size, scale=(0.35, 1), interpolation=how)
    train = ImageFolder(folder / "train", v2.Compose([crop, v2.RandomHorizontalFlip(), *tensor]))
    resize = v2.Resize(round(size / asks["crop_pct"]), interpolation=how)
    test = ImageFolder(folder / "test", v2.Compose([resize, v2.CenterCrop(size), *tensor]))
    loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)

    def prepare(images: torch.Tensor) -> torch.Tensor:
        return normalize(images, asks["mean"], asks["std"])

    # First the new head alone, on images as they are: as long as it guesses, nobody could judge an augmentation.
    head = torch.optim.AdamW(model.get_classifier().parameters(), lr=10 * args.lr)
    model.eval()  # batch norm keeps its statistics
    for images, labels in loader:
        loss = cross_entropy(model(prepare(images.to(device))), labels.to(device))
        head.zero_grad()
        loss.backward()
        head.step()

    # Then all of it, the early layers more slowly.
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.05, layer_decay=0.75)
    schedule = CosineLRScheduler(optimizer, t_initial=args.epochs, warmup_t=1, warmup_lr_init=args.lr / 10)
    teach = TeachAugment(model, num_classes=len(classes), normalize=prepare, total_steps=args.epochs * len(loader))  # +
    for epoch in range(args.epochs):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            output = model(prepare(teach(images, labels)))  # was: model(prepare(images))
            loss = cross_entropy(output, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            teach.step(images, labels, output=output)  # +
        teach.end_epoch()  # +
        schedule.step(epoch + 1)
        print(f"epoch {epoch + 1:3d}  loss {loss.item():.3f}")
    teach.policy(classes=classes, data=folder.name).save("policy.safetensors")

    model.eval()
    with torch.no_grad():
        right = [
            model(prepare(images.to(device))).argmax(1).cpu() == labels
            for images, labels in DataLoader(test, batch_size=args.batch_size, num_workers=args.workers)
        ]
    return torch.cat(right).float().mean().item()


def write_shapes(root: Path, train: int, test: int) -> None:
    """The built-in images as a folder of photographs."""
    data = shapes(train=train, test=test, size=48)
    for split in ("train", "test"):
        part = getattr(data, split)
        for i, (image, label) in enumerate(zip(part.image, part.label.tolist(), strict=True)):
            folder = root / split / data.classes[label]
            folder.mkdir(parents=True, exist_ok=True)
            to_pil_image(image).save(folder / f"{i}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with train/ and test/; default: built-in images")
    parser.add_argument("--model", default="test_resnet", help="any of timm.list_models(pretrained=True)")
    parser.add_argument("--pretrained", action="store_true", help="begin with the weights that timm fetches")
    parser.add_argument("--weights", help="begin with the weights in this file")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=25)
    parser.add_argument("--size", type=int, help="of the images; default: that of the network's pretraining")
    parser.add_argument("--workers", type=int, default=0, help="processes that read images")
    parser.add_argument("--train", type=int, default=500, help="training images, of the built-in ones")
    parser.add_argument("--test", type=int, default=500, help="test images, of the built-in ones")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as scratch:
        if args.data is None:
            write_shapes(Path(scratch), args.train, args.test)
            args.size = args.size or 48
        print(f"test accuracy {fine_tune(args, args.data or Path(scratch)):.1%}")


if __name__ == "__main__":
    main()
