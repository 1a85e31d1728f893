"""Records in files: one record as one line, or a bundle. Pure over binary streams.

A bundle is JSON Lines. Its first line is the manifest: how many records follow, the SHA-256 of all bytes behind this
line, and the SHA-256 of each record without its line feed. The records stand in the order of their store's chain.
Nothing in it tells when it was made, so that the same records are the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal

import msgspec

from auditd.evidence.record import Evidence
from auditd.evidence.text import printable
from auditd.evidence_store.admission import admit
from auditd.evidence_store.records import LONGEST_RECORD, RecordError

SCHEMA: Final = "model-auditd/evidence-bundle/1"

#: 67 bytes for each record, so a manifest may be long: this is a million of them and more.
_LONGEST_LINE: Final = LONGEST_RECORD
_MARK: Final = b'{"schema":"%b"' % SCHEMA.encode("ascii")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of a bundle."""

    schema: Literal["model-auditd/evidence-bundle/1"]
    records: int
    sha256: str
    records_sha256: list[str]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, counted from 1: a record that is taken in, or a problem."""

    number: int
    record: bytes
    evidence: Evidence | None = None
    problem: str | None = None


def manifest(records: Iterable[bytes]) -> bytes:
    """The first line for these records."""
    every = hashlib.sha256()
    each = []
    for record in records:
        each.append(hashlib.sha256(record).hexdigest())
        every.update(record + b"\n")
    line = Manifest(schema=SCHEMA, records=len(each), sha256=every.hexdigest(), records_sha256=each)
    return msgspec.json.encode(line) + b"\n"


def lines(file: BinaryIO, *, bundle: bool | None = None) -> Iterator[Line]:
    """The lines of a file that should be a ``bundle``, or one record; what does not hold has a problem.

    With None it is taken for what it says that it is.
    """
    first = file.readline(_LONGEST_LINE)
    bundle = first.startswith(_MARK) if bundle is None else bundle
    if bundle != first.startswith(_MARK):
        yield Line(1, first, problem=_other_kind(first, bundle=bundle))
    elif bundle:
        yield from _bundle(file, first)
    else:
        yield _judged(1, first)
        if file.read(1):
            yield Line(2, b"", problem="more than one line: several records come as a bundle, with a manifest")


def looks_like_record(beginning: bytes) -> bool:
    """Whether a file with these first bytes means to be a record."""
    return beginning.startswith(b'{"schema":"model-auditd/evidence/')


def _other_kind(first: bytes, *, bundle: bool) -> str:
    if not first:
        return "the file is empty"
    if bundle:
        return "no bundle: the first line is not a manifest"
    return "a bundle, and one record is wanted"


def _judged(number: int, line: bytes, digest: str | None = None) -> Line:
    """A line with a record; ``digest`` is what a manifest says of it."""
    record = line.removesuffix(b"\n")
    if len(line) >= _LONGEST_LINE:
        return Line(number, record, problem="longer than any record")
    if digest is not None and hashlib.sha256(record).hexdigest() != digest:
        return Line(number, record, problem="not the record that the manifest has in this place")
    try:
        return Line(number, record, admit(record))
    except RecordError as error:
        return Line(number, record, problem=str(error))


def _bundle(file: BinaryIO, first: bytes) -> Iterator[Line]:
    try:
        told = _manifest(first)
    except RecordError as error:
        yield Line(1, first, problem=str(error))
        return
    every = hashlib.sha256()
    number = 1
    for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
        number += 1
        every.update(line)
        if number - 1 > len(told.records_sha256):
            yield Line(number, line, problem="more lines than the manifest has records")
            return
        yield _judged(number, line, told.records_sha256[number - 2])
    if number - 1 < told.records:
        yield Line(number, b"", problem=f"the bundle ends after {number - 1} of {told.records} records")
    elif every.hexdigest() != told.sha256:
        yield Line(1, first, problem="the bytes behind the manifest are not those that it has the SHA-256 of")


def _manifest(first: bytes) -> Manifest:
    try:
        told = msgspec.json.decode(first, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"the manifest: {printable(str(error), 300)}") from error
    if msgspec.json.encode(told) + b"\n" != first:
        raise RecordError("the manifest is not written as manifests are")
    if told.records != len(told.records_sha256):
        raise RecordError(f"the manifest has {len(told.records_sha256)} digests for {told.records} records")
    return told
