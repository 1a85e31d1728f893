"""Metadata entries in a table: number, key, type, and as much of the value as there is room for."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Final

from auditd.evidence.record import MetadataRow
from auditd.evidence.text import printable, quoted
from auditd.report.columns import cut_left, left, right, width
from auditd.report.declarations import shown_value
from auditd.report.figures import counted, exact
from auditd.report.style import Style

_GAP: Final = "  "
#: Longer keys are cut; a long value then has a line of its own.
_KEY_CELLS: Final = 48
_LEAST_KEY: Final = 12
#: A value with less room than this stands on the line below if it is longer.
_LEAST_VALUE: Final = 44
_BELOW: Final = " " * 6


def raw_text(text: str, raw_base64: str | None) -> bytes:
    """The exact bytes of a text of a record."""
    return base64.b64decode(raw_base64) if raw_base64 else text.encode("utf-8")


def table(rows: Sequence[MetadataRow], columns: int, style: Style) -> Iterator[str]:
    """Number, key, type, value; a value that has too little room beside its key stands below it."""
    keys = [printable(raw_text(row.key, row.key_base64)) for row in rows]
    numbers = max(1, len(str(rows[-1].index)))
    types = max(4, *(len(row.type) for row in rows))
    beside = numbers + types + 3 * len(_GAP)
    key_cells = max(_LEAST_KEY, min(_KEY_CELLS, max(map(width, keys)), columns - beside))
    room = columns - beside - key_cells
    yield style(_GAP.join((right("n", numbers), left("key", key_cells), left("type", types), "value")), "label")
    for row, key in zip(rows, keys, strict=True):
        head = _GAP.join(
            (right(str(row.index), numbers), left(cut_left(key, key_cells), key_cells), left(row.type, types))
        )
        value = _short(row, room) if room >= _LEAST_VALUE else _whole(row, room)
        if value is not None:
            yield f"{head}{_GAP}{value}".rstrip()
        else:
            yield head.rstrip()
            yield f"{_BELOW}{_short(row, columns - len(_BELOW))}"


def _whole(row: MetadataRow, room: int) -> str | None:
    """The value if nothing of it has to be cut."""
    value = _short(row, room)
    return value if width(value) <= room and not _is_cut(row, value) else None


def _is_cut(row: MetadataRow, value: str) -> bool:
    return isinstance(row.value, str) and row.type == "string" and not value.endswith('"')


def _short(row: MetadataRow, room: int) -> str:
    if row.element_type is not None:
        return _short_array(row, room)
    if row.type != "string":
        return shown_value(row.value)
    return cut_text(raw_text(str(row.value), row.value_base64), room)


def _short_array(row: MetadataRow, room: int) -> str:
    """How many of what; and which, where all of them are few and short."""
    text = f"{exact(row.count)} of {row.element_type}"
    if not row.preview or row.preview_complete is not True:
        return text
    whole = f"{text}: {', '.join(map(shown_value, row.preview))}"
    return whole if width(whole) <= room else text


def cut_text(raw: bytes, cells: int) -> str:
    """``raw`` between quotes, cut so that it and what is said of the rest fit into ``cells``: ``"Qwe" ... and 9 more bytes``."""
    text = raw.decode("utf-8", "surrogateescape")
    whole = quoted(text[: cells + 1], cells + 1)
    if len(text) <= cells and width(whole) <= cells:
        return whole
    tail = f" ... and {len(raw):,} more bytes"
    shown, used = "", 2 + len(tail)
    for character in text[:cells]:
        escaped = quoted(character)[1:-1]
        used += width(escaped)
        if used > cells:
            break
        shown += character
    rest = len(raw) - len(shown.encode("utf-8", "surrogateescape"))
    return f"{quoted(shown, len(shown) + 1)} ... and {counted(rest, 'more byte')}"
