"""Whether bytes from elsewhere are a record that this store takes in. Pure.

Beyond :func:`auditd.evidence_store.records.verified`, which proves that the content is what its identifier says, the parts
of a record must agree with each other: whoever reads rows by their place, or sums by type, relies on it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from auditd.evidence.record import (
    Accounting,
    Artifact,
    Candidate,
    Cover,
    DeclaredTotals,
    Evidence,
    Gguf,
    GgufTensorRow,
    MetadataRow,
    Safetensors,
    SafetensorsTensorRow,
    TypeTotal,
)
from auditd.evidence.text import exact, quoted
from auditd.evidence_store.columns import columns
from auditd.evidence_store.records import RecordError, verified

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)


def admit(record: bytes) -> Evidence:
    """The record in ``record``; :class:`RecordError` with the first reason why it is not taken in."""
    evidence = verified(record)
    if not _TIME.fullmatch(evidence.recorded_at):
        raise RecordError(f"recorded_at: {quoted(evidence.recorded_at, 60)} is no RFC 3339 time in UTC")
    path = columns(evidence).path
    for problem in _problems(evidence, path):
        raise RecordError(problem)
    return evidence


def _problems(evidence: Evidence, path: bytes) -> Iterator[str]:
    yield from _artifact(evidence.artifact, path)
    if evidence.gguf is not None and evidence.safetensors is not None:
        yield "both gguf and safetensors: a file is one of them"
    if evidence.gguf is not None:
        yield from _gguf(evidence, evidence.gguf)
    if evidence.safetensors is not None:
        yield from _safetensors(evidence, evidence.safetensors)
    if evidence.accounting is not None:
        yield from _accounting(evidence.accounting)


def _artifact(artifact: Artifact, path: bytes) -> Iterator[str]:
    if artifact.path_base64 is not None and exact(path) != (artifact.path, artifact.path_base64):
        yield "artifact.path and artifact.path_base64 are two different paths"


# --- declarations ----------------------------------------------------------------------------------------


def _gguf(evidence: Evidence, gguf: Gguf) -> Iterator[str]:
    told = {finding.constraint for finding in evidence.findings}
    if gguf.metadata is None or gguf.tensors is None:
        yield "the rows of a complete record are missing"
        return
    yield from _rows("gguf.metadata", gguf.metadata, gguf.metadata_count, evidence.coverage.metadata)
    yield from _rows("gguf.tensors", gguf.tensors, gguf.tensor_count, evidence.coverage.tensors)
    # A refused file may have them twice, and then its record says so.
    if "duplicate_key" not in told:
        keys = ((row.key, row.key_base64) for row in gguf.metadata)
        yield from _unique("gguf.metadata", "key", keys)
    if "duplicate_name" not in told:
        names = ((row.name, row.name_base64) for row in gguf.tensors)
        yield from _unique("gguf.tensors", "name", names)
    yield from _totals(
        "gguf", gguf.totals, gguf.tensor_count if evidence.coverage.header.status == "complete" else None
    )


def _safetensors(evidence: Evidence, part: Safetensors) -> Iterator[str]:
    if part.tensors is not None:
        yield from _rows("safetensors.tensors", part.tensors, part.tensor_count, evidence.coverage.tensors)
        yield from _unique("safetensors.tensors", "name", (row.name for row in part.tensors))
        if any(one.name > other.name for one, other in zip(part.tensors, part.tensors[1:], strict=False)):
            yield "safetensors.tensors: not in name order"
    yield from _totals("safetensors", part.totals, part.tensor_count)


def _rows(
    place: str,
    rows: Sequence[MetadataRow | GgufTensorRow | SafetensorsTensorRow],
    count: int | None,
    cover: Cover,
) -> Iterator[str]:
    for position, row in enumerate(rows):
        if row.index != position:
            yield f"{place}[{position}].index is {row.index}"
            return
    if count is not None and (len(rows) > count or (cover.status == "complete" and len(rows) != count)):
        yield f"{place} has {len(rows)} rows, its count says {count}"


def _unique(place: str, what: str, values: Iterable[Hashable]) -> Iterator[str]:
    seen: set[Hashable] = set()
    for position, value in enumerate(values):
        if value in seen:
            yield f"{place}[{position}].{what} is there twice"
            return
        seen.add(value)


# --- sums ------------------------------------------------------------------------------------------------


def _totals(place: str, totals: DeclaredTotals | None, count: int | None) -> Iterator[str]:
    if totals is None:
        return
    yield from _types(f"{place}.totals.by_type", totals.by_type)
    parts = totals.by_type
    yield from _sum(f"{place}.totals.tensors", totals.tensors, [part.tensors for part in parts])
    yield from _sum(f"{place}.totals.bytes", totals.bytes, [part.bytes for part in parts])
    yield from _sum(f"{place}.totals.elements", _int(totals.elements), [_int(part.elements) for part in parts])
    if count is not None and totals.tensors != count:
        yield f"{place}.totals.tensors is {totals.tensors}, the file declares {count}"


def _types(place: str, by_type: Sequence[TypeTotal]) -> Iterator[str]:
    yield from _unique(place, "type", ((item.type, item.type_id) for item in by_type))
    ids = [item.type_id for item in by_type if item.type_id is not None]
    yield from _unique(place, "type_id", ids)


def _sum(place: str, total: int | None, parts: Sequence[int | None]) -> Iterator[str]:
    known = [part for part in parts if part is not None]
    if total is not None and len(known) == len(parts) and total != sum(known):
        yield f"{place} is {total}, its parts come to {sum(known)}"


def _int(text: str | None) -> int | None:
    """A decimal string; one that is none counts as unknown."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 40 else None  # noqa: PLR2004


def _accounting(accounting: Accounting) -> Iterator[str]:
    yield from _types("accounting.by_type", accounting.by_type)
    figures: list[tuple[str, Accounting | Candidate]] = [("accounting", accounting)]
    figures += [(f"accounting.candidates[{i}]", tried) for i, tried in enumerate(accounting.candidates)]
    for place, account in figures:
        surplus, missing, overlap = account.surplus, account.missing, account.overlap
        if account.residue is None or surplus is None or missing is None or overlap is None:
            continue
        if account.residue != surplus - missing - overlap:
            yield f"{place}.residue is {account.residue}, its parts come to {surplus - missing - overlap}"
    regions, count = accounting.regions, accounting.region_count
    if regions is None or count is None:
        return
    if len(regions) > count or (accounting.regions_complete and len(regions) != count):
        yield f"accounting.regions has {len(regions)} rows, region_count says {count}"
