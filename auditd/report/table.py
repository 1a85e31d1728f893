"""Many files in one table: the worst first, for each a line, what is wrong with it and what to do.

A :class:`Row` keeps what the table shows of a record and nothing more, and :class:`Rows` keeps the first thousand of
each verdict and counts the others: a table of a million files fits into memory, and so does its reader's evening.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from auditd.evidence.record import Artifact, Evidence, Finding
from auditd.evidence.text import printable
from auditd.report.columns import ELLIPSIS, cut_left, defused, left, right, width, wrap
from auditd.report.figures import counted, rounded, signed
from auditd.report.finding_lines import step
from auditd.report.style import Style, plain
from auditd.rules.findings import SEVERITY_ORDER, VERDICT_ORDER, at_least

NOT_SEEN: Final = "not seen"

#: Sets have verdicts of their own; one without all of its members does not load, whatever its members are.
_SET_RANKS: Final = {"incomplete": "residue"}

_ORDER: Final[dict[str, float]] = {verdict: rank for rank, verdict in enumerate((*VERDICT_ORDER, "in_progress"))}
#: What could not be looked at stands where ``unknown`` does: it may be anything.
_ORDER[NOT_SEEN] = _ORDER["unknown"]
_ORDER.update({verdict: _ORDER[before] + 0.5 for verdict, before in _SET_RANKS.items()})

_INDENT: Final = "    "
_GAP: Final = "  "
#: Sentences are this wide where nobody says how wide the paper is, and never wider than the second.
_TEXT_COLUMNS: Final = 80
_WIDEST_TEXT: Final = 120
#: The residue of what has none by its nature: a part of a store that is no model, a set.
_NO_RESIDUE: Final = "-"
#: A digest in a name, whose first digits are enough where there is no room for all.
_DIGEST: Final = re.compile(r"([0-9a-f]{12})[0-9a-f]{28,52}\Z")
#: A name is never cut shorter.
_NAME_COLUMNS: Final = 16
_TITLES: Final = ("VERDICT", "RESIDUE", "SIZE", "FILE")


@dataclass(frozen=True, slots=True)
class Remark:
    """Why a file is not simply sound; printable."""

    severity: str
    code: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Row:
    """One file, printable: ``residue`` and ``size`` in bytes, None where not known; ``name`` is its store's for it.

    ``accounted`` is false for what can have no residue.
    """

    verdict: str
    residue: int | None
    size: int | None
    path: str
    remarks: tuple[Remark, ...] = ()
    name: str = ""
    accounted: bool = True


#: Rows of each verdict that are kept.
_KEPT_ROWS: Final = 1000

#: More sound files than these are counted and not listed, if nothing else is asked for: the rest is what matters.
SOUND_ROWS: Final = 12


class Rows:
    """Rows as they come: the first of each verdict, and exact counts and sizes over all of them."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.kept: list[Row] = []
        self.counts: Counter[str] = Counter()
        #: Bytes of all files together.
        self.size = 0
        for one in rows:
            self.add(one)

    def add(self, one: Row) -> None:
        """Take one more row."""
        self.counts[one.verdict] += 1
        self.size += one.size or 0
        if self.counts[one.verdict] <= _KEPT_ROWS:
            self.kept.append(one)

    def left_out(self) -> list[str]:
        """How many rows of which verdict the table does not show."""
        more = {verdict: self.counts[verdict] - _KEPT_ROWS for verdict in _ORDER}
        return [f"{count:,} more {verdict}" for verdict, count in more.items() if count > 0]


def shown_path(artifact: Artifact) -> str:
    """The artifact's path for the eye, from its exact bytes where it is not text."""
    return printable(base64.b64decode(artifact.path_base64) if artifact.path_base64 else artifact.path)


def row(evidence: Evidence, part: str = "") -> Row:
    """What the table shows of one record; ``part`` is what the file is of the model that its store names."""
    accounting = evidence.accounting
    name = _store_name(evidence.artifact)
    return Row(
        verdict=evidence.verdict,
        residue=accounting.residue if accounting else None,
        size=evidence.artifact.size,
        path=shown_path(evidence.artifact),
        remarks=() if evidence.verdict == "sound" else _remarks(evidence),
        name=f"{name}{_shared(evidence.artifact)} ({printable(part)})" if name and part else name,
        accounted=evidence.artifact.format is not None or evidence.outcome != "complete",
    )


def _store_name(artifact: Artifact) -> str:
    """What people call the file."""
    if artifact.store is None or not artifact.names or artifact.names[0] == artifact.path:
        return ""
    return printable(artifact.names[0])


def _shared(artifact: Artifact) -> str:
    """How many other models have the same part."""
    more = artifact.names.index(artifact.path) - 1 if artifact.path in artifact.names else 0
    return f" and {more:,} more" if more > 0 else ""


def unseen_row(path: bytes, reason: str) -> Row:
    """A place that could not be looked at, and why."""
    return Row(NOT_SEEN, None, None, printable(path), (Remark("warning", NOT_SEEN, printable(reason), ""),))


def _remarks(evidence: Evidence) -> tuple[Remark, ...]:
    """The findings that make the verdict, worst first; without any, the error."""
    notable = [f for f in evidence.findings if at_least(f.severity, "notice")] or evidence.findings
    notable = sorted(notable, key=lambda finding: -SEVERITY_ORDER.index(finding.severity))
    if notable:
        return tuple(Remark(f.severity, _told_code(f), defused(f.message), defused(f.advice)) for f in notable)
    error = evidence.error
    return (Remark("warning", error.code, defused(error.message), ""),) if error else ()


def _told_code(finding: Finding) -> str:
    """The code, with the kind of a foreign file: each kind has advice of its own."""
    if finding.code != "not_a_model":
        return finding.code
    return f"{finding.code} ({printable(str(finding.actual), 40)})"


def table(
    rows: Rows,
    other_files: int,
    columns: int | None = None,
    style: Style = plain,
    *,
    list_sound: bool = True,
    sets: Rows | None = None,
) -> list[str]:
    """The whole report as lines. ``columns`` None cuts no name: the lines go to a file or a pager.

    ``sets`` stand among the files that they are made of, and are counted apart; sound ones need no line.
    """
    sets = sets or Rows()
    folded = 0 if list_sound or rows.counts["sound"] <= SOUND_ROWS else rows.counts["sound"]
    shown = (line for line in rows.kept if not folded or line.verdict != "sound")
    listed = [*shown, *(line for line in sets.kept if line.verdict != "sound")]
    ordered = sorted(listed, key=lambda line: (_ORDER[line.verdict], line.path))
    text_columns = min(columns or _TEXT_COLUMNS, _WIDEST_TEXT)
    notes = [f"{folded:,} sound files are not listed; --all lists them."] if folded else []
    more = rows.left_out()
    notes += [f"Not shown: {', '.join(more)}; --json has them all."] if more and not folded else []
    return [
        *_lines(ordered, columns, text_columns, style),
        *(line for note in notes for line in (*wrap(note, text_columns), "")),
        *wrap(_totals(rows, other_files, sets), text_columns),
    ]


def _lines(rows: list[Row], columns: int | None, text_columns: int, style: Style) -> Iterator[str]:
    if not rows:
        return
    cells = [(line.verdict, _residue(line), rounded(line.size)) for line in rows]
    widths = [max(width(cell) for cell in column) for column in zip(_TITLES[:3], *cells, strict=True)]
    name_columns = max(_NAME_COLUMNS, columns - sum(widths) - 3 * len(_GAP)) if columns else None
    yield style(_line(_TITLES, widths), "heading")
    last = ""
    for line, (verdict, residue, size) in zip(rows, cells, strict=True):
        name = _fitting(line.name or line.path, name_columns)
        text = _line((verdict, residue, size, name), widths)
        yield style(text[: len(verdict)], verdict) + text[len(verdict) :]
        if line.remarks and (line.name or name != line.path):
            yield from _whole_path(line.path, columns)
        for remark in line.remarks:
            yield from _remark(remark, text_columns, style)
        advice = _advice(line)
        if advice:
            yield from step(advice if advice != last else "as above", text_columns, _INDENT)
            last = advice
    yield ""


def _residue(line: Row) -> str:
    return signed(line.residue) if line.accounted else _NO_RESIDUE


def _fitting(name: str, cells: int | None) -> str:
    """A name in at most ``cells`` cells (None: any number): a digest loses its end first, the name its begin."""
    if cells is None or width(name) <= cells:
        return name
    return cut_left(_DIGEST.sub(rf"\1{ELLIPSIS}", name), cells)


def _whole_path(path: str, columns: int | None) -> Iterator[str]:
    """Where the file is, on as many lines as it takes: whoever acts upon a finding needs all of it."""
    yield from (_INDENT + line for line in ([path] if columns is None else wrap(path, columns - len(_INDENT))))


def _line(cells: tuple[str, str, str, str], widths: list[int]) -> str:
    verdict, residue, size, name = cells
    return _GAP.join((left(verdict, widths[0]), right(residue, widths[1]), right(size, widths[2]), name))


def _remark(remark: Remark, columns: int, style: Style) -> Iterator[str]:
    first, *others = wrap(f"{remark.code}: {remark.message}", columns - len(_INDENT))
    yield _INDENT + style(first[: len(remark.code)], remark.severity) + first[len(remark.code) :]
    yield from (_INDENT + line for line in others)


def _advice(line: Row) -> str:
    """What to do about the worst of a file's findings; the others have theirs in its own report."""
    return next((remark.advice for remark in line.remarks if remark.advice), "")


def _counts(rows: Rows) -> str:
    """How many of which verdict, the worst first: ``: 1 truncated, 2 sound``."""
    verdicts = sorted((verdict for verdict in rows.counts if verdict != NOT_SEEN), key=_ORDER.__getitem__)
    listed = ", ".join(f"{rows.counts[verdict]:,} {verdict}" for verdict in verdicts)
    return f": {listed}" if listed else ""


def _totals(rows: Rows, other_files: int, sets: Rows) -> str:
    unseen = rows.counts[NOT_SEEN]
    seen = rows.counts.total() - unseen
    parts = [
        f"{counted(seen, 'file')}, {rounded(rows.size)}{_counts(rows)}",
        f"{counted(sets.counts.total(), 'set')}{_counts(sets)}" if sets.counts else "",
        f"{unseen:,} not seen" if unseen else "",
        counted(other_files, "other file") if other_files else "",
    ]
    return "; ".join(filter(None, parts))
