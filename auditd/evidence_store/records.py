"""The bytes of a record: how they are kept, and whether they are those of a record. Pure.

A record is kept as the bytes that it was written with, in two pieces. The rows of metadata and tensors are the same
each time one header is read, whatever the layout, the trigger or the digest, and are by far the most of it: they stand
apart under their SHA-256, once. The rest has a mark where they belong, so that putting them back is no more than
joining bytes.

:func:`admit` takes bytes for a record or raises :class:`RecordError`, which says what is wrong in one printable line.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from auditd.errors import AuditError
from auditd.evidence import canonical
from auditd.evidence.record import SCHEMA, Evidence
from auditd.evidence.text import harmless_json, printable

#: Level 1 gives a sixth of the JSON; higher levels take ten times as long for a tenth less.
_COMPRESSION: Final = 1

#: Rows of fewer bytes stay in their record: their entry in a table of their own would weigh as much.
_APART_FROM: Final = 512

#: No record is longer: rows are retained up to 32 MiB, and JSON takes six bytes for the worst of characters.
LONGEST_RECORD: Final = 256 * 1024 * 1024


class RecordError(AuditError):
    """Bytes that are not a record, or not the one that they say they are."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A record in its two pieces: ``rows`` (None if they stayed) belong at ``place`` of the unpacked ``rest``."""

    rest: bytes
    place: int
    rows: bytes | None


class _Rows(msgspec.Struct):
    """As much of a format's part as is needed to find its rows, which stand side by side."""

    metadata: msgspec.Raw = msgspec.Raw()
    tensors: msgspec.Raw = msgspec.Raw()


class _Parts(msgspec.Struct):
    gguf: _Rows | None = None
    safetensors: _Rows | None = None


_PARTS: Final = msgspec.json.Decoder(_Parts)


def encoded(evidence: Evidence) -> bytes:
    """A record as it is written first, and then kept for good."""
    return canonical.encode(evidence)


def digest(rows: bytes) -> bytes:
    """What rows are kept under."""
    return hashlib.sha256(rows).digest()


def divide(record: bytes) -> Kept:
    """A record in its pieces. Bytes that are no record stay in one."""
    rows = _rows_of(record)
    place = record.find(rows) if len(rows) >= _APART_FROM else -1
    if place < 0:
        return Kept(record, 0, None)
    return Kept(record[:place] + record[place + len(rows) :], place, rows)


def join(kept: Kept) -> bytes:
    """The record, byte for byte."""
    if kept.rows is None:
        return kept.rest
    return kept.rest[: kept.place] + kept.rows + kept.rest[kept.place :]


def _rows_of(record: bytes) -> bytes:
    try:
        parts = _PARTS.decode(record)
    except (msgspec.DecodeError, RecursionError):
        return b""
    rows = parts.gguf or parts.safetensors or _Rows()
    if not bytes(rows.tensors):
        return b""
    return b'"metadata":%b,"tensors":%b' % (rows.metadata, rows.tensors)


def pack(plain: bytes) -> bytes:
    """Bytes as they are kept."""
    return zlib.compress(plain, _COMPRESSION)


def unpack(packed: bytes) -> bytes:
    """What :func:`pack` was given. Raises :class:`RecordError`; bytes behind the end are damage, too."""
    inflate = zlib.decompressobj()
    try:
        plain = inflate.decompress(packed, LONGEST_RECORD)
    except (zlib.error, TypeError) as error:
        raise RecordError(f"cannot be unpacked: {printable(str(error), 200)}") from error
    if not inflate.eof or inflate.unused_data:
        raise RecordError("cannot be unpacked: not exactly one packed record")
    return plain


# --- reading ---------------------------------------------------------------------------------------------


def decode(record: bytes) -> Evidence:
    """The record in ``record``, strictly: no unknown field, no other type."""
    try:
        return canonical.decode(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"not a record of {SCHEMA}: {printable(str(error), 300)}") from error


def verified(record: bytes) -> Evidence:
    """The record in ``record`` if it is one and carries the identifier that its content has."""
    evidence = decode(record)
    if evidence.schema != SCHEMA:
        raise RecordError(f"the schema is {printable(evidence.schema, 100)}, not {SCHEMA}")
    if evidence.detail != "complete":
        raise RecordError("a summary, which carries the identifier of the complete record and cannot prove it")
    computed = _identifier(record, evidence)
    if evidence.evidence_id != computed:
        raise RecordError(
            f"the content has the identifier {computed}, the record says {printable(evidence.evidence_id, 100)}"
        )
    return evidence


def _identifier(record: bytes, evidence: Evidence) -> str:
    """The identifier of what stands in ``record``, which must be written in the one way that records are written in.

    A record of an earlier version lacks fields that its type has now: its own members count.
    """
    if canonical.encode(evidence) == record:
        return canonical.evidence_id(evidence)
    members: dict[str, Any] = msgspec.json.decode(record)
    if harmless_json(msgspec.json.encode(members)) != record:
        raise RecordError("not written as records are: white space, a repeated member, or another spelling of a value")
    members.pop("evidence_id", None)
    try:
        content = canonical.canonical_json(members)
    except UnicodeEncodeError as error:
        raise RecordError(f"text that is not Unicode: {printable(str(error), 200)}") from error
    return "ev_" + hashlib.sha256(content).hexdigest()
