"""Many names in little memory: joined and compressed, for sets of a million tensors. Frozen.

Names of tensors differ in a few digits, and compressed they take about a tenth; as separate objects they would take
twice their length. The names come out in the order in which they went in.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

#: Neither occurs in UTF-8. The first stands after every name, the second before one that is not UTF-8.
_END: Final = b"\xff"
_RAW: Final = b"\xfe"

_LEVEL: Final = 1


@dataclass(frozen=True, slots=True)
class PackedNames:
    """A sequence of names that is only ever counted and gone through; made by ``of`` or ``joined``."""

    count: int
    _packed: bytes

    @classmethod
    def of(cls, names: Iterable[bytes]) -> PackedNames:
        """Pack names."""
        return cls.joined(b"".join(map(cls.marked, names)))

    @classmethod
    def joined(cls, names: bytes) -> PackedNames:
        """Pack names that are joined already, each made by :meth:`marked`."""
        return cls(names.count(_END), zlib.compress(names, _LEVEL))

    @staticmethod
    def marked(name: bytes) -> bytes:
        """A name as it stands among others."""
        if not name.isascii() and (_END in name or _RAW in name):
            return _RAW + name.hex().encode("ascii") + _END
        return name + _END

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[bytes]:
        names = zlib.decompress(self._packed).split(_END)
        names.pop()
        return (bytes.fromhex(name[1:].decode("ascii")) if name[:1] == _RAW else name for name in names)
