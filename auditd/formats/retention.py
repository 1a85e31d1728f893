"""How much of what is read is kept: the budget for declarations."""

from __future__ import annotations

from typing import Final

from auditd.formats.bounds import RETAINED_BYTES

#: What a row weighs beside its text: about its length in a record, and a third of its size in memory.
ROW_BYTES: Final = 192


class Retention:
    """A budget in bytes. Each row costs :data:`ROW_BYTES` and the bytes of the text that it keeps.

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
