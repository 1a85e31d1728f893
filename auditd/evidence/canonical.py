"""The bytes of a record: what is stored and printed, and what ``evidence_id`` is taken over.

``evidence_id`` is ``ev_`` and the SHA-256 of the RFC 8785 canonical form of the complete record without that
field: members sorted by UTF-16 code units, no white space, numbers as ECMAScript prints them. A summary
carries the identifier of the complete record that it was made from.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Final, TypeAlias

import msgspec

from auditd.evidence.record import Evidence, GgufTensorRow, Limitation, Region, SafetensorsTensorRow, TypeTotal
from auditd.evidence.text import harmless_json

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

#: ECMAScript writes a number plainly while its decimal point stands within these digits.
_PLAIN_DIGITS: Final = 21
_PLAIN_ZEROS: Final = 6

#: Pieces between two flushes of the canonical form.
_FLUSH_PARTS: Final = 1 << 16

#: Rows that come in thousands and hold neither a float nor a mapping: for these the encoder's sorted form is
#: the canonical one, character for character.
_PLAIN_ROWS: Final = frozenset({GgufTensorRow, SafetensorsTensorRow, Region, TypeTotal, Limitation})
_SORTED: Final = msgspec.json.Encoder(order="sorted")

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Evidence, strict=True)


def encode(evidence: Evidence) -> bytes:
    """One line of JSON without its newline; no character in it that a terminal would act upon."""
    return harmless_json(_ENCODER.encode(evidence))


def decode(encoded: bytes | str) -> Evidence:
    """The record in ``encoded``; raises ``msgspec.ValidationError`` with the path of what is wrong."""
    return _DECODER.decode(encoded)


def evidence_id(evidence: msgspec.Struct) -> str:
    """The identifier of a complete record, of a file or of a set."""
    digest = hashlib.sha256()
    _Canonical(digest.update).whole(evidence, without="evidence_id")
    return "ev_" + digest.hexdigest()


def seal(evidence: Evidence) -> Evidence:
    """The record with its identifier."""
    return msgspec.structs.replace(evidence, evidence_id=evidence_id(evidence))


def canonical_json(value: Json | msgspec.Struct) -> bytes:
    """The RFC 8785 form of ``value``; integers must be exact as doubles, text must have no lone surrogate."""
    parts: list[bytes] = []
    _Canonical(parts.append).whole(value)
    return b"".join(parts)


class _Canonical:
    """Writes the canonical form piece by piece, so that a record of a hundred thousand rows is hashed in place."""

    def __init__(self, emit: Callable[[bytes], object]) -> None:
        self._emit = emit
        self._parts: list[str] = []

    def whole(self, value: Json | msgspec.Struct, without: str | None = None) -> None:
        """Write ``value``, at its top without one member."""
        if isinstance(value, msgspec.Struct):
            self._members([name for name in _sorted_fields(type(value)) if name != without], value)
        else:
            self._write(value)
        self._flush()

    def _flush(self) -> None:
        self._emit("".join(self._parts).encode("utf-8"))
        self._parts.clear()

    def _write(self, value: Json | msgspec.Struct) -> None:
        if type(value) in _PLAIN_ROWS:
            self._parts.append(_SORTED.encode(value).decode("utf-8"))
        elif isinstance(value, str):
            self._parts.append(encode_basestring(value))
        elif value is None or isinstance(value, bool):
            self._parts.append("null" if value is None else "true" if value else "false")
        elif isinstance(value, int):
            self._parts.append(str(value))
        elif isinstance(value, float):
            self._parts.append(_number(value))
        elif isinstance(value, list):
            self._items(value)
        elif isinstance(value, dict):
            names = sorted(value) if all(map(str.isascii, value)) else sorted(value, key=_utf16)
            self._members(names, value)
        else:
            self._members(_sorted_fields(type(value)), value)

    def _items(self, items: list[Json]) -> None:
        mark = "["
        for item in items:
            self._parts.append(mark)
            self._write(item)
            mark = ","
            if len(self._parts) > _FLUSH_PARTS:
                self._flush()
        self._parts.append("]" if items else "[]")

    def _members(self, names: Sequence[str], owner: dict[str, Json] | msgspec.Struct) -> None:
        mark = "{"
        for name in names:
            self._parts.append(f"{mark}{encode_basestring(name)}:")
            self._write(owner[name] if isinstance(owner, dict) else getattr(owner, name))
            mark = ","
        self._parts.append("}" if names else "{}")


@functools.cache
def _sorted_fields(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(sorted(struct.__struct_fields__))


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _number(value: float) -> str:
    """A finite double as ECMAScript's Number::toString prints it; both languages use the shortest digits."""
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= _PLAIN_DIGITS:
        return sign + digits + "0" * (point - count)
    if 0 < point <= _PLAIN_DIGITS:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -_PLAIN_ZEROS < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"
