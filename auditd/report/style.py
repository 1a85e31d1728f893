"""Colour, which only underlines what the words say already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

#: Takes a text and what it is about (a verdict, a severity, a part of a page) and returns the text to show.
Style: TypeAlias = Callable[[str, str], str]

_RED, _YELLOW, _GREEN, _CYAN, _DIM, _BOLD = "31", "33", "32", "36", "2", "1"

#: SGR codes: red is what should not be used, yellow what should be looked at.
_COLOURS: Final[dict[str, str]] = {
    "mismatch": _RED,
    "malformed": _RED,
    "truncated": _RED,
    "residue": _RED,
    "critical": _RED,
    "unsupported": _YELLOW,
    "foreign": _YELLOW,
    "unknown": _YELLOW,
    "not seen": _YELLOW,
    "undetermined": _YELLOW,
    "warning": _YELLOW,
    "notice": _CYAN,
    "in_progress": _CYAN,
    "sound": _GREEN,
    "label": _DIM,
    "heading": _BOLD,
}


def plain(text: str, about: str) -> str:  # noqa: ARG001 - one signature for both
    """No colour."""
    return text


def coloured(text: str, about: str) -> str:
    """``text`` in the colour of ``about``; without one as it is."""
    code = _COLOURS.get(about)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text
