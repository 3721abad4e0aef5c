"""How data are read: settings that make no sense are refused, each in one line that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from teachaugment.data import Reading
from teachaugment.errors import UserError


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        *(("val_fraction", 1.0), ("val_fraction", -0.1), ("per_class", 0)),
        *(("in_memory", "maybe"), ("bad_images", "ignore"), ("size", 0), ("size", (8, 0))),
        *(("area", 0.0), ("area", 1.1), ("views", 0)),
    ],
)
def test_impossible_settings_are_refused_in_one_line(keyword, value):
    with pytest.raises(UserError, match=f"^{keyword} is ") as error:
        Reading(**{keyword: value})
    assert "\n" not in str(error.value)


def test_one_number_is_the_side_of_a_square():
    assert (Reading(size=8).shape, Reading(size=(8, 9)).shape, Reading().shape) == ((8, 8), (8, 9), None)


def test_named_data_are_kept_in_the_root_or_else_in_the_cache(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert Reading().home == Path("/somewhere/teachaugment") and Reading(root="/data").home == Path("/data")
