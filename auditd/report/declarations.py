"""What a header declares, row by row: every metadata entry and every tensor that the record keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from auditd.evidence.record import ArrayPreview, Evidence, GgufTensorRow, MetadataRow, SafetensorsTensorRow
from auditd.evidence.text import printable, quoted
from auditd.report.figures import UNKNOWN, counted, exact

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
        return f"{row.index} {printable(row.key)} ({row.type}) = {shown_value(row.value)}"
    items = _items(row.preview or [], complete=row.preview_complete is True)
    return f"{row.index} {printable(row.key)} ({exact(row.count)} {row.element_type}) = {items}"


def _items(preview: list[bool | int | float | str | ArrayPreview], *, complete: bool) -> str:
    return f"[{', '.join(map(shown_value, preview))}{'' if complete else ', …'}]"


def shown_value(value: object, characters: int = _VALUE_CHARACTERS) -> str:
    """A value of a header on one line, as JSON would show it, cut to about ``characters``."""
    if isinstance(value, ArrayPreview):
        return _items(value.preview, complete=value.preview_complete)
    if isinstance(value, str):
        return quoted(value, characters)
    return str(value).lower() if isinstance(value, bool) else printable(str(value), characters)


def _tensor(row: GgufTensorRow | SafetensorsTensorRow) -> str:
    kind = row.type if isinstance(row, GgufTensorRow) else row.dtype
    shape = " x ".join(row.shape) or "scalar"
    place = UNKNOWN if row.file_offset is None else exact(row.file_offset)
    return (
        f"{row.index} {printable(row.name)} ({printable(kind)}) {shape}, {counted(row.byte_length, 'byte')} at {place}"
    )
