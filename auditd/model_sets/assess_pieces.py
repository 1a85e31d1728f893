"""Pieces of one GGUF file that was cut without regard to its content: no model before they are joined.

Their names say so, or only the first of numbered files has a header, and that speaks of more bytes than it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from auditd.evidence.text import exact
from auditd.model_sets.candidate import Entry, Numbered, SplitCandidate
from auditd.model_sets.facts import SetFacts, SetFigures, SetRemark
from auditd.model_sets.parts import Members, member, missing_numbers, some, total


def are_pieces(numbered: Numbered, members: Members) -> bool:
    """Whether the first file is a GGUF file cut short and no other has a header."""
    first, *others = numbered.entries
    facts = members.get(first.name)
    if not others or first.number != 1 or facts is None or facts.verdict != "truncated":
        return False
    if facts.split is not None and not facts.split.alone:
        return False
    known = [members.get(entry.name) for entry in others]
    return all(one is not None and one.foreign for one in known)


def assess_pieces(candidate: SplitCandidate, numbered: Numbered, members: Members, *, standing_still: bool) -> SetFacts:
    """The set of pieces: whether they are all there, and have the bytes that the header in the first one asks for."""
    entries = numbered.entries
    count = numbered.series.count or max(entry.number or 0 for entry in entries)
    rows = tuple(member(entry, None) for entry in entries)
    missing, missing_count = missing_numbers(
        numbered.series, entries, {row.number or 0 for row in rows if row.present}, count
    )
    first = members.get(entries[0].name) if entries[0].number == 1 else None
    size, wanted = total(entry.size for entry in entries), None if first is None else first.data_end
    short = not missing_count and wanted is not None and size is not None and size < wanted
    remarks = [SetRemark("set_raw_pieces", _piece_words(entries))]
    if short:
        message = f"joined, the pieces have {size:,} bytes, and the header in the first one asks for {wanted:,}"
        remarks.append(SetRemark("set_incomplete", message, expected=wanted, actual=size))
    unfinished = bool(candidate.unfinished)
    return SetFacts(
        kind="gguf_split",
        name=exact(numbered.series.label)[0],
        directory=candidate.directory,
        members=rows,
        missing=missing,
        missing_count=missing_count,
        declared=SetFigures(members=count, size=wanted),
        found=SetFigures(members=sum(row.present for row in rows), size=size),
        in_progress=(missing_count > 0 or short) and (unfinished or not standing_still),
        unfinished=candidate.unfinished,
        remarks=tuple(remarks),
    )


def _piece_words(entries: Sequence[Entry]) -> str:
    names = [entry.name for entry in entries]
    return f"{some(names)}: one file cut into pieces; it is a model again when they are joined, and no piece is before"
