"""A GGUF header as a dump, and back: positions, columns, alignment and digests are derived again and compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from auditd.evidence.observation import Observation
from auditd.evidence.text import exact
from auditd.formats import layouts
from auditd.formats.bounds import HEADER_BYTES, U64
from auditd.formats.declarations import GgufHeader, GgufTensor, MetadataEntry, TensorColumns
from auditd.formats.gguf.wire import (
    DEFAULT_ALIGNMENT,
    HEAD_BYTES,
    LEAST_ENTRY,
    LEAST_TENSOR,
    STRING,
    U32,
    VERSIONS,
)
from auditd.header_dump.forms import (
    SCHEMA,
    Contradiction,
    GgufForm,
    GgufTensorForm,
    TemplateForm,
    agree,
    maybe_whole,
    maybe_whole_form,
    whole,
    whole_form,
    wholes,
)
from auditd.header_dump.parts import expectation_form, fault_forms, faults_of, file_form, notice_forms, notices_of
from auditd.header_dump.values import Placed, metadata_entry, metadata_form, text_bytes

_ALIGNMENT_KEY = b"general.alignment"
_ARCHITECTURE_KEY = b"general.architecture"
_TEMPLATE_KEY = b"tokenizer.chat_template"

#: A tensor's entry beside its name and its dimensions: a length, how many dimensions, type, offset.
_TENSOR_BYTES = 8 + 4 + 4 + 8


# -- to a dump --------------------------------------------------------------------------------------


def gguf_form(observation: Observation, header: GgufHeader) -> GgufForm:
    """The dump of ``header``, whose rows were all kept."""
    return GgufForm(
        schema=SCHEMA,
        file=file_form(observation),
        version=header.version,  # type: ignore[arg-type]  # the reader takes no other
        byte_order=header.byte_order,
        metadata_count=maybe_whole_form(header.metadata_count),
        tensor_count=maybe_whole_form(header.tensor_count),
        alignment=header.alignment,
        alignment_declared=header.alignment_declared,
        metadata_end=maybe_whole_form(header.metadata_end),
        directory_end=maybe_whole_form(header.directory_end),
        data_offset=maybe_whole_form(header.data_offset),
        header_sha256=observation.header_sha256,
        expectation=expectation_form(observation.expectation),
        chat_templates=[TemplateForm(name, digest) for name, digest in header.templates],
        faults=fault_forms(header.faults, header.stopped),
        notices=notice_forms(header.notices),
        metadata=[metadata_form(entry, observation.array_sha256.get(entry.index)) for entry in header.metadata],
        tensors=[_tensor_form(tensor) for tensor in header.tensors],
    )


def _tensor_form(tensor: GgufTensor) -> GgufTensorForm:
    name, name_base64 = exact(tensor.name)
    shape = [whole_form(dimension) for dimension in tensor.shape]
    return GgufTensorForm(name, shape, tensor.type_id, whole_form(tensor.offset), name_base64)


# -- from a dump ------------------------------------------------------------------------------------


def gguf_header(form: GgufForm) -> tuple[GgufHeader, Mapping[int, str]]:
    """The header, and the digests of its long arrays by index; raises :class:`Contradiction`."""
    _check_counts(form)
    placed, metadata_end = _entries(form)
    entries = tuple(one.entry for one in placed)
    tensors, columns, tensors_end = _tensors(form, metadata_end)
    faults, stopped = faults_of(form.faults)
    complete = stopped is None
    _check_progress(form, len(entries), len(tensors), complete=complete)
    declared, alignment = _alignment(entries)
    known = form.metadata_end is not None or declared
    header = GgufHeader(
        file_size=form.file.size,
        version=form.version,
        byte_order=form.byte_order,
        tensor_count=maybe_whole(form.tensor_count, "tensor_count"),
        metadata_count=maybe_whole(form.metadata_count, "metadata_count"),
        alignment=alignment if known else None,
        alignment_declared=declared if known else None,
        metadata_end=metadata_end if form.metadata_end is not None else None,
        directory_end=tensors_end if complete else None,
        data_offset=_data_offset(tensors_end, alignment, len(tensors), form.file.size) if complete else None,
        metadata=entries,
        metadata_done=len(entries),
        tensors=tensors,
        columns=columns,
        rows_complete=True,
        templates=_templates(entries),
        architecture_present=any(entry.key == _ARCHITECTURE_KEY for entry in entries),
        complete=complete,
        stopped=stopped,
        faults=faults,
        notices=notices_of(form.notices),
    )
    _compare(form, header)
    return header, {one.entry.index: one.sha256 for one in placed if one.sha256 is not None}


def _check_counts(form: GgufForm) -> None:
    """Version, byte order and the two counts are read in this order."""
    agree("byte_order", form.byte_order is None, form.version is None)
    if form.version is not None and (form.version, form.byte_order) not in VERSIONS.values():
        raise Contradiction("byte_order", f"GGUF {form.version} is not read {form.byte_order}-endian")
    if form.tensor_count is not None and form.version is None:
        raise Contradiction("tensor_count", "nothing is read behind an unknown version")
    if form.metadata_count is not None and form.tensor_count is None:
        raise Contradiction("metadata_count", "it is read behind tensor_count, which is null")


def _entries(form: GgufForm) -> tuple[list[Placed], int]:
    placed: list[Placed] = []
    position = HEAD_BYTES
    for index, row in enumerate(form.metadata):
        path = f"metadata[{index}]"
        placed.append(metadata_entry(row, index, position, path))
        position = placed[-1].entry.end
        _check_end(form, position, path)
    return placed, position


def _check_end(form: GgufForm, position: int, path: str) -> None:
    if position > min(form.file.size, HEADER_BYTES):
        raise Contradiction(path, f"it ends at byte {position}, behind the end of the file or of what is read")


def _tensors(form: GgufForm, begin: int) -> tuple[tuple[GgufTensor, ...], TensorColumns, int]:
    tensors: list[GgufTensor] = []
    columns = TensorColumns()
    for index, row in enumerate(form.tensors):
        path = f"tensors[{index}]"
        tensor = _tensor(row, index, begin, path)
        row_elements = tensor.shape[0] if tensor.shape else 1
        whole_blocks = row_elements % layouts.row_multiple(tensor.type_id) == 0
        columns.append(tensor.type_id, tensor.offset, tensor.elements, row_elements, whole=whole_blocks)
        tensors.append(tensor)
        begin = tensor.end
        _check_end(form, begin, path)
    return tuple(tensors), columns, begin


def _tensor(form: GgufTensorForm, index: int, begin: int, path: str) -> GgufTensor:
    name = form.name.encode() if form.name_base64 is None else text_bytes(form.name, form.name_base64, f"{path}.name")
    shape = wholes(form.shape, f"{path}.shape")
    elements = _product(shape)
    row_elements = shape[0] if shape else 1
    sound = elements is not None and row_elements % layouts.row_multiple(form.type) == 0
    end = begin + _TENSOR_BYTES + len(name) + 8 * len(shape)
    return GgufTensor(index, name, shape, form.type, whole(form.offset, f"{path}.offset"), elements, sound, begin, end)


def _product(shape: Sequence[int]) -> int | None:
    """In declaration order; None if it passes 2**64 - 1 on the way."""
    elements = 1
    for dimension in shape:
        elements *= dimension
        if elements >= U64:
            return None
    return elements


def _check_progress(form: GgufForm, entries: int, tensors: int, *, complete: bool) -> None:
    """Rows come in order: those of a count only once it is read, tensors only behind all metadata."""
    metadata_count = maybe_whole(form.metadata_count, "metadata_count")
    tensor_count = maybe_whole(form.tensor_count, "tensor_count")
    for path, rows, count in (("metadata", entries, metadata_count), ("tensors", tensors, tensor_count)):
        if rows > (count or 0):
            raise Contradiction(path, f"{rows} rows, and {count or 'none'} declared")
    if form.metadata_end is None and (complete or tensors):
        raise Contradiction("metadata_end", "it is known where the reading came to the tensors")
    if form.metadata_end is not None:
        agree("metadata", entries, metadata_count)
        if (tensor_count or 0) * LEAST_TENSOR + (metadata_count or 0) * LEAST_ENTRY > form.file.size:
            raise Contradiction("tensor_count", "a file of this size does not hold as many")
    if complete:
        agree("tensors", tensors, tensor_count)


def _alignment(entries: Sequence[MetadataEntry]) -> tuple[bool, int | None]:
    """Whether an alignment is declared, and the one that holds: None where no single valid one is."""
    found = [entry for entry in entries if entry.key == _ALIGNMENT_KEY]
    values = {entry.value for entry in found if entry.type_id == U32}
    if any(entry.type_id != U32 for entry in found) or 0 in values or len(values) > 1:
        return bool(values), None
    value = next(iter(values), DEFAULT_ALIGNMENT)
    return bool(values), value if isinstance(value, int) else None


def _data_offset(header_end: int, alignment: int | None, tensors: int, size: int) -> int | None:
    """Padded; where the header ends if nothing follows it; None if a file without tensors ends in between."""
    if alignment is None:
        return None
    aligned = -(-header_end // alignment) * alignment
    if not tensors and size == header_end:
        return header_end
    return aligned if tensors or size >= aligned else None


def _templates(entries: Sequence[MetadataEntry]) -> tuple[tuple[str, str], ...]:
    found = []
    for entry in entries:
        name = entry.key.removeprefix(_TEMPLATE_KEY)
        if name == entry.key or entry.type_id != STRING or name[:1] not in (b"", b"."):
            continue
        assert isinstance(entry.value, bytes)  # noqa: S101 - a string's value
        found.append(
            (name[1:].decode("utf-8", "backslashreplace") or "default", hashlib.sha256(entry.value).hexdigest())
        )
    return tuple(found)


def _compare(form: GgufForm, header: GgufHeader) -> None:
    """What the dump says of itself against what follows from its rows."""
    agree("metadata_end", maybe_whole(form.metadata_end, "metadata_end"), header.metadata_end)
    agree("directory_end", maybe_whole(form.directory_end, "directory_end"), header.directory_end)
    agree("alignment", form.alignment, header.alignment)
    agree("alignment_declared", form.alignment_declared, header.alignment_declared)
    agree("data_offset", maybe_whole(form.data_offset, "data_offset"), header.data_offset)
    stated = tuple((template.name, template.sha256) for template in form.chat_templates)
    if stated != header.templates:
        raise Contradiction("chat_templates", "other templates or digests follow from the metadata")
    if form.header_sha256 is not None and header.header_end is None:
        raise Contradiction("header_sha256", "a header that was not read to its end has no digest")
