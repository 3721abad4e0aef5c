"""A font that has the letters of a text. Pillow's own has those of English and few others."""

from __future__ import annotations

import unicodedata
from functools import cache

from PIL import ImageFont

Font = ImageFont.ImageFont | ImageFont.FreeTypeFont
# Fonts with many letters that systems have, by the names of their files; Pillow knows where systems keep them.
KNOWN = (
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "FreeSans.ttf", "Ubuntu-R.ttf"),
    *("Arial Unicode.ttf", "Arial.ttf", "arial.ttf", "segoeui.ttf", "Helvetica.ttc"),
    *("NotoSansCJK-Regular.ttc", "PingFang.ttc", "msyh.ttc", "wqy-microhei.ttc", "DroidSansFallback.ttf"),
)
NO_LETTER = "\uffff"  # which no font has: drawn as the box that stands for a missing letter


def lettering(text: str, size: int) -> tuple[str, Font]:
    """The text and a font that has its letters; where no font has them, the nearest plain letters."""
    own = ImageFont.load_default(size=size)
    for font in (own, *_found(size)):
        if has_letters(font, text):
            return text, font
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode()
    return plain or "?", own


def has_letters(font: Font, text: str) -> bool:
    """Whether each letter is more than the box of a missing one."""
    box = bytes(font.getmask(NO_LETTER))
    return all(letter.isspace() or letter.isascii() or bytes(font.getmask(letter)) != box for letter in text)


@cache
def _found(size: int) -> tuple[Font, ...]:
    """The known fonts that this system has."""
    made: list[Font] = []
    for name in KNOWN:
        try:
            made.append(ImageFont.truetype(name, size))
        except OSError:
            continue
    return tuple(made)
