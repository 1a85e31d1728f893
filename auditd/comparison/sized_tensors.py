"""Tensor rows of either format as one kind of value, sized under the layout that the record selected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from auditd.accounting.sizes import sizings
from auditd.evidence.record import Evidence, GgufTensorRow, SafetensorsTensorRow
from auditd.formats import layouts
from auditd.formats.layouts import Sizing

#: Digits of the largest integer of 64 bits.
_DIGITS: Final = 20


class Tensor(NamedTuple):
    """One tensor; ``offset`` counts from the data start, ``begin`` from the file's; in bytes, None if unknown.

    ``kind`` tells types apart: the type id, or the dtype. ``type`` is what the selected layout calls it.
    """

    name: str
    name_base64: str | None
    kind: int | str
    type: str
    shape: list[str]
    offset: int | None
    begin: int | None
    byte_length: int | None
    sha256: str | None


class Sized(NamedTuple):
    """A record, with every tensor that it has a row of, in the order of the rows."""

    evidence: Evidence
    tensors: list[Tensor]


def sized(evidence: Evidence) -> Sized:
    """The record with its tensors."""
    return Sized(evidence, list(_tensors(evidence)))


def _tensors(evidence: Evidence) -> Iterator[Tensor]:
    told = None if evidence.digests is None else evidence.digests.tensors
    digests = {digest.index: digest.sha256 for digest in told or ()}
    if evidence.gguf is not None:
        sizes = _sizings(evidence)
        for row in evidence.gguf.tensors or ():
            yield _gguf(row, sizes.get(row.type_id), digests.get(row.index))
    elif evidence.safetensors is not None:
        for entry in evidence.safetensors.tensors or ():
            yield _safetensors(entry, digests.get(entry.index))


def _sizings(evidence: Evidence) -> Mapping[int, Sizing]:
    """The sizes that the record's figures are made of."""
    accounting = evidence.accounting
    if accounting is None or accounting.layout is None:
        return layouts.ESTABLISHED
    return sizings(accounting.layout.name, applicable=accounting.tensor_bytes is not None)


def _gguf(row: GgufTensorRow, sizing: Sizing | None, sha256: str | None) -> Tensor:
    return Tensor(
        name=row.name,
        name_base64=row.name_base64,
        kind=row.type_id,
        type=row.type if sizing is None else sizing.name,
        shape=row.shape,
        offset=row.offset,
        begin=row.file_offset,
        byte_length=row.byte_length if row.byte_length is not None else _length(row, sizing),
        sha256=sha256,
    )


def _length(row: GgufTensorRow, sizing: Sizing | None) -> int | None:
    """Bytes of a tensor whose size is not established, under the layout."""
    elements = _integer(row.elements)
    first = _integer(row.shape[0]) if row.shape else 1
    if elements is None or not first or sizing is None:
        return None
    return sizing.byte_length(elements, first)


def _integer(digits: str | None) -> int | None:
    """The integer; None for what is none, which a record from elsewhere may hold."""
    if digits is None or len(digits) > _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def _safetensors(row: SafetensorsTensorRow, sha256: str | None) -> Tensor:
    return Tensor(
        name=row.name,
        name_base64=None,
        kind=row.dtype,
        type=row.dtype,
        shape=row.shape,
        offset=row.data_offsets[0] if row.data_offsets else None,
        begin=row.file_offset,
        byte_length=row.byte_length,
        sha256=sha256,
    )
