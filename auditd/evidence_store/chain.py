"""The chain over all records, in the order in which they were stored. Pure.

Each value is ``SHA-256(previous value || evidence id)``; the first record follows 32 zero bytes. A record that is
taken away, put in or moved later changes every value after it. The chain lives in the store and not in the
records: a record stays the same wherever it is copied to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

#: What the first record follows.
GENESIS: Final = bytes(32)


def link(previous: bytes, evidence_id: str) -> bytes:
    """The chain value (32 bytes) of the record ``evidence_id`` that follows ``previous``."""
    return hashlib.sha256(previous + evidence_id.encode("ascii")).digest()


def first_break(anchor: bytes, links: Iterable[tuple[int, str, bytes]]) -> int | None:
    """The sequence number of the first of ``links`` (sequence, evidence id, value) that does not follow; None if all do."""
    value = anchor
    for sequence, evidence_id, stored in links:
        value = link(value, evidence_id)
        if value != stored:
            return sequence
    return None
