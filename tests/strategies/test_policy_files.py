"""Policies of others: read as they are published, and nothing in a file is ever run."""

import json

import pytest

from teachaugment.errors import UserError
from teachaugment.strategies.policy_files import PBA_ORDER, RANGES, Operation, Schedule, SubPolicies, pba_value, read

PAIR = [["Rotate", 0.7, 0.5], ["Color", 0.4, 1.0]]
READ = [Operation("Rotate", 0.7, 0.0), Operation("Color", 0.4, 1.9)]


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return str(path)


def test_json(tmp_path):
    policy = read(write(tmp_path, "p.json", [PAIR, [["Invert", 1, 0]]]))
    assert isinstance(policy, SubPolicies)
    assert policy.choices == [READ, [Operation("Invert", 1.0, 0.0)]]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (f"def found():\n    p = {PAIR!r}\n    return [p]\n", None),  # a list around a name is no literal
        (f"def found():\n    p = [{PAIR!r}]\n    return p\n", "found"),
        (f"def found():\n    return [{PAIR!r}]\n", "found"),
        (f"BEST = long_name = [{[tuple(step) for step in PAIR]!r}]\n", "BEST"),
        (f"BEST = long_name = [{PAIR!r}]\n# a comment\n", "long_name"),
        (f"import os\n\ndef found():\n    a = [{PAIR[:1]!r}]\n    b = [{PAIR[1:]!r}]\n    return a + b\n", "found"),
    ],
)
def test_python_source(tmp_path, source, name):
    path = write(tmp_path, "archive.py", source)
    if name is None:
        with pytest.raises(UserError, match="no policy 'found'"):
            read(f"{path}#found")
        return
    policy = read(f"{path}#{name}")
    assert [step for sub in policy.choices for step in sub] == READ


def test_python_source_is_never_run(tmp_path):
    mark = tmp_path / "mark"
    source = (
        f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n"
        f"bad = [[('Rotate', __import__('pathlib').Path({str(mark)!r}).touch() or 0.5, 0.5)]]\n"
        f"def worse():\n    pathlib.Path({str(mark)!r}).touch()\n    return [[('Rotate', 0.5, 0.5)]]\n"
        "@worse\ndef decorated():\n    return [[('Rotate', 0.5, 0.5)]]\n"
        "def generated():\n    return [[('Rotate', p, 0.5)] for p in (0.1, 0.2)]\n"
    )
    path = write(tmp_path, "evil.py", source)
    for name in ("bad", "decorated", "generated"):
        with pytest.raises(UserError, match=f"no policy {name!r}"):
            read(f"{path}#{name}")
    assert read(f"{path}#worse").choices == [[Operation("Rotate", 0.5, 0.0)]]  # read, and not called
    assert not mark.exists()


def test_lists_that_double_again_and_again_do_not_fill_the_memory(tmp_path):
    source = f"a = [{PAIR!r}]\n" + "a = a + a\n" * 80 + f"ok = [{PAIR!r}]\n"
    assert read(write(tmp_path, "p.py", source) + "#ok").choices == [READ]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.json", "[[[", "not JSON"),
        ("p.json", "[" * 100_000, "not JSON"),
        ("p.json", {"a": 1}, "must hold a list of sub-policies"),
        ("p.json", [], "must hold a list of sub-policies"),
        ("p.json", [[]], "must hold a list of sub-policies"),
        ("p.json", [PAIR, [["Rotat", 0.5, 0.5]]], "sub-policy 2: unknown operation 'Rotat'; did you mean 'Rotate'?"),
        ("p.json", [[["Rotate", 1.5, 0.5]]], "probability of Rotate must be a number from 0 to 1, not 1.5"),
        ("p.json", [[["Rotate", 0.5, 7]]], "level of Rotate must be a number from 0 to 1, not 7"),
        ("p.json", '[[["Rotate", NaN, 0.5]]]', "probability of Rotate"),
        ("p.json", [[["Rotate", True, 0.5]]], "probability of Rotate"),
        ("p.json", [[["Rotate", 0.5]]], 'is written \\["Rotate", 0.7, 0.6\\]'),
        ("p.json", [["Rotate", 0.5, 0.5]], "is written"),
        ("p.py#x", "def (", "not Python source"),
        ("p.py#x", "x = 3\n", "no policy 'x'"),
        ("p.py#fond", f"found = [{PAIR!r}]\n", "did you mean 'found'?"),
        ("p.py", f"found = [{PAIR!r}]\nother = found\n", "needs the name of a policy, .*#NAME, one of found, other"),
        ("p.yaml", "- 1", "must be a .json, .py or .txt file"),
        ("p.safetensors", "", "must be a .json, .py or .txt file"),
        ("p.txt", "[]", "how many epochs"),
        ("p.txt#0", "[]", "how many epochs"),
        ("p.txt#200", "__import__('os').abort()", "line 1: not a line of a PBA schedule"),
        ("p.txt#200", "[1, 2, 3]", "line 1: not a line of a PBA schedule"),
        ("p.txt#200", "['1', '0', 5, 5, {'lr': 1}, {'lr': 1}]", "line 1: not a line of a PBA schedule"),
        ("p.txt#200", "", "no schedule of 200 epochs"),
    ],
)
def test_a_bad_file_is_one_line_that_says_what_is_wrong(tmp_path, name, text, says):
    file, hash_, part = name.partition("#")
    with pytest.raises(UserError, match=says) as error:
        read(write(tmp_path, file, text) + hash_ + part)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400 + len(str(tmp_path))


def test_a_file_that_is_not_there_not_a_text_or_far_too_long(tmp_path):
    with pytest.raises(UserError, match="cannot read the policy"):
        read(str(tmp_path / "none.json"))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a text"):
        read(str(tmp_path / "binary.json"))
    (tmp_path / "long.json").write_bytes(b" " * 4_000_001)
    with pytest.raises(UserError, match="4,000,001 bytes"):
        read(str(tmp_path / "long.json"))


def pba(first, second):
    """60 numbers: all probabilities ``first`` tenths, all levels ``second``."""
    return [first, second] * 30


def test_a_schedule_of_pba_follows_the_line_of_descent(tmp_path):
    lines = [
        ["3", "5", 9, 9, pba(1, 1), pba(1, 1)],  # of a trial that nobody goes on from: cut off
        ["9", "8", 11, 20, pba(0, 0), pba(3, 1)],
        ["7", "9", 35, 50, pba(3, 1), {"hp_policy": pba(5, 2)}],
    ]
    path = write(tmp_path, "schedule.txt", "\n".join(map(repr, lines)) + "\n")
    schedule = read(f"{path}#200")
    assert isinstance(schedule, Schedule)
    assert [end for end, _ in schedule.phases] == [0.1, 0.25, 1.0]
    assert [operations[0].probability for _, operations in schedule.phases] == [0.0, 0.3, 0.5]
    assert [op.name for op in schedule.at(0)] == [*PBA_ORDER, *PBA_ORDER]
    assert [schedule.at(p)[3].value for p in (0, 0.099, 0.1, 0.2, 0.25, 0.99, 1)] == [0, 0, 3, 3, 6, 6, 6]
    with pytest.raises(UserError, match="no schedule of 40 epochs"):
        read(f"{path}#40")


@pytest.mark.parametrize(
    ("name", "level", "value"),
    [
        ("ShearX", 10, 0.3), ("ShearY", 5, 0.15), ("TranslateX", 10, 10 / 32), ("TranslateY", 3, 3 / 32),
        ("Rotate", 7, 21), ("Posterize", 0, 4), ("Posterize", 3, 3), ("Posterize", 10, 0), ("Solarize", 0, 256),
        ("Solarize", 10, 0), ("Solarize", 3, 180), ("Color", 0, 0.1), ("Contrast", 5, 1.0), ("Brightness", 10, 1.9),
        ("Sharpness", 1, 0.28), ("Cutout", 10, 20 / 32), ("Invert", 9, 0), ("Equalize", 9, 0), ("AutoContrast", 9, 0),
    ],
)  # fmt: skip
def test_levels_of_pba(name, level, value):
    assert pba_value(name, level) == pytest.approx(value)
    assert name in RANGES and name in PBA_ORDER
