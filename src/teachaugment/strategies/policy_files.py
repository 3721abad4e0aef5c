"""Read the augmentation policies that search methods have published, in their authors' own files. Nothing is run.

``FILE.json``: sub-policies of operation, probability and level: ``[[["Rotate", 0.7, 0.6], ["Color", 0.4, 0.9]], …]``.
``FILE.py#NAME``: the same as a literal in Python source, as Fast AutoAugment and DADA publish theirs.
``FILE.txt#EPOCHS``: the log of a search by PBA that ran for so many epochs: a schedule.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from teachaugment.errors import UserError, nearest

LARGEST = 4_000_000  # bytes; the longest published file has 130,000
FORM = 'a list of sub-policies such as [["Rotate", 0.7, 0.6], ["Color", 0.4, 0.9]]'
LONGEST = 10_000  # sub-policies
MISTAKES = (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError)  # of a literal that is none

# Level 0 and level 1 in Fast AutoAugment and DADA. Translation and Cutout are shares of the image's side, rotation is
# in degrees, Solarize a threshold of 256, Posterize a number of bits, and the others are factors.
RANGES: dict[str, tuple[float, float]] = {
    "ShearX": (-0.3, 0.3),
    "ShearY": (-0.3, 0.3),
    "TranslateX": (-0.45, 0.45),
    "TranslateY": (-0.45, 0.45),
    "Rotate": (-30, 30),
    "AutoContrast": (0, 0),
    "Invert": (0, 0),
    "Equalize": (0, 0),
    "Solarize": (0, 256),
    "Posterize": (4, 8),
    "Contrast": (0.1, 1.9),
    "Color": (0.1, 1.9),
    "Brightness": (0.1, 1.9),
    "Sharpness": (0.1, 1.9),
    "Cutout": (0, 0.2),
}
PBA_ORDER = (
    *("AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "Color", "Contrast", "Brightness"),
    *("Sharpness", "ShearX", "ShearY", "TranslateX", "TranslateY", "Cutout"),
)
PBA_SIDE = 32  # pixels: PBA's translations and squares are those of CIFAR's images


class Operation(NamedTuple):
    name: str
    probability: float
    value: float  # in the unit of RANGES


@dataclass(frozen=True)
class SubPolicies:
    """For each image one of the choices at random, and of it every operation with its probability."""

    choices: list[list[Operation]]


@dataclass(frozen=True)
class Schedule:
    """PBA: operations that change in the course of a training; for each image up to two of them, in random order."""

    phases: list[tuple[float, list[Operation]]]  # until which share of the training, and what

    def at(self, progress: float) -> list[Operation]:
        return next((operations for end, operations in self.phases if progress < end), self.phases[-1][1])


def read(source: str) -> SubPolicies | Schedule:
    """The policy in ``FILE`` or ``FILE#NAME``."""
    file, _, name = (source, "", "") if Path(source).expanduser().exists() else source.partition("#")
    path = Path(file).expanduser()
    readers: dict[str, Callable[[str, str, str], SubPolicies | Schedule]]
    readers = {".json": _from_json, ".py": _from_python, ".txt": _from_pba}
    if path.suffix not in readers:
        raise UserError(f"{file} must be a .json, .py or .txt file of a policy")
    try:
        data = path.read_bytes()
        if len(data) > LARGEST:
            raise UserError(f"{file} has {len(data):,} bytes, more than the {LARGEST:,} a policy could need")
        return readers[path.suffix](data.decode(), file, name)
    except OSError as error:
        raise UserError(f"cannot read the policy {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} is not a text") from None


def _from_json(text: str, file: str, name: str) -> SubPolicies:
    try:
        return sub_policies(json.loads(text), file)
    except MISTAKES:
        raise UserError(f"{file} is not JSON; a policy is {FORM}") from None


def _from_python(text: str, file: str, name: str) -> SubPolicies:
    """A literal with a name, at the top of a module or returned by a function without arguments."""
    try:
        found = dict(_named(ast.parse(text).body))
    except MISTAKES:
        raise UserError(f"{file} is not Python source") from None
    if not name:
        several = ", ".join(list(found)[:12])
        raise UserError(f"{file} needs the name of a policy, {file}#NAME" + (f", one of {several}" if found else ""))
    if name not in found:
        raise UserError(f"there is no policy {name!r} in {file}{nearest(name, found)}")
    return sub_policies(found[name], f"{file}#{name}")


def _named(body: list[ast.stmt]) -> Iterator[tuple[str, Any]]:
    """Names and the lists they stand for, as far as they can be told without running anything."""
    known: dict[str, Any] = {}
    for statement in body:
        if isinstance(statement, ast.Assign):
            value = _value(statement.value, known)
            for target in statement.targets:
                if isinstance(value, list) and isinstance(target, ast.Name):
                    known[target.id] = value
                    yield target.id, value
        elif isinstance(statement, ast.Return) and statement.value is not None:
            yield "return", _value(statement.value, known)
        elif isinstance(statement, ast.FunctionDef) and not statement.decorator_list and not statement.args.args:
            value = dict(_named(statement.body)).get("return")
            if isinstance(value, list):
                yield statement.name, value


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """A literal, a name of one, or lists added up; None for anything else."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _value(node.left, known), _value(node.right, known)
        lists = isinstance(left, list) and isinstance(right, list)
        return left + right if lists and len(left) + len(right) <= LONGEST else None  # doubling would fill the memory
    try:
        return ast.literal_eval(node)
    except MISTAKES:
        return None


def sub_policies(raw: Any, where: str) -> SubPolicies:
    """Checked, and levels in [0, 1] as values."""
    if not isinstance(raw, list) or not raw or not all(isinstance(sub, (list, tuple)) and sub for sub in raw):
        raise UserError(f"{where} must hold {FORM}")
    choices = []
    for i, sub in enumerate(raw, 1):
        place = f"{where}, sub-policy {i}"
        choices.append([_operation(step, place) for step in sub])
    return SubPolicies(choices)


def _operation(step: Any, place: str) -> Operation:
    if not isinstance(step, (list, tuple)) or len(step) != 3 or not isinstance(step[0], str):
        raise UserError(f'{place}: an operation is written ["Rotate", 0.7, 0.6], not {str(step)[:60]}')
    name, probability, level = step
    if name not in RANGES:
        raise UserError(f"{place}: unknown operation {name!r}{nearest(name, RANGES)}")
    for what, number in (("probability", probability), ("level", level)):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
            raise UserError(f"{place}: the {what} of {name} must be a number from 0 to 1, not {str(number)[:60]}")
    low, high = RANGES[name]
    return Operation(name, float(probability), low + level * (high - low))


def _from_pba(text: str, file: str, name: str) -> Schedule:
    """Lines of [trial, cloned trial, its epoch, the cloned one's epoch, policy before, policy after].

    The winner's line of descent: each line goes on from the trial that the line before it left behind. What stands
    before the last break in that chain is of no use.
    """
    if not name.isdigit() or not int(name):
        raise UserError(f"{file} does not say for how many epochs its search ran: write {file}#200, or #160 for SVHN")
    epochs, lines = int(name), []
    for number, line in enumerate(text.rstrip().splitlines(), 1):
        try:
            trial, cloned, _, end, before, after = ast.literal_eval(line)
            lines.append((trial, cloned, int(end), _pba_policy(before), _pba_policy(after)))
        except MISTAKES:
            raise UserError(f"{file}, line {number}: not a line of a PBA schedule") from None
    breaks = [i + 1 for i in range(len(lines) - 1) if lines[i][0] != lines[i + 1][1]]
    lines = lines[breaks[-1] :] if breaks else lines
    ends = [*(line[2] for line in lines), epochs]
    if not lines or ends != sorted(ends) or ends[0] < 0:
        raise UserError(f"{file} is no schedule of {epochs} epochs: its policies end after {ends[:-1]}")
    return Schedule(list(zip([end / epochs for end in ends], [lines[0][3], *(line[4] for line in lines)], strict=True)))


def _pba_policy(raw: Any) -> list[Operation]:
    """Two sets of 15 operations, each a probability in tenths and a level from 0 to 10."""
    numbers = raw["hp_policy"] if isinstance(raw, dict) else raw
    if len(numbers) != 4 * len(PBA_ORDER) or not all(type(n) is int and 0 <= n <= 10 for n in numbers):
        raise ValueError
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    names = PBA_ORDER * 2
    return [Operation(k, p / 10, pba_value(k, level)) for k, (p, level) in zip(names, pairs, strict=True)]


def pba_value(name: str, level: int) -> float:
    """PBA's levels from 0 to 10 in the unit of RANGES; whole numbers where PBA has whole numbers."""
    if name in ("ShearX", "ShearY"):
        return 0.03 * level
    if name in ("TranslateX", "TranslateY"):
        return level / PBA_SIDE
    if name == "Cutout":
        return 2 * level / PBA_SIDE
    if name == "Rotate":
        return 3 * level
    if name == "Posterize":
        return 4 - level * 4 // 10
    if name == "Solarize":
        return 256 - level * 256 // 10
    return 0.1 + 0.18 * level if RANGES[name][1] else 0.0
