"""What a header declares, row by row: every metadata entry and every tensor that the record keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from auditd.evidence.record import Evidence, GgufTensorRow, MetadataRow, SafetensorsTensorRow
from auditd.evidence.text import printable, quoted
from auditd.report.figures import UNKNOWN, exact

_VALUE_CHARACTERS: Final = 160


def declarations(evidence: Evidence) -> Iterator[str]:
    """One line a row; sizes and places in bytes."""
    if evidence.gguf:
        yield from _section("metadata", map(_metadata, evidence.gguf.metadata or ()))
        yield from _section("tensors", map(_tensor, evidence.gguf.tensors or ()))
    if evidence.safetensors:
        yield from _section("metadata", map(_text, (evidence.safetensors.metadata or {}).items()))
        yield from _section("tensors", map(_tensor, evidence.safetensors.tensors or ()))


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    first = next(lines, None)
    if first is not None:
        yield from ("", title, f"  {first}")
        yield from (f"  {line}" for line in lines)


def _text(item: tuple[str, str]) -> str:
    return f"{printable(item[0])} = {quoted(item[1], _VALUE_CHARACTERS)}"


def _metadata(row: MetadataRow) -> str:
    if row.element_type is None:
        return f"{row.index} {printable(row.key)} ({row.type}) = {_value(row.value)}"
    shown = ", ".join(_value(item) for item in row.preview or ())
    rest = "" if row.preview_complete else ", …"
    return f"{row.index} {printable(row.key)} ({exact(row.count)} {row.element_type}) = [{shown}{rest}]"


def _value(value: object) -> str:
    return quoted(value, _VALUE_CHARACTERS) if isinstance(value, str) else printable(str(value), _VALUE_CHARACTERS)


def _tensor(row: GgufTensorRow | SafetensorsTensorRow) -> str:
    kind = row.type if isinstance(row, GgufTensorRow) else row.dtype
    shape = " x ".join(row.shape) or "scalar"
    place = UNKNOWN if row.file_offset is None else exact(row.file_offset)
    return f"{row.index} {printable(row.name)} ({printable(kind)}) {shape}, {exact(row.byte_length)} bytes at {place}"
