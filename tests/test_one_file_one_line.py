"""Adding a thing by name is one new file and one line in its table: tried in a copy of the package, by the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "teachaugment"

# kind: (the table's file, the line before which the new one goes, the line, the new file, its text)
TOYS = {
    "objective": (
        "objectives/__init__.py",
        '"teachaugment": Entry(',
        '"toy": Entry("toy:toy", "easy for the teacher"),',
        "objectives/toy.py",
        """
from teachaugment.objectives.teachaugment import teach_augment

def toy(passes):
    terms = teach_augment(passes)
    return terms._replace(objective=-terms.teacher)
""",
    ),
    "augmenter": (
        "augment/__init__.py",
        '"neural": Entry(',
        '"toy": Entry("toy:Toy", "the paper\'s networks with less noise"),',
        "augment/toy.py",
        """
from teachaugment.augment.neural import NeuralAugmenter

class Toy(NeuralAugmenter):
    name = "toy"

    def __init__(self, channels=3, classes=None, noise=4, **ranges):
        super().__init__(channels, classes, noise=noise, **ranges)
""",
    ),
    "strategy": (
        "strategies/__init__.py",
        '"policy": StrategyEntry(',
        '"toy": StrategyEntry("toy:Toy", "every image upside down"),',
        "strategies/toy.py",
        """
from teachaugment.strategies.strategy import Strategy

class Toy(Strategy):
    def __init__(self, setup):
        pass

    def augment(self, batch):
        return batch.replace(image=batch.image.flip(-2))
""",
    ),
    "task": (
        "tasks/__init__.py",
        '"classification": TaskEntry(',
        '"toy": TaskEntry("toy:Toy", "is it one of the first classes?", metric="half", defaults={"optim.lr": 0.01}),',
        "tasks/toy.py",
        """
import torch
import torch.nn.functional as F
from teachaugment.tasks.classification.task import Classification

class Meter:
    def __init__(self, device):
        self.right, self.images = (torch.zeros((), dtype=torch.int64, device=device) for _ in range(2))

    def update(self, output, batch, loss=None):
        self.right += ((output[:, 0] > 0) == (batch.label < 5)).sum()
        self.images += len(batch)

    def compute(self):
        return {"loss": 0.0, "half": int(self.right) / max(int(self.images), 1), "images": int(self.images)}

class Toy(Classification):
    metric = "half"
    shown = ("loss", "half")

    def teaching(self, config):
        def loss(output, label):
            return F.binary_cross_entropy_with_logits(output[:, 0], (label < 5).float())
        return {"loss": loss}

    def loss(self, output, seen):
        return F.binary_cross_entropy_with_logits(output[:, 0], (seen.label < 5).float())

    def meter(self, device):
        return Meter(device)

    def count_right(self, output, batch):
        return None

    @classmethod
    def describe(cls, result, images="test images"):
        return f"{100 * result['half']:.1f} % of the halves of {result['images']} {images}"
""",
    ),
    "model": (
        "models/__init__.py",
        '"cnn-4": Model(',
        '"toy": Model("toy:Toy", "one linear layer"),',
        "models/toy.py",
        """
from torch import nn

class Toy(nn.Sequential):
    def __init__(self, num_classes, channels=3):
        super().__init__(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * channels, num_classes))
""",
    ),
    "data": (
        "data/__init__.py",
        '"shapes": Format("shapes:load_shapes"',
        '".toy": Format("toy:load_toy", "a text file: every line is a shade of grey and a class"),',
        "data/toy.py",
        """
from pathlib import Path
import torch
from teachaugment.data.splits import DataSet, Split

def load_toy(source, reading):
    rows = [line.split() for line in Path(source).read_text().splitlines()]
    classes = sorted({name for _, name in rows})
    image = torch.tensor([int(shade) for shade, _ in rows], dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 8, 8)
    split = Split(image.contiguous(), torch.tensor([classes.index(name) for _, name in rows]))
    return DataSet("toy", split, split, classes, 3, (8, 8), (0.5,) * 3, (0.5,) * 3)
""",
    ),
    "command": (
        "commands/__init__.py",
        '"train": Entry(',
        '"toy": Entry("toy", "say hello"),',
        "commands/toy.py",
        """
EXAMPLES = "examples:\\n  teachaugment toy --name you"

def add_arguments(parser):
    parser.add_argument("--name", default="you")

def run(arguments):
    print(f"hello {arguments.name}")
    return 0
""",
    ),
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one toy of each kind, each as one new file and one line."""
    root = tmp_path_factory.mktemp("house")
    shutil.copytree(PACKAGE, root / "teachaugment", ignore=shutil.ignore_patterns("__pycache__"))
    for table, before, line, file, text in TOYS.values():
        path = root / "teachaugment" / table
        source = path.read_text(encoding="utf-8")
        assert source.count(before) == 1, f"{before} must stand once in {table}"
        path.write_text(source.replace(before, f"{line}\n        {before}"), encoding="utf-8")
        assert not (root / "teachaugment" / file).exists()
        (root / "teachaugment" / file).write_text(text, encoding="utf-8")
    return root


def command(house: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(house)}
    done = subprocess.run(
        [sys.executable, "-m", "teachaugment", *words],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=house,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


FAST = ("--epochs", "1", "--batch-size", "8", "--train.tensorboard", "false", "--device", "cpu")


def test_the_help_knows_all_of_them(house):
    """Choices and help texts come from the tables."""
    said = command(house, "train", "--help")
    for flag in ("--teach.objective", "--teach.augmenter", "--strategy", "--task"):
        assert "toy" in said[said.index(f"  {flag}") :][:600], flag
    assert "say hello" in command(house, "--help") and "toy" in command(house, "models")
    assert "; toy: 0.01" in said  # the task's own default
    assert "FILE.toy" in said


def test_the_command_says_hello(house):
    assert "hello you" in command(house, "toy")


def test_a_run_uses_a_toy_of_every_kind(house):
    (house / "shades.toy").write_text("".join(f"{10 * k} class{k % 8}\n" for k in range(24)))
    toys = ("--task", "toy", "--model", "toy", "--teach.objective", "toy", "--teach.augmenter", "toy")
    paper = ("--strategy", "teachaugment", "--teach.n_inner", "1")
    said = command(house, "train", "--data", "shades.toy", *toys, *paper, *FAST, "--output", "run")
    assert "% of the halves" in said and "lr 0.01" in said
    for name in ("policy.safetensors", "augmented.png", "report.html"):
        assert (house / "run" / name).is_file(), name
    assert "% of the halves" in command(house, "evaluate", "run")
    said = command(house, "train", "--data", "shades.toy", "--strategy", "toy", *FAST, "--output", "turned")
    assert ", toy, 8 images per step" in said and "test images" in said
