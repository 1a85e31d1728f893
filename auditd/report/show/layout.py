"""How sheets are set: the file on top, figures below each other, tables whose last column takes the room that is left."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from auditd.evidence.exactness import exact_int
from auditd.evidence.observation import Observation
from auditd.evidence.text import exact, printable
from auditd.report.columns import cut_left, fold, left, right, width, wrap
from auditd.report.style import Style

Align: TypeAlias = Literal["left", "right"]
Sheet = TypeVar("Sheet")

_GAP: Final = "  "
_INDENT: Final = "  "
#: A last column is never set narrower, whatever the lines grow to.
_LEAST_CELLS: Final = 16


def within_columns(
    lines: Callable[[Sheet, int, Style], Iterator[str]],
) -> Callable[[Sheet, int, Style], Iterator[str]]:
    """``lines`` with none of them wider than the columns: what no table can be made narrower than is folded."""

    @wraps(lines)
    def folded(sheet: Sheet, columns: int, style: Style) -> Iterator[str]:
        for line in lines(sheet, columns, style):
            yield from fold(line, columns)

    return folded


class File(msgspec.Struct, frozen=True, kw_only=True):
    """The file that a sheet is about: its name without directories, so that a dumped header gives the same sheet.

    ``name_base64`` has the name's bytes where they are not UTF-8; ``size`` in bytes, null if unknown or past 2**53 - 1.
    """

    name: str
    name_base64: str | None
    size: int | None


def file_of(observation: Observation) -> File:
    """What a sheet says of the file itself."""
    name, name_base64 = exact(observation.path.rpartition(b"/")[2])
    return File(name=name, name_base64=name_base64, size=exact_int(observation.size))


def shown_name(file: File) -> str:
    """The name for the eye, from its exact bytes where it is not text."""
    return printable(base64.b64decode(file.name_base64) if file.name_base64 else file.name)


def title(words: str, file: File, columns: int, style: Style) -> str:
    """``words`` and the end of the name, on one line."""
    room = max(_LEAST_CELLS, columns - width(words) - 1)
    return f"{style(words, 'heading')} {cut_left(shown_name(file), room)}"


def section(words: str, style: Style) -> tuple[str, str]:
    """An empty line and a heading."""
    return "", style(words, "heading")


def figures(rows: Sequence[tuple[str, str]], least: int = 0) -> Iterator[str]:
    """Labels, and figures that end below each other; labels take at least ``least`` cells."""
    labels = max([least, *(width(label) for label, _ in rows)])
    values = max((width(value) for _, value in rows), default=0)
    for label, value in rows:
        yield f"{_INDENT}{left(label, labels)}{_GAP}{right(value, values)}"


def sentence(text: str, columns: int) -> Iterator[str]:
    """A sentence as indented lines."""
    return (_INDENT + line for line in wrap(text, max(_LEAST_CELLS, columns - len(_INDENT))))


def facts(rows: Sequence[tuple[str, str]], columns: int) -> Iterator[str]:
    """Labels, and texts that are wrapped into what is left of the columns; equal labels are said once."""
    labels = max((width(label) for label, _ in rows), default=0)
    room = columns - len(_INDENT) - labels - len(_GAP)
    if room < _LEAST_CELLS:
        yield from _facts_below(rows, columns)
        return
    last = ""
    for label, text in rows:
        for line in wrap(text, room):
            yield f"{_INDENT}{left('' if label == last else label, labels)}{_GAP}{line}".rstrip()
            last = label


def _facts_below(rows: Sequence[tuple[str, str]], columns: int) -> Iterator[str]:
    """The same where labels leave no room beside them: each text below its label."""
    last = ""
    for label, text in rows:
        if label != last:
            yield from sentence(label, columns)
        lines = wrap(text, max(_LEAST_CELLS, columns - 2 * len(_INDENT)))
        yield from ((2 * _INDENT + line).rstrip() for line in lines)
        last = label


def grid(titles: Sequence[str], rows: Sequence[Sequence[str]], aligns: Sequence[Align], style: Style) -> Iterator[str]:
    """A table whose cells are short: titles, then a line a row."""
    widths = [max(width(cell) for cell in column) for column in zip(titles, *rows, strict=True)]
    yield style(_row(titles, widths, aligns), "label")
    yield from (_row(row, widths, aligns) for row in rows)


def _row(cells: Sequence[str], widths: Sequence[int], aligns: Sequence[Align]) -> str:
    set_ = {"left": left, "right": right}
    return (
        _INDENT
        + _GAP.join(set_[align](cell, wide) for cell, wide, align in zip(cells, widths, aligns, strict=True)).rstrip()
    )
