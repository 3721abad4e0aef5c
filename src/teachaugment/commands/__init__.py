"""The commands of ``teachaugment``, one file or one folder each, and the table of their names.

A command's module has ``add_arguments(parser)``, ``run(arguments) -> int`` (the exit code) and ``EXAMPLES``, which end
its help; ``USAGE`` replaces the usage line that argparse would write. It imports nothing slow before ``run``.
"""

from __future__ import annotations

from teachaugment.tables import Entry, Table

COMMANDS = Table(
    "command",
    __name__,
    {
        "demo": Entry("demo", "built-in images with and without its augmentation, side by side"),
        "train": Entry("train", "train a model"),
        "evaluate": Entry("evaluate", "evaluate a run"),
        "predict": Entry("predict.command", "class and probability of images, or masks, by a run's network"),
        "linear": Entry("linear", "train a linear classifier on a run's features"),
        "compare": Entry("compare.command", "train strategies side by side, over seeds"),
        "export": Entry("export.command", "a run's policy or its network, as files to take along"),
        "preview": Entry("preview", "images beside what a policy makes of them"),
        "explore": Entry("explore", "the same on a page of this machine, with sliders"),
        "report": Entry("report.command", "what a run did and learned, as a page"),
        "paper": Entry("paper.command", "the paper's tables and figures, measured"),
        "bench": Entry("bench.command", "measure speed and memory"),
        "doctor": Entry("doctor", "check a device against the CPU, as a page for an issue"),
        "models": Entry("models", "list the networks there are by name"),
        "presets": Entry("presets", "list the experiments there are by name"),
    },
)
