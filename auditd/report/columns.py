"""Text in the columns of a terminal: its width, cut and wrapped. Widths are in character cells."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from auditd.evidence.text import printable

ELLIPSIS: Final = "…"
#: In front of what a line had no room for.
FOLDED: Final = " " * 4
#: No more characters a cell are looked at for one line: marks take none.
_WINDOW: Final = 16
#: A colour. No text from outside has one: it is made printable first.
SGR: Final = re.compile(r"\x1b\[[0-9]*m")
#: An escape as printable text has it, or one character.
_UNIT: Final = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)|.", re.DOTALL)
_WIDE: Final = frozenset("WF")
#: Marks that are drawn over the character before them.
_OVERLAID: Final = frozenset({"Mn", "Me"})


def _cells(character: str) -> int:
    if unicodedata.category(character) in _OVERLAID:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def width(text: str) -> int:
    """The cells that printable ``text`` takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _units(text: str, cells: int) -> Iterable[str]:
    """What is not broken: an escape, unless it alone is longer than a line of ``cells``, or a character."""
    if "\\" not in text:
        return text
    units = _UNIT.findall(text)
    return (part for unit in units for part in (unit if len(unit) > cells else (unit,)))


def _prefix(units: Iterable[str], cells: int) -> Iterator[str]:
    for unit in units:
        cells -= width(unit)
        if cells < 0:
            return
        yield unit


def cut_left(text: str, cells: int) -> str:
    """``text`` in at most ``cells`` cells, at least 1: its end stays, because names differ there."""
    if width(text) <= cells:
        return text
    kept = list(_prefix(reversed(list(_units(text, cells))), cells - 1))
    while kept and width(kept[-1]) == 0:  # a mark whose character was cut
        kept.pop()
    return ELLIPSIS + "".join(reversed(kept))


def left(text: str, cells: int) -> str:
    """``text`` filled up with spaces on its right."""
    return text + " " * (cells - width(text))


def right(text: str, cells: int) -> str:
    """``text`` filled up with spaces on its left."""
    return " " * (cells - width(text)) + text


def _pieces(word: str, cells: int) -> Iterator[str]:
    """A word in pieces of at most ``cells`` cells, broken between characters and escapes."""
    if width(word) <= cells:
        yield word
        return
    piece: list[str] = []
    left_over = cells
    for unit in _units(word, cells):
        left_over -= width(unit)
        if left_over < 0 and piece:
            yield "".join(piece)
            piece, left_over = [], cells - width(unit)
        piece.append(unit)
    yield "".join(piece)


def wrap(text: str, cells: int) -> list[str]:
    """``text`` broken at spaces, and inside words that are longer than a line; at least one line."""
    lines = [""]
    for word in text.split(" "):
        first, *others = _pieces(word, cells)
        longer = f"{lines[-1]} {first}" if lines[-1] else first
        if width(longer) <= cells:
            lines[-1] = longer
        else:
            lines.append(first)
        lines.extend(others)
    return lines


def fold(line: str, cells: int) -> Iterator[str]:
    """A line that was set already, in lines of at most ``cells``: what is too much goes below, indented, nothing is lost.

    A line that has to be broken loses its colours, which only underline what the words say.
    """
    text = SGR.sub("", line)
    if width(text) <= cells:
        yield line
        return
    below = FOLDED if cells >= len(FOLDED) + 2 else ""  # a character may take two cells
    before, at = "", 0
    while at < len(text):
        end = _break(text, at, cells - len(before), cells - len(below))
        yield (before + text[at:end]).rstrip(" ")
        before, at = below, end
        while text.startswith(" ", at):
            at += 1


def _break(text: str, at: int, cells: int, longest: int) -> int:
    """Where the line that begins at ``at`` ends: at the last space that fits, else in the middle of a word."""
    window = text[at : at + _WINDOW * cells]
    fitting = len("".join(_prefix(_units(window, longest), cells)))
    end = at + max(1, fitting)
    if end >= len(text) or text[end] == " ":
        return end
    # Not in front of the first word: that would put nothing on the line.
    blank = fitting - len(window[:fitting].lstrip(" "))
    space = window.rfind(" ", blank, fitting)
    return end if space < 0 else at + space


def defused(text: str, limit: int | None = None) -> str:
    """Text that was made printable when it was recorded, in case it was not: escapes stay as they are."""
    return printable(text, limit).replace("\\\\", "\\")
