"""Retained records as a list: one line a record, or one JSON object. Pure.

A record tells what was seen when somebody looked. The list says how long ago that was and never more: whether the file
is still the same was not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from auditd.evidence.text import exact, printable
from auditd.report.columns import cut_left, left, right
from auditd.report.figures import counted, signed
from auditd.report.style import Style, plain

NOT_CHECKED: Final = "the age is that of the look; whether the file is still the same was not checked"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
#: Up to here hours tell more than days.
_HOURS_UP_TO: Final = 2 * _DAY

#: ``ev_`` and ten digits: enough for a million records.
_SHORT: Final = 13
_GAP: Final = "  "
_TITLES: Final = ("EVIDENCE", "AGE", "VERDICT", "OUTCOME", "RESIDUE", "FILE")
#: Lines come one by one, so a column is as wide as what it can hold; a residue is seldom wider.
_WIDTHS: Final = (_SHORT, 7, 12, 11, 10)
_NAME_COLUMNS: Final = 16


@dataclass(frozen=True, slots=True)
class Row:
    """A record in the list. ``age_seconds`` is how long ago the look was recorded."""

    evidence_id: str
    recorded_at: str
    age_seconds: float
    verdict: str
    outcome: str
    residue: int | None
    path: bytes
    imported: bool


def age(seconds: float) -> str:
    """How old a look is: ``12 s``, ``3 h``, ``40 d``; ``future`` by a clock that is not ours."""
    if seconds < 0:
        return "future"
    for unit, size, end in (("s", 1, _MINUTE), ("min", _MINUTE, _HOUR), ("h", _HOUR, _HOURS_UP_TO)):
        if seconds < end:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // _DAY)} d"


def head(style: Style = plain) -> str:
    """The titles of the columns."""
    return style(_line(_TITLES[:-1], _TITLES[-1]), "heading")


def line(row: Row, columns: int | None = None, style: Style = plain) -> str:
    """One record; ``columns`` None cuts no name."""
    cells = (
        printable(row.evidence_id[:_SHORT]),
        age(row.age_seconds),
        printable(row.verdict),
        printable(row.outcome),
        signed(row.residue),
    )
    name = printable(row.path) + (" (imported)" if row.imported else "")
    if columns:
        name = cut_left(name, max(_NAME_COLUMNS, columns - sum(_WIDTHS) - len(_GAP) * len(_WIDTHS)))
    text = _line(cells, name)
    begin = text.index(cells[2], _WIDTHS[0] + _WIDTHS[1])
    end = begin + len(cells[2])
    return text[:begin] + style(text[begin:end], row.verdict) + text[end:]


def _line(cells: tuple[str, ...], name: str) -> str:
    *front, residue = cells
    shown = [left(cell, columns) for cell, columns in zip(front, _WIDTHS, strict=False)]
    return _GAP.join((*shown, right(residue, _WIDTHS[-1]), name))


def foot(count: int, store: str) -> Iterator[str]:
    """What stands below the list."""
    yield ""
    yield f"{counted(count, 'record')} in {printable(store)}: {NOT_CHECKED}"


def as_json(row: Row) -> dict[str, Any]:
    """The record's entry for programs; ``age_seconds`` says how old the look is."""
    path, path_base64 = exact(row.path)
    return {
        "evidence_id": row.evidence_id,
        "recorded_at": row.recorded_at,
        "age_seconds": round(row.age_seconds, 3),
        "verdict": row.verdict,
        "outcome": row.outcome,
        "residue": row.residue,
        "path": path,
        "path_base64": path_base64,
        "imported": row.imported,
    }
