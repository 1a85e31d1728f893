"""How much of what is read is kept: the budget for declarations."""

from __future__ import annotations

from typing import Final

from auditd.formats.bounds import RETAINED_BYTES
from auditd.formats.utf8 import is_utf8

#: What a row weighs beside its text: about its length in a record, and a third of its size in memory.
ROW_BYTES: Final = 192


#: Bytes that stand for themselves in a JSON string.
_PLAIN: Final = bytes(byte for byte in range(0x20, 0x100) if byte not in b'"\\\x7f')
_ASCII: Final = bytes(range(0x80))

#: What an escape adds to the byte that it stands for: ``\\u0001`` for one byte, ``\\\\xff`` likewise.
_ESCAPE_BYTES: Final = 5


def text_cost(raw: bytes) -> int:
    """What a text weighs in a record, in bytes: itself, its escapes, and base64 beside it where it is not UTF-8."""
    cost = len(raw) + _ESCAPE_BYTES * len(raw.translate(None, _PLAIN))
    if raw.isascii() or is_utf8(raw):
        return cost
    return cost + _ESCAPE_BYTES * len(raw.translate(None, _ASCII)) + len(raw) * 4 // 3


class Retention:
    """A budget in bytes. Each row costs :data:`ROW_BYTES` and what its text weighs (:func:`text_cost`).

    Rows are kept from the first one on until one does not fit; from then on none is, so that what is kept
    is always the beginning of its collection and indices stay positions.
    """

    __slots__ = ("_left", "exhausted")

    def __init__(self, budget: int = RETAINED_BYTES) -> None:
        self._left = budget
        self.exhausted = False

    def admit(self, text_bytes: int) -> bool:
        """Whether a row with this much text is kept; charges it if so."""
        cost = ROW_BYTES + text_bytes
        if self.exhausted or cost > self._left:
            self.exhausted = True
            return False
        self._left -= cost
        return True
