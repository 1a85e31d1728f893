"""Metadata values as bytes: what each takes, and the elements of one array, read from its bytes in pieces of any size.

The header's reader keeps eight elements of an array. Whoever wants all of them reads the array's own span of the file
again, through :class:`ElementWalk`, which keeps none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from auditd.formats.declarations import ArrayValue, ByteOrder, MetadataValue
from auditd.formats.gguf.wire import ARRAY, LEAST_ARRAY, LEAST_STRING, STRING, VALUE_TYPES

#: ``struct`` codes of the value types that have a fixed size, in the order of their ids; a bool is the byte it is.
CODES: Final[Mapping[int, str]] = MappingProxyType(
    {type_id: code for type_id, code in enumerate("BbHhIifB..Qqd") if code != "."}
)

#: Bytes of one value of these types.
FIXED_BYTES: Final[Mapping[int, int]] = MappingProxyType(
    {type_id: struct.calcsize("<" + code) for type_id, code in CODES.items()}
)

#: Length in front of a string; element type and count in front of an array's elements.
_LENGTH_BYTES: Final = LEAST_STRING
_HEAD_BYTES: Final = LEAST_ARRAY


class Extent(NamedTuple):
    """How many bytes a value takes: ``least`` of them, and no more if ``known``."""

    least: int
    known: bool


def extent_of(type_id: int, value: MetadataValue) -> Extent:
    """The bytes of a value, as far as its declaration tells; an array of texts is known only if all of them are."""
    if isinstance(value, ArrayValue):
        return _array_extent(value)
    if isinstance(value, bytes):
        return Extent(_LENGTH_BYTES + len(value), known=True)
    return Extent(FIXED_BYTES[type_id], known=True)


def _array_extent(value: ArrayValue) -> Extent:
    """Bounded: arrays stand in each other at most 32 deep, and each keeps at most eight elements."""
    shown = [extent_of(value.element_type, element) for element in value.preview]
    rest = value.count - len(shown)
    least = _HEAD_BYTES + sum(extent.least for extent in shown) + rest * least_bytes(value.element_type)
    fixed = value.element_type in FIXED_BYTES
    return Extent(least, fixed or (not rest and all(extent.known for extent in shown)))


def least_bytes(type_id: int) -> int:
    """The fewest bytes that one value of the type takes."""
    return LEAST_STRING if type_id == STRING else LEAST_ARRAY if type_id == ARRAY else FIXED_BYTES[type_id]


def is_whole(value: MetadataValue) -> bool:
    """Whether nothing of the value is left out, arrays inside it included."""
    if not isinstance(value, ArrayValue):
        return True
    return value.preview_complete and all(map(is_whole, value.preview))


class Element(NamedTuple):
    """One element: ``path`` is its index in each of the arrays that it stands in, the outermost first."""

    path: tuple[int, ...]
    type_id: int
    value: int | float | bytes


def kept_elements(array: ArrayValue, path: tuple[int, ...] = ()) -> Iterator[Element]:
    """The plain elements that a header keeps of an array and of the arrays inside it."""
    for index, value in enumerate(array.preview):
        if isinstance(value, ArrayValue):
            yield from kept_elements(value, (*path, index))
        else:
            yield Element((*path, index), array.element_type, value)


class BrokenElements(Exception):
    """The bytes are not the array that they were; its text says why."""


class _Open:
    """An array whose elements are being walked."""

    __slots__ = ("count", "done", "element_type")

    def __init__(self, element_type: int, count: int) -> None:
        self.element_type = element_type
        self.count = count
        self.done = 0


class ElementWalk:
    """The elements of one array value, front to back, whatever pieces its bytes come in.

    ``feed`` takes bytes from the value's first one on and gives the elements that are whole by then; arrays inside the
    array are walked through, and their plain elements given. Raises :class:`BrokenElements` where the bytes cannot be
    an array. ``finished`` says that all of it was there.
    """

    def __init__(self, byte_order: ByteOrder) -> None:
        mark = "<" if byte_order == "little" else ">"
        self._length = struct.Struct(mark + "Q")
        self._head = struct.Struct(mark + "IQ")
        self._fixed = {type_id: struct.Struct(mark + code) for type_id, code in CODES.items()}
        self._pieces: list[bytes] = []
        self._have = 0
        #: Bytes without which nothing more is whole: a text of many pieces is joined once, not once for each.
        self._wanted = 0
        self._stack: list[_Open] = []
        self._begun = False

    @property
    def finished(self) -> bool:
        """Whether the array has come to its end."""
        return self._begun and not self._stack and not self._have

    def feed(self, piece: bytes) -> Iterator[Element]:
        """The elements that ``piece`` completes."""
        self._pieces.append(piece)
        self._have += len(piece)
        if self._have < self._wanted:
            return
        data, pos, self._wanted = b"".join(self._pieces), 0, 0
        if not self._begun:
            pos = self._open(data, pos)
        while self._begun and self._stack:
            pos, element, more = self._step(data, pos)
            if element is not None:
                yield element
            if not more:
                break
        self._pieces = [data[pos:]]
        self._have = len(data) - pos
        if self._begun and not self._stack and self._have:
            raise BrokenElements("the array ends before its bytes do")

    def _open(self, data: bytes, pos: int) -> int:
        if len(data) - pos < self._head.size:
            return pos
        element_type, count = self._head.unpack_from(data, pos)
        if element_type >= len(VALUE_TYPES):
            raise BrokenElements(f"an element type of {element_type}")
        self._begun = True
        self._stack.append(_Open(element_type, count))
        self._close()
        return pos + self._head.size

    def _close(self) -> None:
        """Leave every array that has no element left."""
        while self._stack and self._stack[-1].done == self._stack[-1].count:
            self._stack.pop()
            if self._stack:
                self._stack[-1].done += 1

    def _step(self, data: bytes, pos: int) -> tuple[int, Element | None, bool]:
        """One element, or the head of an inner array: the new position, the element, whether it was all there."""
        top = self._stack[-1]
        if top.element_type == ARRAY:
            after = self._open(data, pos)
            return after, None, after != pos
        taken = self._take(top.element_type, data, pos)
        if taken is None:
            return pos, None, False
        element = Element(tuple(level.done for level in self._stack), top.element_type, taken[1])
        top.done += 1
        self._close()
        return taken[0], element, True

    def _take(self, type_id: int, data: bytes, pos: int) -> tuple[int, int | float | bytes] | None:
        if type_id != STRING:
            fixed = self._fixed[type_id]
            after = pos + fixed.size
            return None if after > len(data) else (after, fixed.unpack_from(data, pos)[0])
        body = pos + _LENGTH_BYTES
        if body > len(data):
            return None
        after = body + self._length.unpack_from(data, pos)[0]
        if after > len(data):
            self._wanted = after - pos
            return None
        return after, data[body:after]
