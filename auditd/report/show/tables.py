"""Lists of tensors for a terminal: a table that keeps to its columns however long the names are."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

import msgspec

from auditd.evidence.exactness import exact_int
from auditd.evidence.text import printable
from auditd.model.tensors import Storage as Stored
from auditd.report.columns import cut_left, left, right, width
from auditd.report.style import Style

#: A text, or several that stand beside each other where there is room, else below each other.
Cell: TypeAlias = str | tuple[str, ...]

_INDENT: Final = "  "
_GAP: Final = "  "
#: Lines are not set narrower than this: two exact sizes alone take 42 cells.
LEAST_COLUMNS: Final = 60
_NAME_CELLS: Final = 16
#: A name of more lines is cut on its left.
_NAME_LINES: Final = 4
#: Longer texts are cut before they are measured: no terminal shows them.
_CELL_CHARACTERS: Final = 1024
_TYPE_CELLS: Final = 24
_RUNS_SHOWN: Final = 24


def name_shown(text: str, raw_base64: str | None) -> str:
    """A name for the eye, from its exact bytes where it is not text."""
    return printable(base64.b64decode(raw_base64) if raw_base64 else text, _CELL_CHARACTERS)


def type_shown(text: str) -> str:
    """A type for the eye: a dtype of a safetensors file is whatever stands there."""
    return cut_left(printable(text, _CELL_CHARACTERS), _TYPE_CELLS)


def shape_of(shape: Iterable[int]) -> list[str]:
    """A shape as a sheet has it: decimal digits, because a dimension may be past 2**53 - 1."""
    return [str(dimension) for dimension in shape]


def shape_shown(shape: Sequence[str]) -> str:
    """``3584 x 512``; ``scalar`` without dimensions."""
    return " x ".join(shape) or "scalar"


def size_of(size: int | None) -> int | None:
    """A size as a sheet has it, null past 2**53 - 1."""
    return exact_int(size)


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks that a quantized type keeps elements in: how many, elements in one, bytes of one; null past 2**53 - 1."""

    blocks: int | None
    elements: int
    bytes: int


def storage_of(storage: Stored | None) -> Storage | None:
    """The blocks as a sheet has them; None where there are none."""
    if storage is None:
        return None
    return Storage(blocks=exact_int(storage.blocks), elements=storage.elements, bytes=storage.bytes)


def share_of(part: int | None, whole: int | None) -> float | None:
    """``part`` / ``whole`` to six digits; None where one is unknown or there is no whole."""
    return None if part is None or not whole else round(part / whole, 6)


def blocks_shown(numbers: Sequence[int]) -> str:
    """Ascending block numbers as ranges, ``0-13, 20``, cut after the first runs with a count of all."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        elif len(runs) == _RUNS_SHOWN:
            return f"{_runs(runs)}, ... ({len(numbers):,} in all)"
        else:
            runs.append((number, number))
    return _runs(runs)


def _runs(runs: Iterable[tuple[int, int]]) -> str:
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


# -- tables -----------------------------------------------------------------------------------------


def listed(
    titles: Sequence[str], rows: Sequence[Sequence[Cell]], soft: Sequence[int], columns: int, style: Style
) -> Iterator[str]:
    """A table in ``columns`` cells (at least :data:`LEAST_COLUMNS`).

    The columns at ``soft`` are aligned left and give way where a line is too long: cells that are tuples are folded,
    then the first of the columns, which has dotted names, then the rest is cut. The others are figures, aligned right
    and never cut.
    """
    widths = _widths(titles, rows, soft, max(columns, LEAST_COLUMNS))
    yield style(
        _line([cut_left(title, cells) for title, cells in zip(titles, widths, strict=True)], widths, soft), "label"
    )
    for row in rows:
        folded = [_folded(cell, widths[at], named=at == soft[0]) for at, cell in enumerate(row)]
        for cells in zip_longest(*folded, fillvalue=""):
            yield _line(cells, widths, soft)


def _widths(titles: Sequence[str], rows: Sequence[Sequence[Cell]], soft: Sequence[int], columns: int) -> list[int]:
    wanted = [width(title) for title in titles]
    least = list(wanted)
    for row in rows:
        for at, cell in enumerate(row):
            wanted[at] = max(wanted[at], width(" ".join(cell) if isinstance(cell, tuple) else cell))
            least[at] = max([least[at], *map(width, cell)]) if isinstance(cell, tuple) else wanted[at]
    room = columns - len(_INDENT) - len(_GAP) * (len(titles) - 1)
    room -= sum(cells for at, cells in enumerate(wanted) if at not in soft)
    return _given_way(wanted, least, soft, room)


def _given_way(wanted: list[int], least: list[int], soft: Sequence[int], room: int) -> list[int]:
    """The widths when those of the soft columns come to at most ``room`` together."""
    name, *others = soft
    if sum(wanted[at] for at in soft) <= room:
        return wanted
    widths = list(wanted)
    for at in others:
        over = sum(widths[one] for one in soft) - room
        widths[at] = max(least[at], widths[at] - max(0, over))
    if room - sum(widths[at] for at in others) < min(widths[name], _NAME_CELLS):
        for at in others:
            widths[at] = min(widths[at], max(1, room // len(soft)))
    widths[name] = max(1, min(widths[name], room - sum(widths[at] for at in others)))
    return widths


def _folded(cell: Cell, cells: int, *, named: bool) -> list[str]:
    """The lines of a cell: the items of a tuple, or the words of a dotted name, as many in one line as go into it."""
    if isinstance(cell, tuple):
        return _packed(cell, " ", cells)
    if not named or width(cell) <= cells:
        return [cut_left(cell, cells)]
    words = cut_left(cell, _NAME_LINES * cells).split(".")
    return _packed([*(word + "." for word in words[:-1]), words[-1]], "", cells)


def _packed(items: Iterable[str], between: str, cells: int) -> list[str]:
    lines: list[str] = []
    for item in items:
        longer = f"{lines[-1]}{between}{item}" if lines else item
        if lines and width(longer) <= cells:
            lines[-1] = longer
        else:
            lines.append(cut_left(item, cells))
    return lines


def _line(cells: Sequence[str], widths: Sequence[int], soft: Sequence[int]) -> str:
    set_ = (left(cell, widths[at]) if at in soft else right(cell, widths[at]) for at, cell in enumerate(cells))
    return (_INDENT + _GAP.join(set_)).rstrip()
