"""Changes that know the GGUF grammar: a field becomes another number, an entry stands twice, moves, or nests.

The fields come from a walk of this module's own, which knows as little as it can: it follows lengths and counts while
they can be followed, and stops where they cannot.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from tests.fuzz.changes import TEXTS, Change, Dice, number, put

Kind: TypeAlias = Literal["count", "length", "text", "type", "number", "entry", "tensor", "offset", "dims"]

#: Fields that a walk gives, at most.
_FIELDS: Final = 4000

_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING: Final = 8
_ARRAY: Final = 9


class Field(NamedTuple):
    """A field, or a whole entry: ``begin`` and ``size`` in bytes of the file."""

    kind: Kind
    begin: int
    size: int


class _Lost(Exception):
    """The walk cannot go on."""


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.order = order_of(data)
        self.at = 4
        self.fields: list[Field] = []

    def take(self, kind: Kind, size: int) -> int:
        """One integer field; its value."""
        if self.at + size > len(self.data) or len(self.fields) > _FIELDS:
            raise _Lost
        raw = self.data[self.at : self.at + size]
        self.fields.append(Field(kind, self.at, size))
        self.at += size
        return int.from_bytes(raw, "little" if self.order == "<" else "big")

    def text(self) -> None:
        length = self.take("length", 8)
        if self.at + length > len(self.data):
            raise _Lost
        self.fields.append(Field("text", self.at, length))
        self.at += length

    def value(self, type_id: int, depth: int = 0) -> None:
        if type_id == _STRING:
            self.text()
        elif type_id == _ARRAY and depth < 40:
            element = self.take("type", 4)
            for _ in range(self.take("count", 8)):
                self.value(element, depth + 1)
        elif type_id in _SIZES:
            self.take("number", _SIZES[type_id])
        else:
            raise _Lost

    def run(self) -> None:
        self.take("number", 4)
        tensors, entries = self.take("count", 8), self.take("count", 8)
        for _ in range(entries):
            begin = self.at
            self.text()
            self.value(self.take("type", 4))
            self.fields.append(Field("entry", begin, self.at - begin))
        for _ in range(tensors):
            begin = self.at
            self.text()
            for _ in range(self.take("dims", 4)):
                self.take("number", 8)
            self.take("type", 4)
            self.take("offset", 8)
            self.fields.append(Field("tensor", begin, self.at - begin))


def fields(data: bytes) -> list[Field]:
    """The fields of a GGUF header in the order of the file, up to the first that cannot be followed."""
    walk = _Walk(data)
    with contextlib.suppress(_Lost):
        walk.run()
    return walk.fields


def order_of(data: bytes | bytearray) -> str:
    """``>`` for a version that reads as one in big-endian only, else ``<``."""
    return ">" if data[4:7] == b"\0\0\0" and data[7:8] != b"\0" else "<"


def _of(data: bytearray, dice: Dice, *kinds: Kind) -> Field | None:
    found = [field for field in fields(bytes(data)) if field.kind in kinds]
    return dice.choice(found) if found else None


def _renumber(data: bytearray, dice: Dice) -> None:
    field = _of(data, dice, "count", "length", "number", "type", "offset", "dims")
    if field is not None:
        raw = int.from_bytes(data[field.begin : field.begin + field.size], "little" if order_of(data) == "<" else "big")
        put(data, field.begin, field.size, number(dice, raw), order_of(data))


def _retype(data: bytearray, dice: Dice) -> None:
    field = _of(data, dice, "type")
    if field is not None:
        put(data, field.begin, 4, dice.choice((*range(44), 96, 144, 2**31, 2**32 - 1)), order_of(data))


def _place_elsewhere(data: bytearray, dice: Dice) -> None:
    field = _of(data, dice, "offset")
    if field is not None:
        put(data, field.begin, 8, dice.choice((0, 8, 32, 64, 96, 128, 4096, number(dice))), order_of(data))


def _retext(data: bytearray, dice: Dice) -> None:
    """Another text, with its length put right."""
    field = _of(data, dice, "text")
    if field is not None:
        text = dice.choice((*TEXTS, bytes(data[field.begin : field.begin + field.size]) + dice.choice(TEXTS)))
        data[field.begin : field.begin + field.size] = text
        put(data, field.begin - 8, 8, len(text), order_of(data))


def _same_text(data: bytearray, dice: Dice) -> None:
    """A name or key that another one has already."""
    one, other = _of(data, dice, "text"), _of(data, dice, "text")
    if one is not None and other is not None:
        text = bytes(data[other.begin : other.begin + other.size])
        data[one.begin : one.begin + one.size] = text
        put(data, one.begin - 8, 8, len(text), order_of(data))


def _twice(data: bytearray, dice: Dice) -> None:
    """An entry or a tensor once more, and mostly counted."""
    field = _of(data, dice, "entry", "tensor")
    if field is None:
        return
    times = dice.choice((1, 1, 1, 5, 70))
    data[field.begin : field.begin] = bytes(data[field.begin : field.begin + field.size]) * times
    _count(data, dice, field.kind, times)


def _without(data: bytearray, dice: Dice) -> None:
    field = _of(data, dice, "entry", "tensor")
    if field is not None:
        del data[field.begin : field.begin + field.size]
        _count(data, dice, field.kind, -1)


def _count(data: bytearray, dice: Dice, kind: Kind, more: int) -> None:
    if len(data) >= 24 and dice.random() < 0.9:
        at, order = (8 if kind == "tensor" else 16), order_of(data)
        (count,) = struct.unpack_from(order + "Q", data, at)
        put(data, at, 8, count + more, order)


def _new_entry(data: bytearray, dice: Dice) -> None:
    """One more entry in front of all others, of any type, or an array that nests."""
    if len(data) < 24:
        return
    order = order_of(data)
    key = dice.choice((*TEXTS, b"general.alignment", b"general.architecture", b"tokenizer.chat_template.x"))
    type_id = dice.randrange(14)
    entry = struct.pack(order + "Q", len(key)) + key + struct.pack(order + "I", type_id)
    data[24:24] = entry + b"".join(_value(type_id, dice, order))
    _count(data, dice, "entry", 1)


def _value(type_id: int, dice: Dice, order: str) -> Iterator[bytes]:
    if type_id == _STRING:
        text = dice.choice(TEXTS)
        yield struct.pack(order + "Q", len(text)) + text
    elif type_id == _ARRAY:
        for _ in range(dice.choice((0, 0, 1, 30, 31, 32, 33))):
            yield struct.pack(order + "IQ", _ARRAY, 1)
        inner = dice.choice((0, 4, 7, _STRING, 12))
        count = dice.choice((0, 1, 8, 9, 20, 140))
        yield struct.pack(order + "IQ", inner, count)
        for _ in range(count):
            yield from _value(inner, dice, order)
    else:
        yield dice.randbytes(_SIZES.get(type_id, 4))


def _version(data: bytearray, dice: Dice) -> None:
    data[4:8] = dice.choice((b"\1\0\0\0", b"\2\0\0\0", b"\3\0\0\0", b"\0\0\0\3", b"\0\0\0\2", b"\4\0\0\0"))


CHANGES: Final[tuple[Change, ...]] = (
    _renumber, _renumber, _renumber, _retype, _place_elsewhere, _retext, _same_text, _twice, _without, _new_entry,
    _version,
)  # fmt: skip
