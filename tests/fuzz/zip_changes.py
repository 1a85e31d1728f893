"""Changes that know where a ZIP archive keeps its figures: local headers, directory rows, end records."""

from __future__ import annotations

import re
from typing import Final

from tests.fuzz.changes import TEXTS, Change, Dice, number, put

#: Mark: (offset behind it, size) of the figures that readers follow.
_FIGURES: Final = {
    b"PK\x03\x04": ((6, 2), (8, 2), (18, 4), (22, 4), (26, 2), (28, 2)),
    b"PK\x01\x02": ((8, 2), (10, 2), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (42, 4)),
    b"PK\x05\x06": ((4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)),
    b"PK\x06\x06": ((16, 4), (24, 8), (32, 8), (40, 8), (48, 8)),
    b"PK\x06\x07": ((8, 8), (16, 4)),
}
_MARK: Final = re.compile(rb"PK(?:\x03\x04|\x01\x02|\x05\x06|\x06\x06|\x06\x07)")


def _figure(data: bytearray, dice: Dice) -> None:
    marks = list(_MARK.finditer(bytes(data)))[:2000]
    if marks:
        mark = dice.choice(marks)
        at, size = dice.choice(_FIGURES[mark.group()])
        at += mark.start()
        if at + size <= len(data):
            put(data, at, size, number(dice, int.from_bytes(data[at : at + size], "little")))


def _mark(data: bytearray, dice: Dice) -> None:
    """A mark where none belongs."""
    at = dice.randint(0, len(data))
    data[at:at] = dice.choice(tuple(_FIGURES)) + dice.choice((b"", bytes(18), dice.choice(TEXTS)))


def _row_again(data: bytearray, dice: Dice) -> None:
    """A directory row once more, or many times: entries that all name the same place."""
    rows = [match.start() for match in _MARK.finditer(bytes(data)) if match.group() == b"PK\x01\x02"]
    if rows:
        at = dice.choice(rows)
        size = 46 + int.from_bytes(data[at + 28 : at + 30], "little")
        data[at:at] = bytes(data[at : at + size]) * dice.choice((1, 3, 40))


CHANGES: Final[tuple[Change, ...]] = (_figure, _figure, _figure, _mark, _row_again)
