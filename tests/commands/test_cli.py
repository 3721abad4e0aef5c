from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from teachaugment import __version__
from teachaugment.commands import COMMANDS, cli


def test_help_is_quick():
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "teachaugment", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "examples:" in done.stdout
    assert "| torch" not in done.stderr and time.monotonic() - began < 5  # under a second on a machine that is idle


def imported_by(*words: str) -> set[str]:
    """The modules of this package that the command imports to print its help, in a process of its own."""
    code = """
import atexit, sys
from teachaugment.commands import cli
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
cli.main(sys.argv[1:])
"""
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return {name for name in done.stderr.split() if name.startswith("teachaugment.")}


@pytest.mark.parametrize("name", COMMANDS)
def test_only_the_module_of_the_command_that_is_asked_for_is_imported(name):
    others = {f"teachaugment.commands.{COMMANDS[other].where}" for other in COMMANDS if other != name}
    found = imported_by(name, "--help")
    assert f"teachaugment.commands.{COMMANDS[name].where}" in found and not others & found


def test_the_overview_needs_only_the_table(capsys):
    assert imported_by("--help") <= {
        *("teachaugment.commands", "teachaugment.commands.cli", "teachaugment.commands.parser"),
        "teachaugment.commands.freed_memory",
        *("teachaugment.errors", "teachaugment.progress", "teachaugment.tables", "teachaugment.terminal"),
    }
    with pytest.raises(SystemExit):
        cli.main([])
    text = capsys.readouterr().out
    assert all(name in text and entry.help in text for name, entry in COMMANDS.items())


def test_every_command_is_a_module_with_flags_examples_and_a_run():
    for name in COMMANDS:
        module = COMMANDS.load(name)
        assert module.EXAMPLES.startswith("examples:\n") and f"teachaugment {name}" in module.EXAMPLES
        assert callable(module.add_arguments) and callable(module.run)


def test_no_command_imports_torch_before_it_runs():
    code = """
import sys
from teachaugment.commands import COMMANDS
for name in COMMANDS:
    COMMANDS.load(name)
sys.exit('torch' in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out.strip() == f"teachaugment {__version__}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trian"], "unknown command 'trian'; did you mean 'train'?"),
        (["--colour"], "unknown flag --colour; see teachaugment --help"),
        (["--colour", "train"], "unknown flag --colour"),
        (["models", "wrn"], "unexpected argument 'wrn'; see teachaugment models --help"),
        (["train", "--lrr", "0.1"], "unknown flag --lrr; did you mean '--lr'?"),
        (["train", "--teach.smothing=0.1"], "did you mean '--teach.smoothing'?"),
        (["train", "extra"], "unknown preset 'extra'"),
        (["train", "--preset", "cifar10-wrn-28-1"], "did you mean 'cifar10-wrn-28-10'?"),
        (["train", "shapes-small", "extra"], "unexpected argument 'extra'"),
        (["train", "shapes-small", "--preset", "cifar10-small"], "two presets"),
        (["train", "shapes-small", "--lr", "0"], "--lr must be"),
        (
            ["train", "--strategy", "teachaugment", "--teacher", "wrn-28-10", "--data.size", "8"],
            "no pretrained weights of wrn-28-10",
        ),
        (["train", "--teacher", "wrn-28-10", "--data.size", "8"], "--teacher is not used by the strategy adaptive"),
        (["train", "--amp", "int8"], "--amp must be one of off, bf16, fp16"),
        (["train", "--data", "imagenet", "--data.root", "/nowhere"], "imagenet is not in /nowhere"),
        (["train", "--model", "torchvision/resnet51"], "did you mean 'resnet50'?"),
        (["train", "--lr"], "--lr"),
        (["train", "--lr", "-0.1"], "--lr must be a number above 0, not '-0.1'"),
        (["train", "--epochs", "0"], "--epochs must be a whole number of at least 1, not '0'"),
        (["train", "--teach.smoothing", "1"], "--teach.smoothing must be a number of at least 0 and below 1, not '1'"),
        (["train", "--batch_size", "0"], "--batch-size must be"),
        (["train", "--strategy", "teachaugmnt"], "did you mean 'teachaugment'?"),
        (["train", "--model", "wrn-16-3"], "unknown model 'wrn-16-3'; did you mean 'wrn-16-2'?"),
        (["train", "--data", "shape"], "'shapes'"),
        (["train", "--data", "/nowhere/at/all"], "/nowhere/at/all"),
        (["train", "--device", "gpu"], "--device gpu cannot be used"),
        (["train", "--config", "/nowhere.yaml"], "cannot read the configuration /nowhere.yaml"),
        (["train", "--resume", "/nowhere"], "/nowhere is not a run directory: it does not exist"),
        (["train", "--output", __file__], "is a file"),
        (["evaluate"], "RUN"),
        (["evaluate", "/nowhere"], "/nowhere is not a run directory"),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    text = capsys.readouterr().err
    assert text.startswith("teachaugment: error: ") and text.count("\n") == 1 and says in text
    assert os.listdir(tmp_path) == []
