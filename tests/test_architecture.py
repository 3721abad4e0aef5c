"""Who imports whom is a rule about rooms: docs/architecture.md, checked.

The imports are read from the source, lazy ones and those for type checkers included.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "teachaugment"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
MAX_LINES = 320

# The root of the package is the paper, and the few words that all rooms share.
PAPER = {
    "algorithm",
    "batch",
    "governor",
    "hyperparameters",
    "judging",
    "losses",
    "mastery",
    "networks",
    "replay",
    "teachers",
    "view",
}
CHECKS = {"finite_updates", "states"}  # what its class looks at before it acts
WORDS = {"__init__", "__main__", "distributed", "errors", "files", "progress", "seeds", "tables", "terminal"}
# The rooms whose ``__init__`` is a table of names, which may be read without entering the room.
TABLES = {"augment", "commands", "data", "models", "objectives", "strategies", "tasks"}
LOW = {"augment", "models", "data", "objectives", "policy", "config", "show"}


@dataclass(frozen=True)
class Rule:
    """What the files of one room may import besides the root: other rooms, and other packages."""

    rooms: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    tables: bool = False  # the tables of the other rooms too


RULES = {
    "": Rule({"augment", "objectives", "policy"}, {"torch", "tqdm"}),
    "objectives": Rule(set(), {"torch"}),
    "augment": Rule(set(), {"torch"}),
    "models": Rule(set(), {"safetensors", "segmentation_models_pytorch", "timm", "torch", "torchvision"}),
    "data": Rule(set(), {"PIL", "datasets", "numpy", "torch", "torchvision", "yaml"}),
    "policy": Rule(
        {"augment"}, {"PIL", "numpy", "onnx", "onnxscript", "safetensors", "torch", "torchvision", "yaml"}, True
    ),
    "show": Rule(set(), {"PIL", "torch"}),
    "config": Rule({"presets"}, {"yaml"}, True),
    "presets": Rule({"config"}, set(), True),
    "tasks": Rule({"augment", "config", "data", "models", "show"}, {"PIL", "torch", "torchmetrics"}),
    "strategies": Rule({"augment", "config", "data", "objectives", "policy", "tasks"}, {"torch", "torchvision"}),
    "engine": Rule(LOW | {"strategies", "tasks"}, {"numpy", "safetensors", "torch"}),
    "commands": Rule(
        LOW | {"engine", "presets", "strategies", "tasks"},
        {
            *("PIL", "gradio", "jinja2", "kornia", "markupsafe", "numpy", "onnx", "onnxruntime", "onnxscript"),
            *("safetensors", "starlette", "timm", "torch", "torchvision", "yaml"),
        },
    ),
}


def room_of(module: str) -> str:
    """``data.folder`` is in ``data``, ``algorithm`` in the root, which has no name."""
    first = module.split(".")[0]
    return first if (PACKAGE / first).is_dir() else ""


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


def broken(tree: ast.AST, file: str) -> list[str]:
    """The imports that the file's room may not have."""
    own = room_of(file.removesuffix(".py").replace("/", "."))
    rule = RULES[own]
    inside, outside = imports(tree, file)
    wrong = [
        module
        for module in inside
        if (room := room_of(module)) not in {"", own} | rule.rooms
        and not (rule.tables and module in TABLES)
        and not (room == "commands" and file == "__main__.py")
        and not (room == "engine" and file == "__init__.py")  # the names that the package offers
    ]
    return sorted(wrong) + sorted(outside - rule.outside)


def test_the_root_is_the_paper_and_the_words_that_all_share():
    found = {file.removesuffix(".py") for file in FILES if "/" not in file}
    assert found == PAPER | CHECKS | WORDS


def test_every_room_has_a_rule_and_every_rule_a_room():
    assert {room_of(file.removesuffix(".py").replace("/", ".")) for file in FILES} == RULES.keys()


@pytest.mark.parametrize("file", FILES)
def test_a_file_imports_only_what_its_room_may_know(file):
    wrong = broken(tree_of(file), file)
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


def test_every_table_and_the_configuration_are_read_without_torch():
    modules = [
        *(f"teachaugment.{room}" for room in sorted(TABLES)),
        "teachaugment.config.flags",
        "teachaugment.presets",
    ]
    code = "import sys\n" + "\n".join(f"import {name}; assert 'torch' not in sys.modules, {name!r}" for name in modules)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("file", FILES)
def test_a_file_holds_one_idea(file):
    lines = len((PACKAGE / file).read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{file} has {lines} lines: it may hold two ideas"
    assert Path(file).name != "utils.py", "a file is named after its idea"


@pytest.mark.parametrize(
    ("file", "source", "seen"),
    [
        ("algorithm.py", "from teachaugment.models import create", ["models"]),
        ("algorithm.py", "from teachaugment import data", ["data"]),
        ("algorithm.py", "from .config.resolve import Config", ["config.resolve"]),
        ("algorithm.py", "def later():\n    from teachaugment.engine.build import build", ["engine.build"]),
        ("algorithm.py", "import torchvision.transforms", ["torchvision"]),
        (
            "algorithm.py",
            "import torch.nn as nn\nfrom .augment.neural import x\nfrom teachaugment.batch import Batch",
            [],
        ),
        ("config/resolve.py", "from teachaugment.tasks import TASKS", []),
        ("config/resolve.py", "from teachaugment.tasks.task import Task", ["tasks.task"]),
        ("data/loader.py", "from ..augment import fixed", ["augment.fixed"]),
        ("engine/run.py", "from teachaugment.commands.report.write import write_report", ["commands.report.write"]),
    ],
)
def test_forbidden_imports_are_seen(file, source, seen):
    assert broken(ast.parse(source), file) == seen


def test_relative_imports_are_followed_upwards():
    inside, _ = imports(ast.parse("from ..data import load\nfrom .functional import warp"), "augment/color.py")
    assert inside == {"data", "augment.functional"}
