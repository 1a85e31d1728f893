"""Names and numbers inside messages: names are quoted and cut, and nothing is in them but printable ASCII."""

from __future__ import annotations

from typing import Final

_SHOWN: Final = 80


def shown(raw: bytes | str) -> str:
    """``raw`` between double quotes, escaped, cut after 80 characters with a count of the rest."""
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    head = "".join(map(_escape, text[:_SHOWN]))
    return f'"{head}"' if len(text) <= _SHOWN else f'"{head}" and {counted(len(text) - _SHOWN, "more character")}'


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 byte``, ``2,048 bytes``, ``1 metadata entry``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _escape(character: str) -> str:
    if " " <= character <= "~" and character not in '"\\':
        return character
    if character == '"':
        return '\\"'
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
