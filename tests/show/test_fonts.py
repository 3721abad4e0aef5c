"""Names in other scripts are letters, not boxes."""

from __future__ import annotations

import pytest
from PIL import ImageFont

from teachaugment.show import fonts
from teachaugment.show.fonts import has_letters, lettering


def test_a_missing_letter_is_known_to_be_missing():
    own = ImageFont.load_default(size=13)
    assert has_letters(own, "cat 12") and not has_letters(own, "漢")


@pytest.mark.parametrize("name", ["cat", "Bär", "café", "Straße", "кошка", "猫"])
def test_what_is_drawn_has_letters(name):
    text, font = lettering(name, 13)
    assert has_letters(font, text) and text


def test_without_any_font_the_nearest_plain_letters_are_drawn(monkeypatch):
    monkeypatch.setattr(fonts, "_found", lambda size: ())
    own = ImageFont.load_default(size=13)
    text, font = lettering("Straße Łódź café 漢", 13)
    assert has_letters(font, text) and "afe" in text.replace("é", "e") and "漢" not in text
    assert lettering("plain", 13)[0] == "plain" and has_letters(own, "plain")
    assert lettering("漢", 13)[0] == "?"
