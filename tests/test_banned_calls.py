"""Calls that nobody makes: they would run what a stranger has written, or make every step wait for the device."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "teachaugment"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))

# Where a number fetched from the device would make every step wait for it.
HOT = [
    *("algorithm.py", "losses.py", "replay.py", "teachers.py", "view.py"),
    *("augment/*.py", "augment/rivals/*.py", "objectives/*.py"),
]

# What runs what a stranger has written: code, pickles, programs of a shell, archives that say where they unpack to.
RUN_CODE = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.hub.load", "joblib.load"),
    *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "runpy.run_path", "tar.extractall"),
}
UNPICKLE = ("pickle", "dill", "cloudpickle", "marshal", "shelve")
HARMLESS = {"weights_only": "True", "allow_pickle": "False", "shell": "False", "trust_remote_code": "False"}
# Calls that have one place, where they are checked.
OPENERS = {
    "Image.open": {"data/opened.py"},  # formats and sizes
    "import_module": {"__init__.py", "tables.py"},  # names of this package, from its own tables
    "importlib.import_module": set[str](),
}


def banned(tree: ast.AST, hot: bool = False, file: str = "") -> list[str]:
    """Calls that run code from a file, or that make the device wait where every step passes."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if (
            name in RUN_CODE
            or any(name.startswith(f"{module}.") for module in UNPICKLE)
            or (name == "torch.load" and given.get("weights_only") != "True")
            or (name in ("np.load", "numpy.load") and given.get("allow_pickle") != "False")
            or any(given.get(key, value) != value for key, value in HARMLESS.items())
            or (name in OPENERS and file not in OPENERS[name])
            or (hot and name.endswith(".item"))
        ):
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def prints(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) and ast.unparse(node.func) == "print" for node in ast.walk(tree))


def test_one_file_prints():
    """It escapes what it prints, and survives a terminal that has gone."""
    assert [file for file in FILES if prints(ast.parse((PACKAGE / file).read_text(encoding="utf-8")))] == [
        "terminal.py"
    ]


@pytest.mark.parametrize("pattern", HOT)
def test_every_hot_place_exists(pattern):
    assert any(PACKAGE.glob(pattern))


@pytest.mark.parametrize("file", FILES)
def test_no_banned_call(file):
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"), filename=file)
    assert not banned(tree, any(PACKAGE / file in PACKAGE.glob(pattern) for pattern in HOT), file)


@pytest.mark.parametrize("folder", ["examples", "experiments", "benchmarks"])
def test_no_banned_call_beside_the_package(folder):
    found = {path.name: banned(ast.parse(path.read_text(encoding="utf-8"))) for path in (ROOT / folder).rglob("*.py")}
    assert not any(found.values()), found


@pytest.mark.parametrize(
    "source",
    [
        "eval(text)",
        "exec(text)",
        "yaml.load(text, Loader)",
        "pickle.load(file)",
        "torch.load(path)",
        "torch.load(path, map_location='cpu', weights_only=flag)",
        "anything(path, weights_only=False)",
        "pickle.Unpickler(file)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "Image.open(path)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "datasets.load_dataset(name, trust_remote_code=True)",
        "importlib.import_module(config.model)",
        "loss.mean().item()",
    ],
)
def test_banned_calls_are_seen(source):
    assert banned(ast.parse(source), hot=True)


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()",
        "table.items()",
        "yaml.safe_load(text)",
        "torch.load(path, weights_only=True)",
        "np.load(path, allow_pickle=False)",
        "re.compile(text)",
        "subprocess.run([program])",
    ],
)
def test_harmless_calls_are_not_banned(source):
    assert not banned(ast.parse(source), hot=True)
