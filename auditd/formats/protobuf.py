"""ONNX and Core ML told from the first fields of a protobuf message: there is no mark, only their order. Pure.

A message is fields one after the other, each a key (field number and wire type) and a value. Both formats open
with a small version as field 1; what follows tells them apart. Raises nothing for any bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_VARINT_BYTES: Final = 10
_VARINT: Final = 0
_DELIMITED: Final = 2
#: Larger than any version that either format has reached.
_VERSIONS: Final = 64

#: Fields of an ONNX model that its writers put behind the version: producer, producer's version, domain, model
#: version, documentation, graph, operator sets.
_PRODUCER: Final = 2
_ONNX_NEXT: Final = frozenset({3, 4, 5, 6, 7, 8})
_SHOWN_BYTES: Final = 80


class Field(NamedTuple):
    """A field at the begin of a message: its number, its integer or the part of its bytes that is in sight."""

    number: int
    value: int
    payload: bytes | None
    end: int


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """``(value, position behind it)``; None if it is cut or longer than ten bytes."""
    value = 0
    for index, byte in enumerate(data[at : at + _VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 - the bit that says "more follows"
            return value, at + index + 1
    return None


def field_at(data: bytes, at: int = 0) -> Field | None:
    """The integer or delimited field at ``at``; None for any other and for what is no field."""
    key = _varint(data, at)
    value = key and _varint(data, key[1])
    if key is None or value is None:
        return None
    number, wire_type = key[0] >> 3, key[0] & 7
    if wire_type == _VARINT and number:
        return Field(number, value[0], None, value[1])
    if wire_type == _DELIMITED and number:
        return Field(number, value[0], data[value[1] : value[1] + value[0]], value[1] + value[0])
    return None


def model_word(head: bytes) -> str | None:
    """``onnx``, ``coreml`` or None, from the first bytes of a file."""
    version = field_at(head)
    if version is None or version.number != 1 or version.payload is not None or not 0 < version.value < _VERSIONS:
        return None
    behind = field_at(head, version.end)
    if behind is None:
        return None
    if behind.number == _PRODUCER and behind.payload is not None:
        return _word_of_second(behind.payload)
    return "onnx" if behind.number in _ONNX_NEXT else None


def _word_of_second(payload: bytes) -> str | None:
    """Field 2 is the producer's name in ONNX, and in Core ML a description that opens with an input and its name."""
    if payload.isascii() and payload.decode("ascii").isprintable():
        return "onnx"
    described = field_at(payload)
    if described is None or described.number != 1 or not described.payload:
        return None
    name = field_at(described.payload)
    return "coreml" if name is not None and name.number == 1 and name.payload else None


def producer_of(head: bytes) -> bytes:
    """The producer that an ONNX model names, cut; empty where it names none."""
    version = field_at(head)
    behind = None if version is None else field_at(head, version.end)
    if behind is None or behind.number != _PRODUCER or behind.payload is None:
        return b""
    return behind.payload[:_SHOWN_BYTES]


def version_of(head: bytes) -> int | None:
    """What a message of either format gives as its version."""
    version = field_at(head)
    return None if version is None else version.value
