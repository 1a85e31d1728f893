"""Finding a name that was there before, in linear time and little memory, however many there are."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final, Literal, TypeAlias

Standing: TypeAlias = Literal["new", "duplicate", "alias"]

#: Past this many names a set of them would weigh more than the header that they come from.
_PLAIN_NAMES: Final = 1 << 16

_DIGEST_BYTES: Final = 16


class Seen:
    """A set of byte strings: plain while small, then 128-bit keyed digests in buckets.

    The key is random, so a file cannot be made whose names collide; 16 bytes for each name hold four
    million of them in about 80 MB.
    """

    __slots__ = ("_buckets", "_key", "_plain")

    def __init__(self) -> None:
        self._plain: set[bytes] = set()
        self._buckets: dict[bytes, bytearray] = {}
        self._key = b""

    def add(self, name: bytes) -> bool:
        """Whether ``name`` is new; it is known afterwards."""
        if name in self._plain:
            return False
        if len(self._plain) < _PLAIN_NAMES:
            self._plain.add(name)
            return True
        digest, bucket = self._find(name)
        if self._holds(bucket, digest):
            return False
        bucket += digest
        return True

    def __contains__(self, name: bytes) -> bool:
        if name in self._plain:
            return True
        if not self._buckets:
            return False
        digest, bucket = self._find(name)
        return self._holds(bucket, digest)

    def _find(self, name: bytes) -> tuple[bytes, bytearray]:
        self._key = self._key or secrets.token_bytes(_DIGEST_BYTES)
        digest = hashlib.blake2b(name, digest_size=_DIGEST_BYTES, key=self._key).digest()
        return digest, self._buckets.setdefault(digest[:2], bytearray())

    @staticmethod
    def _holds(bucket: bytearray, digest: bytes) -> bool:
        at = bucket.find(digest)
        while at >= 0 and at % _DIGEST_BYTES:
            at = bucket.find(digest, at + 1)
        return at >= 0


class NameRegister:
    """Judges each name as it comes: new, a duplicate, or an alias that is equal up to a NUL."""

    __slots__ = ("_cut", "_names")

    def __init__(self) -> None:
        self._names = Seen()
        #: What stands before the first NUL of each name that has one.
        self._cut: Seen | None = None

    def judge(self, name: bytes) -> Standing:
        """How ``name`` stands to all names before it. C readers end a name at its first NUL."""
        if not self._names.add(name):
            return "duplicate"
        head, nul, _ = name.partition(b"\0")
        if not nul:
            return "alias" if self._cut is not None and name in self._cut else "new"
        self._cut = self._cut or Seen()
        seen_cut = not self._cut.add(head)
        return "alias" if seen_cut or head in self._names else "new"
