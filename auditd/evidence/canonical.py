"""The bytes of a record: what is stored and printed, and what ``evidence_id`` is taken over.

``evidence_id`` is ``ev_`` and the SHA-256 of the RFC 8785 canonical form of the complete record without that
field: members sorted by UTF-16 code units, no white space, numbers as ECMAScript prints them. A summary
carries the identifier of the complete record that it was made from.
"""

from __future__ import annotations

import hashlib
from json.encoder import encode_basestring
from typing import Final, TypeAlias

import msgspec

from auditd.evidence.record import Evidence
from auditd.evidence.text import harmless_json

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

#: ECMAScript writes a number plainly while its decimal point stands within these digits.
_PLAIN_DIGITS: Final = 21
_PLAIN_ZEROS: Final = 6

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Evidence, strict=True)


def encode(evidence: Evidence) -> bytes:
    """One line of JSON without its newline; no character in it that a terminal would act upon."""
    return harmless_json(_ENCODER.encode(evidence))


def decode(encoded: bytes | str) -> Evidence:
    """The record in ``encoded``; raises ``msgspec.ValidationError`` with the path of what is wrong."""
    return _DECODER.decode(encoded)


def evidence_id(evidence: Evidence) -> str:
    """The identifier of a complete record."""
    members = msgspec.to_builtins(evidence)
    del members["evidence_id"]
    return "ev_" + hashlib.sha256(canonical_json(members)).hexdigest()


def seal(evidence: Evidence) -> Evidence:
    """The record with its identifier."""
    return msgspec.structs.replace(evidence, evidence_id=evidence_id(evidence))


def canonical_json(value: Json) -> bytes:
    """The RFC 8785 form of ``value``; integers must be exact as doubles, text must have no lone surrogate."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts).encode("utf-8")


def _write(value: Json, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(encode_basestring(value))
    elif value is None or isinstance(value, bool):
        parts.append("null" if value is None else "true" if value else "false")
    elif isinstance(value, int):
        parts.append(str(value))
    elif isinstance(value, float):
        parts.append(_number(value))
    elif isinstance(value, list):
        _write_list(value, parts)
    else:
        _write_object(value, parts)


def _write_list(items: list[Json], parts: list[str]) -> None:
    mark = "["
    for item in items:
        parts.append(mark)
        _write(item, parts)
        mark = ","
    parts.append("]" if items else "[]")


def _write_object(members: dict[str, Json], parts: list[str]) -> None:
    names = sorted(members) if all(map(str.isascii, members)) else sorted(members, key=_utf16)
    mark = "{"
    for name in names:
        parts.append(f"{mark}{encode_basestring(name)}:")
        _write(members[name], parts)
        mark = ","
    parts.append("}" if members else "{}")


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
