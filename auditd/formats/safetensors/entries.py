"""The entries of a safetensors header as columns: text is made only when it is asked for."""

from __future__ import annotations

import json
from array import array
from typing import Final

from auditd.formats.bounds import U64

#: Metadata under which some writers keep the SHA-256 of everything behind the header.
SELF_HASH_KEY: Final = "sshs_model_hash"

#: The length in front of the JSON.
PREFIX_BYTES: Final = 8


class Entries:
    """All entries as columns, 38 bytes each: a header may declare two million of them.

    Positions are those in the JSON. The text of a name or shape is made when it is asked for.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.name_at = array("I")
        self.name_end = array("I")
        self.shape_at = array("I")
        self.shape_end = array("I")
        self.begin = array("Q")
        self.end = array("Q")
        self.dtype = array("I")
        self.dtypes: list[str] = []
        self._dtype_ids: dict[str, int] = {}
        #: Whether a name was written with escapes.
        self.escaped = bytearray()

    def __len__(self) -> int:
        return len(self.begin)

    def add(
        self, name: tuple[int, int], dtype: str, shape: tuple[int, int], begin: int, end: int, *, escaped: bool = False
    ) -> None:
        """Add an entry; ``name`` and ``shape`` are spans of their text between quotes and brackets."""
        self.name_at.append(name[0])
        self.name_end.append(name[1])
        self.escaped.append(escaped)
        self.shape_at.append(shape[0])
        self.shape_end.append(shape[1])
        self.begin.append(begin)
        self.end.append(end)
        if dtype not in self._dtype_ids:
            self._dtype_ids[dtype] = len(self.dtypes)
            self.dtypes.append(dtype)
        self.dtype.append(self._dtype_ids[dtype])

    def name(self, index: int) -> bytes:
        """The name of entry ``index`` in UTF-8, whose order is the order by code point."""
        raw = self.data[self.name_at[index] : self.name_end[index]]
        return json.loads(b'"%s"' % raw).encode("utf-8") if self.escaped[index] else raw

    def at(self, index: int) -> int:
        """The file offset of the opening quote of a name."""
        return PREFIX_BYTES + self.name_at[index] - 1

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of entry ``index``."""
        raw = self.data[self.shape_at[index] : self.shape_end[index]].strip()
        return tuple(map(int, raw.split(b","))) if raw else ()


def product(shape: tuple[int, ...]) -> int | None:
    """The product of a shape in declaration order; None if it passes 2**64 - 1 on the way."""
    elements = 1
    for dimension in shape:
        elements *= dimension
        if elements >= U64:
            return None
    return elements
