"""Text from outside, made harmless: the only way that a path, a name or a string reaches people.

Two needs, two functions. :func:`exact` keeps a string for the record: the text itself where the bytes are
UTF-8, else an escaped form and the bytes in base64. :func:`printable` is for eyes: nothing in it moves a
cursor, changes a colour, ends a line or reverses the direction of reading.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from typing import Final

#: Unicode categories that have no business on a terminal: controls, format characters (bidirectional
#: overrides, zero-width joiners), surrogates, private use, unassigned, line and paragraph separators.
_UNPRINTABLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

#: Everything outside printable ASCII goes through the category check, and so does the backslash.
_SUSPECT: Final = re.compile(r"[^ -\[\]-~]")

#: Characters that JSON may hold raw and a terminal or log viewer would act upon: DEL and C1, the soft hyphen,
#: invisible and bidirectional format characters, line and paragraph separators.
_RAW_IN_JSON: Final = (
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x600, 0x605),
    (0x61C, 0x61C),
    (0x6DD, 0x6DD),
    (0x70F, 0x70F),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
)


def _encoded_pattern() -> re.Pattern[bytes]:
    """These characters in UTF-8, so that a large record need not be decoded."""
    points = (chr(point) for first, last in _RAW_IN_JSON for point in range(first, last + 1))
    return re.compile(b"|".join(re.escape(point.encode("utf-8")) for point in points))


_ENCODED: Final = _encoded_pattern()


def exact(raw: bytes) -> tuple[str, str | None]:
    """``(text, base64)``: the exact text and None, or an escaped form and the bytes in base64."""
    try:
        return raw.decode("utf-8"), None
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace"), base64.b64encode(raw).decode("ascii")


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if character == "\\":
        return "\\\\"
    if unicodedata.category(character) not in _UNPRINTABLE_CATEGORIES:
        return character
    return character.encode("unicode_escape").decode("ascii")


def printable(text: str | bytes, limit: int | None = None) -> str:
    """``text`` on one line, every unprintable character escaped, cut to ``limit`` characters with an ellipsis.

    A backslash is doubled, so an escape in the result can always be told from the same letters in the text.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    cut = limit is not None and len(text) > limit
    shown = _SUSPECT.sub(_escape, text[:limit] if cut else text)
    return shown + "…" if cut else shown


def quoted(text: str | bytes, limit: int = 80) -> str:
    """:func:`printable` between double quotes, for messages."""
    return '"' + printable(text, limit).replace('"', '\\"') + '"'


def harmless_json(encoded: bytes) -> bytes:
    r"""The same JSON with every character that a terminal would act upon as an escape.

    Sound because such characters can stand in JSON only inside strings, where ``\\uXXXX`` means the same.
    """
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _ENCODED.sub(lambda match: b"\\u%04x" % ord(match.group().decode("utf-8")), encoded)
