"""``show fields``: where every field of a file begins, how long it is, its first bytes, what it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from auditd.accounting.account import no_pulse
from auditd.errors import UsageError
from auditd.evidence.exactness import exact_int
from auditd.evidence.observation import Observation
from auditd.evidence.text import exact as exact_text
from auditd.evidence.text import printable
from auditd.formats.declarations import GgufHeader
from auditd.report.columns import cut_left, defused, left, right, width, wrap
from auditd.report.figures import UNKNOWN, counted, exact
from auditd.report.show.field_list import Field, fields
from auditd.report.show.layout import File, file_of, title, within_columns
from auditd.report.show.outcome import Ending, ending, ending_lines
from auditd.report.show.suggestions import absent
from auditd.report.style import Style

#: How many fields are shown unless it is said.
LIMIT: Final = 1000
#: So many of a field's first bytes are read.
FIRST_BYTES: Final = 12
#: Fewer are shown where names would have to be cut for them.
_SHOWN_BYTES: Final = (FIRST_BYTES, 8, 4)

_GAP: Final = "  "
#: Longer names do not decide how the columns are set.
_NAME_CELLS: Final = 60
_LEAST_NAME: Final = 16
#: Of so few fields (those of one tensor) a name that has no room beside its bytes stands whole below them, in at most
#: so many lines.
_WHOLE_ROWS: Final = 12
_NAME_LINES: Final = 8
_BELOW: Final = " " * 4

#: Reads spans ``(begin, end)`` of the file.
Read: TypeAlias = Callable[[Sequence[tuple[int, int]]], Sequence[bytes]]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which fields: those that reach into ``within`` (half-open, file offsets), those of a tensor, at most ``limit``."""

    within: tuple[int, int] | None = None
    tensor: bytes | None = None
    limit: int = LIMIT
    fine: bool = False


class FieldRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One field: ``offset`` and ``length`` in bytes, null past 2**53 - 1; ``first_bytes`` in hex, null if not read.

    ``field`` is its path in the header counted from 0, null where it has none. ``label_base64`` has the bytes of the
    key or name inside ``name`` where they are not UTF-8.
    """

    offset: int | None
    length: int | None
    kind: str
    field: str | None
    name: str
    first_bytes: str | None
    label_base64: str | None = None


class FieldsSheet(msgspec.Struct, frozen=True, kw_only=True):
    """Fields in file order. ``matching`` of them were asked for, and take ``bytes`` of the file.

    ``fine`` says whether entries are in pieces. ``first_bytes_from`` is null where there was no file to read.
    """

    schema: str = "model-auditd/show-fields/1"
    file: File
    format: Literal["gguf", "safetensors"] | None
    fine: bool
    fields: list[FieldRow]
    matching: int
    bytes: int | None
    first_bytes_from: Literal["file"] | None
    ending: Ending | None


def sheet(
    observation: Observation,
    choice: Choice | None = None,
    read: Read | None = None,
    pulse: Callable[[], None] = no_pulse,
) -> FieldsSheet:
    """The fields that are asked for; ``read`` gets at the file's bytes, None if there is no file.

    ``pulse`` is called now and then and may raise to end it. Raises ``UsageError`` for a tensor that is not there and a range that is none.
    """
    choice = choice or Choice()
    _check(observation, choice)
    kept: list[Field] = []
    matching = total = 0
    for field in _matching(observation, choice, pulse):
        matching += 1
        total += max(0, min(field.end, observation.size or 0) - field.begin)
        if len(kept) < choice.limit:
            kept.append(field)
    spans = [(field.begin, min(field.end, field.begin + FIRST_BYTES)) for field in kept]
    first: Sequence[bytes | None] = [None] * len(kept) if read is None else read(spans)
    header = observation.header
    return FieldsSheet(
        file=file_of(observation),
        format=None if header is None else "gguf" if isinstance(header, GgufHeader) else "safetensors",
        fine=choice.fine,
        fields=[_row(field, raw) for field, raw in zip(kept, first, strict=True)],
        matching=matching,
        bytes=exact_int(total),
        first_bytes_from=None if read is None else "file",
        ending=ending(observation),
    )


def _check(observation: Observation, choice: Choice) -> None:
    if choice.limit < 1:
        raise UsageError("show fields: --limit is 1 or more")
    if choice.within is not None and not 0 <= choice.within[0] < choice.within[1]:
        raise UsageError("show fields: --range is BEGIN:END, two file offsets, and BEGIN is before END")
    if choice.tensor is None:
        return
    names = [] if observation.header is None else [_raw(tensor.name) for tensor in observation.header.tensors]
    if choice.tensor not in names:
        raise absent("tensor", choice.tensor, names, printable(observation.path))


def _raw(name: bytes | str) -> bytes:
    return name if isinstance(name, bytes) else name.encode("utf-8")


def _matching(observation: Observation, choice: Choice, pulse: Callable[[], None]) -> Iterator[Field]:
    tensors = () if observation.header is None else observation.header.tensors
    begin, end = choice.within or (0, None)
    for field in fields(observation, fine=choice.fine, pulse=pulse):
        if end is not None and (field.begin >= end or field.end <= begin):
            continue
        if choice.tensor is not None and (field.tensor is None or _raw(tensors[field.tensor].name) != choice.tensor):
            continue
        yield field


def _row(field: Field, raw: bytes | None) -> FieldRow:
    label, label_base64 = exact_text(field.label)
    return FieldRow(
        offset=exact_int(field.begin),
        length=exact_int(field.end - field.begin),
        kind=field.kind,
        field=field.subject or None,
        name=f"{field.before}{label}{field.after}",
        first_bytes=raw.hex(" ") if raw else None,
        label_base64=label_base64,
    )


# -- lines ------------------------------------------------------------------------------------------


@within_columns
def lines(sheet: FieldsSheet, columns: int, style: Style) -> Iterator[str]:
    """The fields in a table, long names cut or, of few fields, below them; and what is not shown."""
    yield title("fields of", sheet.file, columns, style)
    if sheet.fields:
        yield ""
        yield from _table(sheet.fields, columns, style)
    yield ""
    yield from wrap(_total(sheet), columns)
    if sheet.ending is not None:
        yield from ending_lines(sheet.ending, columns, style)


def _total(sheet: FieldsSheet) -> str:
    text = f"{counted(sheet.matching, 'field')}, {counted(sheet.bytes, 'byte')} of {exact(sheet.file.size)} in the file"
    hidden = sheet.matching - len(sheet.fields)
    if hidden:
        text += f"; {exact(hidden)} of them not shown (--range, --tensor and --limit choose)"
    return text


def _table(rows: Sequence[FieldRow], columns: int, style: Style) -> Iterator[str]:
    places = [(exact(row.offset), exact(row.length)) for row in rows]
    names = [_shown_name(row) for row in rows]
    wide = [max(width(cell) for cell in column) for column in zip(("at", "bytes"), *places, strict=True)]
    count = _bytes_shown(rows, names, columns - sum(wide) - 3 * len(_GAP))
    cells = [_first(row, count) for row in rows]
    hexes = max([0, *map(len, cells)])
    room = max(_LEAST_NAME, columns - sum(wide) - len(_GAP) * (3 if hexes else 2) - hexes)
    yield style(_line(("at", "bytes", "first bytes" if hexes else "", "field"), wide, hexes), "label")
    whole = len(rows) <= _WHOLE_ROWS
    for (at, length), first, name in zip(places, cells, names, strict=True):
        if width(name) <= room or not whole:
            yield _line((at, length, first, cut_left(name, room)), wide, hexes)
            continue
        yield _line((at, length, first, ""), wide, hexes)
        below = columns - len(_BELOW)
        yield from (_BELOW + line for line in wrap(cut_left(name, _NAME_LINES * below), below))


def _shown_name(row: FieldRow) -> str:
    """The escapes of a label that is not UTF-8 are made already, and are not escaped again."""
    return defused(row.name) if row.label_base64 else printable(row.name)


def _bytes_shown(rows: Sequence[FieldRow], names: Sequence[str], room: int) -> int:
    """As many bytes as leave the names whole, if any number does."""
    if not any(row.first_bytes for row in rows):
        return 0
    longest = min(_NAME_CELLS, max(width(name) for name in names))
    fitting = (count for count in _SHOWN_BYTES if 3 * count + 3 + longest <= room)
    return next(fitting, _SHOWN_BYTES[-1])


def _first(row: FieldRow, count: int) -> str:
    if not count:
        return ""
    if row.first_bytes is None:
        return "" if row.kind == "missing" else UNKNOWN
    shown = row.first_bytes[: 3 * count - 1]
    return shown if row.length is not None and row.length <= count else f"{shown} ..."


def _line(cells: tuple[str, str, str, str], wide: Sequence[int], hexes: int) -> str:
    at, length, first, name = cells
    middle = (left(first, hexes),) if hexes else ()
    return _GAP.join((right(at, wide[0]), right(length, wide[1]), *middle, name)).rstrip()
