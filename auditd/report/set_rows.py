"""Sets for a person: a row in the table of many files, and a set by itself."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Final

from auditd.evidence.record import Finding
from auditd.evidence.text import printable
from auditd.model_sets.record import MissingRow, SetEvidence, SetMemberRow, SetName
from auditd.report.columns import defused, wrap
from auditd.report.figures import UNKNOWN, counted, rounded
from auditd.report.finding_lines import step
from auditd.report.style import Style, plain
from auditd.report.table import Remark, Row
from auditd.rules.findings import SEVERITY_ORDER, at_least
from auditd.rules.set_findings import SET_VERDICT_MEANINGS

_COLUMNS: Final = 80
_INDENT: Final = "    "
#: Kinds whose sets have names of their own, by which people know them.
_NAMED: Final = frozenset({"ollama_model", "hf_snapshot"})
#: Names of a kind that are listed for a person.
_LISTED: Final = 20


def set_row(evidence: SetEvidence) -> Row:
    """What the table shows of a set. ``size`` is that of its members, which have rows of their own."""
    return Row(
        verdict=evidence.verdict,
        residue=None,
        size=_size(evidence),
        path=f"{set_path(evidence)} ({members(evidence)})",
        remarks=() if evidence.verdict == "sound" else tuple(map(_remark, _notable(evidence))),
        accounted=False,
    )


def set_path(evidence: SetEvidence) -> str:
    """What the set is called, for the eye: a store's own name, else the names of its files with their directory."""
    part = evidence.set
    return printable(part.name) if part.kind in _NAMED else f"{_directory(evidence).rstrip('/')}/{printable(part.name)}"


def _directory(evidence: SetEvidence) -> str:
    part = evidence.set
    return printable(base64.b64decode(part.directory_base64) if part.directory_base64 else part.directory)


def members(evidence: SetEvidence) -> str:
    """``2 of 3 members``."""
    totals = evidence.set.totals
    found, declared = totals.found.members, totals.declared.members
    if found is None and evidence.set.members is not None:
        found = sum(row.present for row in evidence.set.members)
    if declared is None and found is not None and evidence.set.missing_count:
        declared = found + evidence.set.missing_count
    if declared is None:
        return counted(found, "member")
    return f"{UNKNOWN if found is None else f'{found:,}'} of {counted(declared, 'member')}"


def _size(evidence: SetEvidence) -> int | None:
    sizes = [row.size for row in evidence.set.members or () if row.present]
    return None if evidence.set.members is None or None in sizes else sum(size or 0 for size in sizes)


def _notable(evidence: SetEvidence) -> list[Finding]:
    """The findings that make the verdict, worst first."""
    notable = [finding for finding in evidence.findings if at_least(finding.severity, "notice")] or evidence.findings
    return sorted(notable, key=lambda finding: -SEVERITY_ORDER.index(finding.severity))


def _remark(finding: Finding) -> Remark:
    return Remark(finding.severity, finding.code, defused(finding.message), defused(finding.advice))


def set_page(evidence: SetEvidence, columns: int = _COLUMNS, style: Style = plain) -> list[str]:
    """One set by itself: its verdict, its members, what is missing, what is wrong and what to do."""
    part = evidence.set
    verdict = style(evidence.verdict, evidence.verdict)
    lines = [
        f"{verdict}: {SET_VERDICT_MEANINGS[evidence.verdict]}",
        "",
        f"set         {set_path(evidence)}",
        *([f"in          {_directory(evidence)}"] if part.kind in _NAMED else []),
        f"members     {members(evidence)}, {rounded(_size(evidence))}",
        *_rows("", map(_member, part.members or ())),
        *_rows("missing", map(_missing, part.missing or ()), part.missing_count),
        *_rows("under way", map(_exact, part.unfinished or ())),
        *_rows("stray", map(_exact, part.stray or ()), part.stray_count),
        *_rows("stale", map(_exact, part.stale or ())),
    ]
    for finding in evidence.findings:
        text = f"{finding.code}: {defused(finding.message)}"
        lines += ["", *wrap(text, columns), *step(defused(finding.advice), columns, _INDENT)]
    return lines


def _rows(title: str, names: Iterable[str], count: int = 0) -> Iterator[str]:
    """The first names of a kind, one a line, and how many more of ``count`` there are."""
    listed = list(names)
    for at, name in enumerate(listed[:_LISTED]):
        yield f"{'' if at else title:<12}{name}"
    more = max(count, len(listed)) - min(len(listed), _LISTED)
    if more and listed:
        yield f"{'':<12}and {more:,} more"


def _exact(row: SetName | MissingRow | SetMemberRow) -> str:
    return printable(base64.b64decode(row.name_base64) if row.name_base64 else row.name)


def _missing(row: MissingRow) -> str:
    size = "" if row.size is None else f", {rounded(row.size)}"
    digest = "" if row.digest is None else f", {printable(row.digest)}"
    return _exact(row) + size + digest + (", a link that leads to nothing" if row.dangling else "")


def _member(row: SetMemberRow) -> str:
    verdict = "not inspected" if row.verdict is None else row.verdict
    return f"{_exact(row)}  {rounded(row.size)}  {verdict}"
