"""TeachAugment in a Lightning module: augment in `training_step`, step and end the epoch in the hooks Lightning has.

python examples/lightning_loop.py [--epochs 20]
"""

import argparse

import lightning as L
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from teachaugment import TeachAugment
from teachaugment.data.shapes import shapes
from teachaugment.models import create


def normalize(images: torch.Tensor) -> torch.Tensor:
    return (images - 0.5) / 0.25


class Classifier(L.LightningModule):
    def __init__(self, model: nn.Module, classes: int, lr: float = 0.1) -> None:
        super().__init__()
        self.model, self.classes, self.lr = model, classes, lr

    def on_fit_start(self) -> None:  # the model is on its device now
        steps = int(self.trainer.estimated_stepping_batches)
        self.teach = TeachAugment(self.model, num_classes=self.classes, normalize=normalize, total_steps=steps)

    def training_step(self, batch, _):
        images, labels = batch
        self.output = self.model(normalize(self.teach(images, labels)))
        loss = cross_entropy(self.output, labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx) -> None:  # the optimiser has stepped
        self.teach.step(*batch, output=self.output)

    def on_train_epoch_end(self) -> None:
        self.teach.end_epoch()

    def on_save_checkpoint(self, checkpoint) -> None:
        checkpoint["teachaugment"] = self.teach.state_dict()

    def test_step(self, batch, _) -> None:
        images, labels = batch
        self.log("accuracy", (self.model(normalize(images)).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.model.parameters(), self.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train", type=int, default=500, help="training images")
    parser.add_argument("--test", type=int, default=1000, help="test images")
    args = parser.parse_args()

    data = shapes(train=args.train, test=args.test)
    train, test = (TensorDataset(split.image.float() / 255, split.label) for split in (data.train, data.test))
    trainer = L.Trainer(max_epochs=args.epochs, logger=False, enable_checkpointing=False)
    classifier = Classifier(create("cnn-4", num_classes=len(data.classes)), len(data.classes))
    trainer.fit(classifier, DataLoader(train, batch_size=50, shuffle=True))
    trainer.test(classifier, DataLoader(test, batch_size=250))
    classifier.teach.policy(data="shapes").save("policy.safetensors")


if __name__ == "__main__":
    main()
