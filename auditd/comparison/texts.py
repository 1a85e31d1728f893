"""Where two texts begin to differ."""

from __future__ import annotations

from typing import Final

from auditd.comparison.difference import TextChange

_STEP: Final = 4096
#: Characters of a line that are shown, and how many of them stand before the first that differs.
EXCERPT: Final = 120
_BEFORE: Final = 30


def first_change(a: str, b: str) -> TextChange | None:
    """The first line in which ``a`` and ``b`` differ; None if they are the same. Takes time in proportion to both."""
    if a == b:
        return None
    position = _common(a, b)
    if _ends_a_line(a, b, position):
        # One text is over and the other goes on in a new line: the lines that end here are the same.
        position += 1
    begin = max(a.rfind("\n", 0, position), b.rfind("\n", 0, position)) + 1
    line = max(a.count("\n", 0, position), b.count("\n", 0, position)) + 1
    shown_from = max(begin, position - _BEFORE)
    return TextChange(
        line=line,
        column=position - begin + 1,
        excerpt_column=shown_from - begin + 1,
        a=_excerpt(a, shown_from),
        b=_excerpt(b, shown_from),
    )


def _common(a: str, b: str) -> int:
    """How many characters both begin with."""
    shorter = min(len(a), len(b))
    position = 0
    while position < shorter and a[position : position + _STEP] == b[position : position + _STEP]:
        position += _STEP
    while position < shorter and a[position] == b[position]:
        position += 1
    return min(position, shorter)


def _ends_a_line(a: str, b: str, position: int) -> bool:
    longer = a if len(a) > len(b) else b
    return position == min(len(a), len(b)) and longer.startswith("\n", position)


def _excerpt(text: str, begin: int) -> str | None:
    """What stands at ``begin``, up to the line's end; None if the text is over before that."""
    if begin > len(text):
        return None
    piece = text[begin : begin + EXCERPT]
    return piece.partition("\n")[0]
