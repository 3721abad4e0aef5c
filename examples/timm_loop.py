"""TeachAugment with timm: its network, optimiser and schedule, and the normalisation the network asks for.

python examples/timm_loop.py [--epochs 20] [--model resnet18]
"""

import argparse

import timm
import torch
from timm.data import resolve_model_data_config
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from torch.utils.data import DataLoader, TensorDataset
from torchvision.transforms.v2.functional import normalize

from teachaugment import TeachAugment
from teachaugment.data.shapes import shapes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train", type=int, default=500, help="training images")
    parser.add_argument("--test", type=int, default=1000, help="test images")
    parser.add_argument("--model", default="test_resnet", help="any of timm.list_models()")
    args = parser.parse_args()

    data = shapes(train=args.train, test=args.test)
    train = TensorDataset(data.train.image.float() / 255, data.train.label)
    loader = DataLoader(train, batch_size=50, shuffle=True)
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")

    model = timm.create_model(args.model, num_classes=len(data.classes)).to(device)
    asks = resolve_model_data_config(model)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=args.epochs, warmup_t=2, warmup_lr_init=1e-4)
    loss_function = LabelSmoothingCrossEntropy(0.1)

    def prepare(images: torch.Tensor) -> torch.Tensor:
        return normalize(images, asks["mean"], asks["std"])

    teach = TeachAugment(model, num_classes=len(data.classes), normalize=prepare, total_steps=args.epochs * len(loader))

    for epoch in range(args.epochs):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            output = model(prepare(teach(images, labels)))
            loss = loss_function(output, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            teach.step(images, labels, output=output)
        teach.end_epoch()
        schedule.step(epoch + 1)
        print(f"epoch {epoch + 1:3d}  loss {loss.item():.3f}")

    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(prepare(part.to(device).float() / 255)) for part in data.test.image.split(250)])
    print(f"test accuracy {(logits.argmax(1).cpu() == data.test.label).float().mean():.1%}")
    teach.policy(data="shapes").save("policy.safetensors")


if __name__ == "__main__":
    main()
