"""What a line of output may hold."""

from __future__ import annotations

import unicodedata


def harmless(line: str) -> bool:
    """Whether nothing in the line moves a cursor, ends it or turns the direction of reading. Any space is fine."""
    return all(character.isprintable() or unicodedata.category(character) == "Zs" for character in line)
