"""A safetensors header as a dump, and back: elements, totals and the judgement of each range are derived again."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Literal

from auditd.evidence.observation import Observation
from auditd.formats.bounds import HEADER_BYTES, U64
from auditd.formats.declarations import RangeColumns, SafetensorsHeader, SafetensorsTensor, TypeTally
from auditd.formats.dtypes import DTYPE_BITS
from auditd.formats.safetensors.entries import PREFIX_BYTES
from auditd.header_dump.forms import (
    SCHEMA,
    Contradiction,
    SafetensorsForm,
    SafetensorsTensorForm,
    TextForm,
    agree,
    maybe_whole,
    maybe_whole_form,
    whole,
    whole_form,
    wholes,
)
from auditd.header_dump.parts import expectation_form, fault_forms, faults_of, file_form, notice_forms, notices_of

_BYTE_BITS = 8


# -- to a dump --------------------------------------------------------------------------------------


def safetensors_form(observation: Observation, header: SafetensorsHeader) -> SafetensorsForm:
    """The dump of ``header``, whose rows were all kept."""
    metadata = header.metadata
    return SafetensorsForm(
        schema=SCHEMA,
        file=file_form(observation),
        header_length=maybe_whole_form(header.header_length),
        tensor_count=maybe_whole_form(header.tensor_count),
        header_sha256=observation.header_sha256,
        expectation=expectation_form(observation.expectation),
        faults=fault_forms(header.faults, header.stopped),
        notices=notice_forms(header.notices),
        metadata=None if metadata is None else [TextForm(key, value) for key, value in metadata.items()],
        tensors=[_tensor_form(tensor) for tensor in header.tensors],
    )


def _tensor_form(tensor: SafetensorsTensor) -> SafetensorsTensorForm:
    return SafetensorsTensorForm(
        name=tensor.name,
        dtype=tensor.dtype,
        shape=[whole_form(dimension) for dimension in tensor.shape],
        range=(whole_form(tensor.begin), whole_form(tensor.end)),
        at=whole_form(tensor.at),
    )


# -- from a dump ------------------------------------------------------------------------------------


def safetensors_header(form: SafetensorsForm) -> SafetensorsHeader:
    """The header; raises :class:`Contradiction`."""
    length = maybe_whole(form.header_length, "header_length")
    if length is not None and not PREFIX_BYTES <= length <= PREFIX_BYTES + HEADER_BYTES:
        raise Contradiction("header_length", "no header of this length is read")
    faults, stopped = faults_of(form.faults)
    complete = stopped is None
    present = length is not None and length <= form.file.size
    tensors = tuple(_tensors(form, length or 0))
    _check_progress(form, len(tensors), complete=complete, present=present)
    return SafetensorsHeader(
        file_size=form.file.size,
        header_length=length,
        data_offset=length if present else None,
        bytes_present=present,
        metadata=_metadata(form.metadata),
        metadata_kept=True,
        tensors=tensors,
        tensor_count=len(tensors) if complete else None,
        rows_complete=complete,
        totals=_totals(tensors),
        columns=_columns(tensors) if complete else None,
        complete=complete,
        stopped=stopped,
        faults=faults,
        notices=notices_of(form.notices),
    )


def _check_progress(form: SafetensorsForm, tensors: int, *, complete: bool, present: bool) -> None:
    """Nothing of a header counts before all of it is validated."""
    agree("tensor_count", maybe_whole(form.tensor_count, "tensor_count"), tensors if complete else None)
    if complete and not present:
        raise Contradiction("header_length", "a header that was validated is in the file")
    if not complete and (tensors or form.metadata is not None):
        raise Contradiction("tensors", "a header that was not validated declares nothing")
    if form.header_sha256 is not None and not present:
        raise Contradiction("header_sha256", "a header that is not in the file has no digest")


def _metadata(forms: Sequence[TextForm] | None) -> dict[str, str] | None:
    if forms is None:
        return None
    metadata = {form.key: form.value for form in forms}
    if len(metadata) != len(forms):
        raise Contradiction("metadata", "a key that is there twice")
    return metadata


def _tensors(form: SafetensorsForm, header_length: int) -> Iterable[SafetensorsTensor]:
    last = b""
    for index, row in enumerate(form.tensors):
        path = f"tensors[{index}]"
        name = row.name.encode("utf-8")
        if index and name <= last:
            raise Contradiction(f"{path}.name", "names come once each, in the order of their code points")
        last = name
        yield _tensor(row, path, header_length)


def _tensor(form: SafetensorsTensorForm, path: str, header_length: int) -> SafetensorsTensor:
    shape = wholes(form.shape, f"{path}.shape")
    begin, end = wholes(form.range, f"{path}.range")
    at = whole(form.at, f"{path}.at")
    if not PREFIX_BYTES < at < header_length:
        raise Contradiction(f"{path}.at", "a name stands inside the header")
    elements = _product(shape)
    return SafetensorsTensor(
        form.name, form.dtype, shape, begin, end, elements, _validation(form.dtype, elements, begin, end), at
    )


def _product(shape: Sequence[int]) -> int | None:
    """In declaration order; None if it passes 2**64 - 1 on the way."""
    elements = 1
    for dimension in shape:
        elements *= dimension
        if elements >= U64:
            return None
    return elements


def _validation(
    dtype: str, elements: int | None, begin: int, end: int
) -> Literal["consistent", "unknown", "contradicted"]:
    """Shape and dtype against the range."""
    if begin > end or elements is None:
        return "contradicted"
    bits = DTYPE_BITS.get(dtype)
    if bits is None:
        return "unknown"
    return "consistent" if elements * bits == (end - begin) * _BYTE_BITS else "contradicted"


def _totals(tensors: Sequence[SafetensorsTensor]) -> tuple[TypeTally, ...]:
    """By dtype, in the order in which the file comes to them."""
    totals: dict[str, TypeTally] = {}
    for tensor in sorted(tensors, key=lambda one: one.at):
        before = totals.get(tensor.dtype, TypeTally(tensor.dtype, 0, 0, 0))
        known = None if before.elements is None or tensor.elements is None else before.elements + tensor.elements
        size = before.size + max(0, tensor.end - tensor.begin)
        totals[tensor.dtype] = TypeTally(tensor.dtype, before.tensors + 1, known, size)
    return tuple(totals.values())


def _columns(tensors: Sequence[SafetensorsTensor]) -> RangeColumns:
    return RangeColumns(
        array("Q", (tensor.begin for tensor in tensors)), array("Q", (tensor.end for tensor in tensors))
    )
