"""What a set needs to know of a member, from the member's own record, in little memory.

The same values come from an inspection that has just ended and from a record that was kept: a set is judged without
opening its files again. A record in summary detail has no rows; what only they say is then None.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from auditd.evidence.exactness import is_exact
from auditd.evidence.record import Accounting, Evidence, Gguf, GgufTensorRow, MetadataRow, Safetensors, Verdict
from auditd.model_sets.packed_names import PackedNames

_INTEGER_TYPES: Final = frozenset({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"})
_NUMBER, _COUNT, _TENSORS = "split.no", "split.count", "split.tensors.count"
_ARCHITECTURE: Final = "general.architecture"


@dataclass(frozen=True, slots=True)
class Split:
    """The keys of a GGUF split: ``number`` counts from 0, ``tensors`` are those of the whole set; None where absent."""

    number: int | None = None
    count: int | None = None
    tensors: int | None = None

    @property
    def alone(self) -> bool:
        """Whether the header speaks of no other file: a stand-alone model, whatever its name."""
        return self.count is None or self.count <= 1


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """One member. Sizes in bytes; None is unknown.

    ``split`` is None where the metadata was not read to its end (or is not GGUF's), ``names`` where not every tensor's
    name was kept. ``data_end`` is the offset at which the last tensor ends, also past the end of the file.
    """

    verdict: Verdict
    evidence_id: str
    format: Literal["gguf", "safetensors"] | None = None
    size: int | None = None
    split: Split | None = None
    architecture: bool | None = None
    tensors: int | None = None
    tensor_bytes: int | None = None
    names: PackedNames | None = None
    data_end: int | None = None

    @classmethod
    def of(cls, evidence: Evidence) -> MemberFacts:
        """The facts that one record has."""
        plain = cls(evidence.verdict, evidence.evidence_id, evidence.artifact.format, evidence.artifact.size)
        if evidence.gguf is not None:
            return _of_gguf(plain, evidence, evidence.gguf)
        if evidence.safetensors is not None:
            return _of_safetensors(plain, evidence.safetensors)
        return plain

    @property
    def foreign(self) -> bool:
        """Whether something else than a model stands in the member's place."""
        return self.verdict == "foreign"


def _of_gguf(plain: MemberFacts, evidence: Evidence, gguf: Gguf) -> MemberFacts:
    rows = _all_rows(gguf)
    account = evidence.accounting
    return MemberFacts(
        verdict=plain.verdict,
        evidence_id=plain.evidence_id,
        format=plain.format,
        size=plain.size,
        split=None if rows is None else _split(rows),
        architecture=None if rows is None else any(row.key == _ARCHITECTURE for row in rows),
        tensors=gguf.tensor_count,
        tensor_bytes=None if account is None else account.tensor_bytes,
        names=_names(gguf.tensors, gguf.tensor_count),
        data_end=None if account is None else _data_end(account, plain.size),
    )


def _of_safetensors(plain: MemberFacts, part: Safetensors) -> MemberFacts:
    rows = part.tensors
    complete = rows is not None and len(rows) == part.tensor_count
    return MemberFacts(
        verdict=plain.verdict,
        evidence_id=plain.evidence_id,
        format=plain.format,
        size=plain.size,
        tensors=part.tensor_count,
        tensor_bytes=None if part.totals is None else part.totals.bytes,
        names=PackedNames.of(row.name.encode("utf-8") for row in rows) if complete and rows is not None else None,
    )


def split_of(gguf: Gguf) -> Split | None:
    """The keys of a split; None where not all of the metadata is known."""
    rows = _all_rows(gguf)
    return None if rows is None else _split(rows)


def _all_rows(gguf: Gguf) -> list[MetadataRow] | None:
    return gguf.metadata if gguf.metadata is not None and len(gguf.metadata) == gguf.metadata_count else None


def _split(rows: list[MetadataRow]) -> Split:
    return Split(_integer(rows, _NUMBER), _integer(rows, _COUNT), _integer(rows, _TENSORS))


def _integer(rows: list[MetadataRow], key: str) -> int | None:
    """The first value under ``key``, if it is an integer that can be a count, of any width (64 bits are a string)."""
    row = next((row for row in rows if row.key == key), None)
    if row is None or row.type not in _INTEGER_TYPES or row.value is None:
        return None
    value = int(row.value)
    return value if value >= 0 and is_exact(value) else None


def _names(rows: list[GgufTensorRow] | None, count: int | None) -> PackedNames | None:
    return PackedNames.of(_raw_names(rows)) if rows is not None and len(rows) == count else None


def _raw_names(rows: list[GgufTensorRow]) -> Iterator[bytes]:
    for row in rows:
        yield base64.b64decode(row.name_base64) if row.name_base64 is not None else row.name.encode("utf-8")


def _data_end(account: Accounting, size: int | None) -> int | None:
    """Where the last lost byte of a tensor ends; None if nothing is missing, or not all of it is listed."""
    if not account.missing or account.regions is None or not account.regions_complete or size is None:
        return None
    ends = [region.begin + region.length for region in account.regions if region.kind == "missing"]
    return max(ends, default=None)
