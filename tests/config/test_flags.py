from __future__ import annotations

import argparse

from teachaugment.config.flags import add_settings, choices_of, given_layers, help_text, metavar
from teachaugment.config.resolve import SETTINGS, Setting, resolve
from teachaugment.config.settings import setting
from teachaugment.tables import Entry, Table


def parsed(*words: str) -> dict[str, tuple[str, str]]:
    parser = argparse.ArgumentParser()
    add_settings(parser)
    return parser.parse_args(words).chosen


def test_every_setting_has_a_flag_by_its_long_name():
    for key, one in SETTINGS.items():
        value = next(iter(choices_of(one)), "3")
        assert parsed(f"--{key}", value) == {key: (f"--{key}", value)}


def test_a_short_flag_is_remembered_by_the_name_it_was_given_by():
    assert parsed("--lr", "0.2", "--train.epochs", "7") == {
        "optim.lr": ("--lr", "0.2"),
        "train.epochs": ("--train.epochs", "7"),
    }
    assert parsed() == {}


def test_the_last_of_two_spellings_counts():
    assert resolve(*given_layers(None, None, parsed("--lr", "0.2", "--optim.lr", "0.3"))).optim.lr == 0.3


def test_few_choices_stand_beside_the_flag_and_many_below_it():
    assert metavar(SETTINGS["train.amp"]) == "off|bf16|fp16"
    assert metavar(SETTINGS["augment.strategy"]) == "NAME" and "trivialaugment" in help_text(
        SETTINGS["augment.strategy"]
    )
    assert (metavar(SETTINGS["optim.lr"]), metavar(SETTINGS["teach.replay"])) == ("X", "true|false")
    assert "[40; segmentation: 20; detection: 30; fine-tuning: 30]" in help_text(SETTINGS["train.epochs"])


def test_choices_may_be_a_table():
    table = Table("letter", "letters", {name: Entry(name, "a letter") for name in "abcdef"})
    made = Setting("letter", str, "a", setting("a", "which letter", choices=table).metadata)
    assert choices_of(made) == tuple("abcdef") and metavar(made) == "NAME"
    assert (
        help_text(made) == "which letter: " + ", ".join(f"{name} (a letter)" for name in "abcdef") + " [a]"
        and made.parse("b") == "b"
    )
