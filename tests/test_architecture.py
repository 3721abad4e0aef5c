"""Who imports whom, and how long a file may be: docs/architecture.md, checked.

The imports are read from the source, lazy ones and those for type checkers included.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "teachaugment"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
MAX_LINES = 350


@dataclass(frozen=True)
class Rule:
    """What the files of one place may import: of this package (a name opens what is below it), and of others."""

    files: str
    inside: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)


# The first rule that matches a file holds for it. Every file has a rule and every rule has a file.
EVERYTHING = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in FILES} - {"cli"}
RULES = [
    Rule("__init__.py", {"algorithm", "batch", "errors", "policy"}),
    Rule("__main__.py", {"cli"}),
    # What everything stands on.
    Rule("errors.py"),
    Rule("settings.py", {"errors"}),
    Rule("seeds.py", set(), {"torch"}),
    Rule("waiting.py", set(), {"tqdm"}),
    Rule("distributed.py", {"errors"}, {"torch"}),
    Rule("batch.py", {"distributed", "errors"}, {"torch"}),
    # Pure functions and networks: torch, and nothing of this package.
    Rule("augment/functional.py", {"errors"}, {"torch"}),
    Rule("losses.py", {"batch", "errors"}, {"torch"}),
    Rule("models/external.py", {"errors"}, {"timm", "torch", "torchvision"}),
    Rule("models/segmentation.py", {"errors"}, {"torch", "torchvision"}),
    Rule("models/smp.py", {"errors"}, {"segmentation_models_pytorch", "torch"}),
    Rule("models/*.py", {"errors", "models"}, {"torch"}),
    # What is made of those.
    Rule("augment/published.py", {"batch", "errors"}, {"torch", "torchvision"}),
    Rule("augment/policy_files.py", {"errors"}),
    Rule("augment/searched.py", {"augment", "batch", "errors"}, {"torch", "torchvision"}),
    Rule("augment/*.py", {"augment", "batch", "errors", "losses", "seeds"}, {"torch"}),
    Rule("tasks/momentum.py", {"distributed", "errors", "models", "seeds", "tasks", "teachers"}, {"torch"}),
    Rule(
        "tasks/*.py",
        {"augment.fixed", "augment.mix", "batch", "errors", "losses", "models", "seeds", "tasks"},
        {"torch"},
    ),
    Rule("data/hf.py", {"data", "errors", "seeds"}, {"PIL", "datasets", "torch"}),
    Rule("data/*.py", {"batch", "data", "errors", "seeds", "waiting"}, {"PIL", "numpy", "torch", "torchvision"}),
    # The method. It never sees a model, a data set, a configuration or the command.
    Rule("objectives.py", {"batch", "errors", "losses"}, {"torch"}),
    Rule("teachers.py", {"errors"}, {"torch"}),
    Rule("replay.py", {"augment", "batch", "errors", "seeds"}, {"torch"}),
    Rule(
        "policy.py",
        {"__init__", "augment", "batch", "checkpoint", "errors", "given_noise", "replay", "transform"},
        {"safetensors", "torch"},
    ),
    Rule("transform.py", {"augment", "batch", "errors", "policy"}, {"PIL", "torch", "torchvision"}),
    Rule("given_noise.py", {"augment", "checkpoint", "errors", "policy"}, {"onnx", "onnxscript", "torch"}),
    Rule(
        "algorithm.py",
        {
            *("augment", "batch", "distributed", "errors", "losses"),
            *("objectives", "policy", "replay", "seeds", "teachers"),
        },
        {"torch"},
    ),
    Rule(
        "views.py",
        {"algorithm", "augment", "batch", "distributed", "errors", "losses", "policy", "replay", "seeds"},
        {"torch"},
    ),
    Rule("consistency.py", {"errors", "teachers"}, {"torch"}),
    # A run. The configuration needs no torch, so that a mistake in it is reported at once.
    Rule("sections.py", {"settings"}),
    Rule("config.py", {"errors", "sections", "settings"}, {"yaml"}),
    Rule("presets/*.py", {"config", "errors", "presets"}),
    Rule("flags.py", {"config", "errors", "presets", "sections", "settings"}),
    Rule("table.py"),
    Rule("listing.py", {"errors", "models", "presets"}, {"torch"}),
    Rule("files.py", {"errors"}),
    Rule("finite.py", {"distributed", "errors"}, {"torch"}),
    Rule("interrupts.py", {"distributed"}),
    Rule("progress.py", {"distributed", "evaluate", "tasks"}, {"torch"}),
    Rule("checkpoint.py", {"errors", "files"}, {"torch"}),
    Rule("precision.py", {"errors"}, {"torch"}),
    Rule("pretrained.py", {"checkpoint", "data", "errors", "models"}, {"torch"}),
    Rule("optim.py", {"errors"}, {"torch"}),
    Rule("pictures.py", {"errors"}, {"PIL", "torch"}),
    Rule("overlay.py", {"batch", "errors", "pictures"}, {"PIL", "torch"}),
    Rule("logs.py", {"config", "errors"}, {"torch", "tqdm"}),
    Rule("evaluate.py", {"batch", "distributed", "errors", "tasks"}, {"torch"}),
    Rule(
        "train.py",
        {
            *("algorithm", "batch", "config", "data", "distributed", "errors"),
            *("consistency", "evaluate", "finite", "interrupts", "logs", "optim", "policy"),
            *("precision", "progress", "seeds", "tasks", "teachers"),
        },
        {"torch"},
    ),
    Rule("showing.py", {"data", "evaluate", "losses", "overlay", "pictures", "seeds", "train"}, {"torch"}),
    Rule("card.py", {"policy"}, {"yaml"}),
    Rule(
        "export.py",
        {"augment", "card", "checkpoint", "errors", "features", "files", "given_noise", "logs", "policy", "replay"},
        {"torch"},
    ),
    Rule("preview.py", {"batch", "data.decode", "errors", "pictures", "policy", "seeds"}, {"PIL", "numpy", "torch"}),
    Rule("explore.py", {"errors", "policy", "preview"}, {"PIL", "gradio", "torchvision"}),
    # The page of a run: first what reads files and draws, without torch; then what looks at networks and images.
    Rule("report/record.py", {"config", "logs"}),
    Rule("report/diagnosis.py"),
    Rule("report/charts.py", {"report.record"}),
    Rule("report/page.py"),
    Rule("report/curves.py", {"logs", "report.charts", "report.record", "settings"}),
    Rule("report/transform.py", set(), {"torch"}),
    Rule("report/images.py", set(), {"PIL", "torch"}),
    Rule("report/command.py", {"build", "checkpoint", "config", "errors", "logs", "report", "train"}),
    Rule(
        "report/*.py",
        {
            *("__init__", "algorithm", "augment", "batch", "checkpoint", "data", "evaluate", "logs", "overlay"),
            *("replay", "report", "seeds", "settings", "showing", "train", "views"),
        },
        {"torch"},
    ),
    Rule(
        "run.py",
        {
            *("checkpoint", "distributed", "errors", "evaluate", "export", "files", "finite", "interrupts", "logs"),
            *("pictures", "report.write", "showing", "train"),
        },
    ),
    Rule(
        "strategies.py", {"augment", "batch", "consistency", "data", "errors", "policy", "sections", "tasks"}, {"torch"}
    ),
    Rule("build.py", EVERYTHING, {"torch"}),
    Rule(
        "restore.py",
        {"build", "checkpoint", "config", "data", "distributed", "errors", "files", "logs", "strategies", "train"},
    ),
    Rule("probe.py", {"augment.fixed", "batch", "errors", "optim", "tasks"}, {"torch"}),
    Rule(
        "features.py",
        {
            "build",
            "checkpoint",
            "config",
            "errors",
            "files",
            "logs",
            "models",
            "precision",
            "probe",
            "restore",
            "seeds",
            "train",
        },
        {"safetensors", "torch"},
    ),
    Rule(
        "linear.py",
        {
            *("batch", "config", "data", "errors", "features", "files", "logs", "probe", "restore", "seeds", "train"),
            "waiting",
        },
    ),
    # A comparison starts runs as commands and reads what they leave; all but the last of these do without torch.
    Rule("compare/comparisons.py", {"errors"}),
    Rule("compare/plan.py", {"config", "errors", "settings"}),
    Rule("compare/rows.py", {"compare.plan", "errors", "flags", "logs", "sections"}),
    Rule("compare/progress.py", {"compare.plan", "compare.rows", "logs"}),
    Rule("compare/statistics.py", {"compare.rows", "errors"}),
    Rule("compare/picture.py", {"pictures"}, {"PIL"}),
    Rule("compare/*.py", {"build", "checkpoint", "compare", "config", "errors", "files", "flags", "logs", "table"}),
    # The benchmark measures all of it; its plan and its flags are read before torch is.
    Rule("bench/plan.py"),
    Rule("bench/command.py", {"bench", "errors", "flags", "models", "table"}, {"torch"}),
    Rule("bench/*.py", EVERYTHING, {"kornia", "torch", "torchvision", "tqdm"}),
    Rule(
        "cli.py",
        {
            *("__init__", "bench.command", "build", "checkpoint", "compare.command", "config", "distributed", "errors"),
            *("explore", "export", "flags", "interrupts", "linear", "listing", "logs", "preview", "report.command"),
            *("restore", "run"),
        },
    ),
]


def rule_of(file: str) -> Rule | None:
    return next((rule for rule in RULES if matches(file, rule.files)), None)


def matches(file: str, pattern: str) -> bool:
    """Glob match part by part: `augment/*.py` is that folder and none below it."""
    path, parts = Path(file), Path(pattern).parts
    return len(path.parts) == len(parts) and path.match(pattern)


def tree_of(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"), filename=file)


def module_of(dotted: str) -> str:
    """The longest beginning of `teachaugment.a.b.name` that is a module, without the package's own name."""
    parts = dotted.split(".")[1:]
    while parts and f"{'/'.join(parts)}.py" not in FILES and f"{'/'.join(parts)}/__init__.py" not in FILES:
        parts.pop()
    return ".".join(parts) or "__init__"


def imports(tree: ast.AST, file: str) -> tuple[set[str], set[str]]:
    """What the source imports: modules of this package, and the names of other packages but the standard library."""
    dotted: set[str] = set()
    package = ["teachaugment", *Path(file).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            dotted |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            dotted |= {f"{base}.{alias.name}" for alias in node.names}
    inside = {module_of(name) for name in dotted if name.split(".")[0] == "teachaugment"}
    outside = {name.split(".")[0] for name in dotted} - {"teachaugment"} - set(sys.stdlib_module_names)
    return inside, outside


def at_start(tree: ast.Module) -> ast.Module:
    """The part of the source that runs when it is imported: no function bodies, nothing for type checkers only."""

    class Strip(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if "TYPE_CHECKING" in ast.dump(node.test) else self.generic_visit(node)

    return Strip().visit(tree)


def broken(rule: Rule, tree: ast.AST, file: str) -> list[str]:
    inside, outside = imports(tree, file)
    may = {name for name in inside if any(name == open_ or name.startswith(f"{open_}.") for open_ in rule.inside)}
    return sorted(inside - may) + sorted(outside - rule.outside)


def test_the_package_is_found():
    assert {"algorithm.py", "build.py", "cli.py", "augment/functional.py", "models/__init__.py"} <= set(FILES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.files)
def test_every_rule_has_a_file(rule):
    assert any(rule_of(file) is rule for file in FILES), f"no file for the rule {rule.files!r}: take the rule out"


@pytest.mark.parametrize("file", FILES)
def test_a_file_imports_only_what_its_place_allows(file):
    rule = rule_of(file)
    assert rule is not None, f"{file} has no rule in {__file__}: say there what it may import"
    wrong = broken(rule, tree_of(file), file)
    assert not wrong, f"{file} must not import {', '.join(wrong)}"


def test_no_modules_import_each_other_in_a_circle():
    graph = {
        file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): imports(at_start(tree_of(file)), file)[0]
        for file in FILES
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("file", FILES)
def test_a_file_holds_one_idea(file):
    lines = len((PACKAGE / file).read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{file} has {lines} lines: it may hold two ideas"
    assert Path(file).name != "utils.py", "a file is named after its idea"


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("from teachaugment.models import create", ["models"]),
        ("from teachaugment import data", ["data"]),
        ("import teachaugment.models.wide_resnet", ["models.wide_resnet"]),
        ("from .config import Config", ["config"]),
        ("from . import cli", ["cli"]),
        ("def later():\n    from teachaugment.engine.build import build", ["build"]),
        ("import torchvision.transforms", ["torchvision"]),
        ("import math\nimport torch.nn as nn\nfrom .augment.neural import x\nfrom teachaugment.batch import Batch", []),
    ],
)
def test_forbidden_imports_of_the_algorithm_are_seen(source, seen):
    rule = rule_of("algorithm.py")
    assert rule is not None
    assert broken(rule, ast.parse(source), "algorithm.py") == seen


def test_relative_imports_are_followed_upwards():
    inside, _ = imports(ast.parse("from ..data import load\nfrom .functional import warp"), "augment/color.py")
    assert inside == {"data", "augment.functional"}
