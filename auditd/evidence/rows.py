"""Declarations as rows of a record: names made exact text, 64-bit integers decimal strings, floats JSON-safe."""

from __future__ import annotations

import math
from typing import Final

from auditd.accounting.account import Account
from auditd.evidence.exactness import exact_int
from auditd.evidence.record import (
    ArrayPreview,
    ChatTemplate,
    Gguf,
    GgufTensorRow,
    MetadataRow,
    Safetensors,
    SafetensorsTensorRow,
    Scalar,
    Spans,
    StorageValidation,
    TypeTotal,
)
from auditd.evidence.text import exact
from auditd.evidence.totals import declared, type_totals
from auditd.formats import layouts
from auditd.formats.declarations import (
    ArrayValue,
    GgufHeader,
    GgufTensor,
    MetadataEntry,
    MetadataValue,
    SafetensorsHeader,
    SafetensorsTensor,
)
from auditd.formats.gguf import wire

#: Value types whose integers are 64 bits wide, or may be.
_WIDE: Final = frozenset({wire.VALUE_TYPES.index("u64"), wire.VALUE_TYPES.index("i64")})

#: Longest text that a headline carries; the rest is in the rows.
_HEADLINE_TEXT: Final = 80

_HEADLINE_KEYS: Final = (
    "general.architecture",
    "general.name",
    "general.type",
    "general.size_label",
    "general.file_type",
    "general.quantization_version",
)
_HEADLINE_SUFFIXES: Final = (
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
)
_HEADLINE_COUNTS: Final = {"tokenizer.ggml.tokens": "vocabulary", "tokenizer.ggml.merges": "merges"}


def gguf_part(header: GgufHeader, account: Account | None) -> Gguf:
    """All that a GGUF header declares, as far as it was read."""
    spans = Spans(
        head=None if header.metadata_count is None else wire.HEAD_BYTES,
        metadata=None if header.metadata_end is None else header.metadata_end - wire.HEAD_BYTES,
        directory=_difference(header.directory_end, header.metadata_end),
        padding=_difference(header.data_offset, header.directory_end),
    )
    return Gguf(
        version=header.version,
        byte_order=header.byte_order,
        alignment=header.alignment,
        alignment_declared=header.alignment_declared,
        metadata_count=exact_int(header.metadata_count),
        tensor_count=exact_int(header.tensor_count),
        spans=spans,
        metadata=[metadata_row(entry) for entry in header.metadata],
        tensors=[_gguf_row(tensor, header) for tensor in header.tensors],
        totals=None if account is None else declared(type_totals(account.declared)),
        headline=_headline(header),
        chat_templates=[ChatTemplate(name=name, sha256=digest) for name, digest in header.templates],
    )


def _difference(end: int | None, begin: int | None) -> int | None:
    return None if end is None or begin is None else end - begin


# -- metadata ---------------------------------------------------------------------------------------


def metadata_row(entry: MetadataEntry) -> MetadataRow:
    """One entry; of an array its first elements."""
    key, key_base64 = exact(entry.key)
    type_name = wire.VALUE_TYPES[entry.type_id]
    if isinstance(entry.value, ArrayValue):
        preview, preview_base64 = _preview(entry.value)
        return MetadataRow(
            index=entry.index,
            key=key,
            type=type_name,
            value=None,
            key_base64=key_base64,
            element_type=wire.VALUE_TYPES[entry.value.element_type],
            count=entry.value.count,
            preview=preview,
            preview_complete=entry.value.preview_complete,
            preview_base64=preview_base64,
        )
    value, value_base64 = scalar_form(entry.value, entry.type_id)
    return MetadataRow(
        index=entry.index, key=key, type=type_name, value=value, key_base64=key_base64, value_base64=value_base64
    )


def scalar_form(value: float | bytes, type_id: int) -> tuple[Scalar, str | None]:
    """A value as JSON can hold it exactly, and its bytes in base64 if it is text that is not UTF-8."""
    if isinstance(value, bytes):
        return exact(value)
    if isinstance(value, float):
        return _float(value), None
    if type_id == wire.BOOL and value in (0, 1):
        return bool(value), None
    return (str(value) if type_id in _WIDE else value), None


def _float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Infinity" if value > 0 else "-Infinity"
    return "-0" if value == 0 and math.copysign(1, value) < 0 else value


def _preview(array: ArrayValue) -> tuple[list[Scalar | ArrayPreview], list[str | None] | None]:
    shown: list[Scalar | ArrayPreview] = []
    raw: list[str | None] = []
    for element in array.preview:
        value, base64 = _element(element, array.element_type)
        shown.append(value)
        raw.append(base64)
    return shown, raw if any(raw) else None


def _element(element: MetadataValue, type_id: int) -> tuple[Scalar | ArrayPreview, str | None]:
    if not isinstance(element, ArrayValue):
        return scalar_form(element, type_id)
    preview, preview_base64 = _preview(element)
    inner = ArrayPreview(
        element_type=wire.VALUE_TYPES[element.element_type],
        count=element.count,
        preview=preview,
        preview_complete=element.preview_complete,
        preview_base64=preview_base64,
    )
    return inner, None


def _headline(header: GgufHeader) -> dict[str, Scalar]:
    """A few short facts by which people know a model, under the keys that the file itself uses."""
    by_key = {entry.key: entry for entry in reversed(header.metadata)}
    found: dict[str, Scalar] = {}
    architecture = by_key.get(b"general.architecture")
    prefix = architecture.value if architecture is not None and isinstance(architecture.value, bytes) else b""
    keys = [*_HEADLINE_KEYS, *(f"{exact(prefix)[0]}.{suffix}" for suffix in _HEADLINE_SUFFIXES if prefix)]
    for key in keys:
        entry = by_key.get(key.encode())
        if entry is None or isinstance(entry.value, ArrayValue):
            continue
        value, base64 = scalar_form(entry.value, entry.type_id)
        if base64 is None and len(str(value)) <= _HEADLINE_TEXT and len(key) <= _HEADLINE_TEXT:
            found[key] = value
    for key, label in _HEADLINE_COUNTS.items():
        entry = by_key.get(key.encode())
        if entry is not None and isinstance(entry.value, ArrayValue):
            found[label] = entry.value.count
    return found


# -- tensors ----------------------------------------------------------------------------------------


def _gguf_row(tensor: GgufTensor, header: GgufHeader) -> GgufTensorRow:
    name, name_base64 = exact(tensor.name)
    length = established_length(tensor)
    begin = None if header.data_offset is None else header.data_offset + tensor.offset
    return GgufTensorRow(
        index=tensor.index,
        name=name,
        type_id=tensor.type_id,
        type=layouts.type_label(tensor.type_id),
        shape=[str(dimension) for dimension in tensor.shape],
        elements=None if tensor.elements is None else str(tensor.elements),
        offset=exact_int(tensor.offset),
        file_offset=exact_int(begin),
        byte_length=exact_int(length),
        storage_validation=_validation(tensor, length, begin, header.file_size),
        name_base64=name_base64,
    )


def established_length(tensor: GgufTensor) -> int | None:
    """Bytes of a tensor on which every released layout agrees: 0 if it is empty, None where they do not."""
    if tensor.elements == 0:
        return 0
    sizing = layouts.ESTABLISHED.get(tensor.type_id)
    if sizing is None or tensor.elements is None or not tensor.sound_shape:
        return None
    return sizing.byte_length(tensor.elements, tensor.shape[0] if tensor.shape else 1)


def _validation(tensor: GgufTensor, length: int | None, begin: int | None, file_size: int) -> StorageValidation:
    """Shape and type against the file: two accounts of the same bytes."""
    if not tensor.sound_shape:
        return "contradicted"
    if length is None:
        return "unknown"
    return "contradicted" if length and begin is not None and begin + length > file_size else "consistent"


def safetensors_part(header: SafetensorsHeader) -> Safetensors:
    """All that a safetensors header declares; nothing of it before it is validated."""
    totals = [
        TypeTotal(
            type=tally.dtype,
            type_id=None,
            tensors=tally.tensors,
            elements=None if tally.elements is None else str(tally.elements),
            bytes=exact_int(tally.size),
        )
        for tally in sorted(header.totals)
    ]
    length = header.header_length
    return Safetensors(
        header_length=None if length is None else length - 8,
        metadata=header.metadata,
        tensors=[_safetensors_row(i, tensor, header) for i, tensor in enumerate(header.tensors)]
        if header.complete
        else None,
        tensor_count=header.tensor_count,
        totals=declared(totals) if header.complete else None,
        headline=_safetensors_headline(header.metadata or {}),
    )


def _safetensors_headline(metadata: dict[str, str]) -> dict[str, Scalar]:
    short = {key: value for key, value in metadata.items() if len(key) + len(value) <= _HEADLINE_TEXT}
    return dict(sorted(short.items())[:8])


def _safetensors_row(index: int, tensor: SafetensorsTensor, header: SafetensorsHeader) -> SafetensorsTensorRow:
    begin, end = exact_int(tensor.begin), exact_int(tensor.end)
    return SafetensorsTensorRow(
        index=index,
        name=tensor.name,
        dtype=tensor.dtype,
        shape=[str(dimension) for dimension in tensor.shape],
        elements=None if tensor.elements is None else str(tensor.elements),
        data_offsets=None if begin is None or end is None else [begin, end],
        file_offset=None if header.data_offset is None else exact_int(header.data_offset + tensor.begin),
        byte_length=exact_int(tensor.end - tensor.begin) if tensor.begin <= tensor.end else None,
        storage_validation=tensor.validation,
    )
