"""In place of a sheet: what was asked for cannot be found, because the reading ended before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from auditd.evidence.observation import Observation
from auditd.evidence.text import printable
from auditd.formats.declarations import GgufHeader
from auditd.report.columns import wrap
from auditd.report.figures import counted
from auditd.report.show.layout import File, file_of, title, within_columns
from auditd.report.show.outcome import Ending, ending_lines
from auditd.report.style import Style

#: In which part of a header something is looked for.
Part: TypeAlias = Literal["metadata", "tensors"]


class NothingSheet(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for of ``file`` (``asked`` in words), and the ``reason`` why nobody can say whether it is there."""

    schema: str = "model-auditd/show-nothing/1"
    kind: str
    asked: str
    file: File
    reason: str
    ending: Ending


def sheet(observation: Observation, kind: str, asked: str, part: Part, absent: str, ending: Ending) -> NothingSheet:
    """The sheet of a reading that ended as ``ending`` says; ``absent`` is what a whole header would have it said."""
    return NothingSheet(
        kind=kind, asked=asked, file=file_of(observation), reason=_reason(observation, part, absent), ending=ending
    )


def _reason(observation: Observation, part: Part, absent: str) -> str:
    header = observation.header
    if header is None:
        return "no header was read, so there is nothing to be looked up in it"
    read = len(header.metadata or ()) if part == "metadata" else len(header.tensors)
    begun = isinstance(header, GgufHeader) and bool(read)
    if not begun and part == "tensors":
        return "the header was not read to its tensors, so what is asked for was not come to"
    if not begun:
        return "the header was not read to its metadata, so what is asked for was not come to"
    noun = ("metadata entry", "metadata entries") if part == "metadata" else ("tensor", "tensors")
    return f"the header was not read to its end, and it may stand behind the {counted(read, *noun)} that were read: {absent}"


@within_columns
def lines(sheet: NothingSheet, columns: int, style: Style) -> Iterator[str]:
    """The sheet for a terminal."""
    yield title(f"{printable(sheet.asked)} of", sheet.file, columns, style)
    yield ""
    yield from wrap(sheet.reason, columns)
    yield from ending_lines(sheet.ending, columns, style)
