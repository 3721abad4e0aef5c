"""TeachAugment in the Hugging Face Trainer: augment where the loss is computed, step in a callback.

python examples/hf_trainer.py [--epochs 20]
"""

import argparse

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import ResNetConfig, ResNetForImageClassification, Trainer, TrainerCallback, TrainingArguments

from teachaugment import TeachAugment
from teachaugment.data.shapes import shapes


def normalize(images: torch.Tensor) -> torch.Tensor:
    return (images - 0.5) / 0.25


class Images(Dataset):
    """Rows as the Trainer wants them: dictionaries, images still in [0, 1]."""

    def __init__(self, split):
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": self.split.image[row].float() / 255, "labels": self.split.label[row]}


class Logits(nn.Module):
    """What TeachAugment needs of a model: images to logits."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.model(pixel_values=images).logits


class TeachTrainer(Trainer):
    teach: TeachAugment

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        images, labels = inputs["pixel_values"], inputs["labels"]
        if model.training:
            self.seen = images, labels
            images = self.teach(images, labels)
        outputs = model(pixel_values=normalize(images), labels=labels)
        return (outputs.loss, outputs) if return_outputs else outputs.loss


class Steps(TrainerCallback):
    """After each update of the target: the teacher, and the augmenter."""

    def __init__(self, trainer: TeachTrainer):
        self.trainer = trainer

    def on_step_end(self, *_, **__) -> None:
        self.trainer.teach.step(*self.trainer.seen)

    def on_epoch_end(self, *_, **__) -> None:
        self.trainer.teach.end_epoch()


def accuracy(prediction) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(1) == prediction.label_ids).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train", type=int, default=500, help="training images")
    parser.add_argument("--test", type=int, default=1000, help="test images")
    args = parser.parse_args()

    data = shapes(train=args.train, test=args.test)
    shape = ResNetConfig(embedding_size=32, hidden_sizes=[32, 64, 128], depths=[1, 1, 1], layer_type="basic")
    shape.num_labels = len(data.classes)
    model = ResNetForImageClassification(shape)
    arguments = TrainingArguments(
        output_dir="trainer",
        num_train_epochs=args.epochs,
        per_device_train_batch_size=50,
        per_device_eval_batch_size=250,
        learning_rate=2e-3,
        save_strategy="no",
        report_to="none",
        remove_unused_columns=False,
    )
    trainer = TeachTrainer(
        model, arguments, train_dataset=Images(data.train), eval_dataset=Images(data.test), compute_metrics=accuracy
    )
    steps = args.epochs * len(trainer.get_train_dataloader())
    trainer.teach = TeachAugment(
        Logits(trainer.model), num_classes=len(data.classes), normalize=normalize, total_steps=steps
    )
    trainer.add_callback(Steps(trainer))
    trainer.train()
    print(f"test accuracy {trainer.evaluate()['eval_accuracy']:.1%}")
    trainer.teach.policy(data="shapes").save("policy.safetensors")


if __name__ == "__main__":
    main()
