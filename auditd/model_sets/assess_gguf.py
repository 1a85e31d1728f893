"""GGUF splits: which members there are, by their headers first and their names second.

Names count from 1, ``split.no`` from 0. A file without ``split.count``, or with 1 there, stands alone whatever its
name; one that holds as many tensors as the whole set has is whole, and its key is stale. Pieces of one file have
``set_assess_pieces``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from auditd.evidence.text import exact, quoted
from auditd.model_sets.assess_pieces import are_pieces, assess_pieces
from auditd.model_sets.candidate import Entry, Numbered, SplitCandidate
from auditd.model_sets.facts import SetFacts, SetFigures, SetMember, SetRemark
from auditd.model_sets.members import MemberFacts, Split
from auditd.model_sets.names import Series
from auditd.model_sets.parts import (
    Members,
    Pause,
    listed,
    member,
    missing_numbers,
    of_members,
    repeated,
    total,
    unknown_members,
)


def assess_split(candidate: SplitCandidate, members: Members, *, standing_still: bool, pause: Pause) -> SetFacts | None:
    """The set, or None where the headers say that every file stands alone."""
    if candidate.numbered is None:
        return None if candidate.lone is None else _lone(candidate, candidate.lone, members)
    if candidate.numbered.series.kind == "pieces" or are_pieces(candidate.numbered, members):
        return assess_pieces(candidate, candidate.numbered, members, standing_still=standing_still)
    sorts = _Sorts.of(candidate.numbered.entries, members)
    if sorts.alone and not sorts.parts and not sorts.stale:
        return None
    if not sorts.parts and (sorts.stale or (candidate.numbered.series.count or 0) <= 1):
        return _only_stale(candidate, candidate.numbered.series.label, sorts.stale, members) if sorts.stale else None
    return _shards(candidate, candidate.numbered, sorts, members, standing_still=standing_still, pause=pause)


# -- what each file is ------------------------------------------------------------------------------


def _holds_all(facts: MemberFacts) -> bool:
    """Whether the file has every tensor of the set that its keys speak of."""
    wanted = facts.split.tensors if facts.split is not None else None
    return bool(wanted) and wanted is not None and facts.tensors is not None and facts.tensors >= wanted


@dataclass(frozen=True, slots=True)
class _Sorts:
    """The files by what their headers say: ``parts`` of a set, ``alone``, whole with a ``stale`` key, or not known."""

    parts: tuple[Entry, ...]
    alone: tuple[Entry, ...]
    stale: tuple[Entry, ...]
    unknown: tuple[Entry, ...]

    @classmethod
    def of(cls, entries: Sequence[Entry], members: Members) -> _Sorts:
        sorts: dict[str, list[Entry]] = {"parts": [], "alone": [], "stale": [], "unknown": []}
        for entry in entries:
            sorts[_sort(members.get(entry.name))].append(entry)
        return cls(**{name: tuple(found) for name, found in sorts.items()})


def _sort(facts: MemberFacts | None) -> str:
    if facts is None or facts.split is None:
        return "unknown"
    if facts.split.alone:
        return "alone"
    return "stale" if _holds_all(facts) else "parts"


# -- whole files ------------------------------------------------------------------------------------


def _only_stale(candidate: SplitCandidate, name: bytes, entries: Sequence[Entry], members: Members) -> SetFacts:
    rows = tuple(member(entry, members.get(entry.name)) for entry in entries)
    tensors = total(row.tensors for row in rows)
    return SetFacts(
        kind="gguf_split",
        name=exact(name)[0],
        directory=candidate.directory,
        members=rows,
        stale=listed(entry.name for entry in entries),
        declared=SetFigures(members=len(rows), tensors=tensors),
        found=SetFigures(members=len(rows), tensors=tensors),
        remarks=(_stale_key(entries, members), *of_members(rows)),
        limits=tuple(unknown_members(rows, members)),
    )


def _stale_key(entries: Sequence[Entry], members: Members) -> SetRemark:
    first = entries[0]
    split = members[first.name].split or Split()
    message = (
        f"{quoted(first.name)} says that it is one of {split.count} files and holds all {split.tensors} tensors: it is "
        "whole, and split.count is left over from the files that it was made of"
    )
    return SetRemark("set_stale", message, subject="set.stale[0]", actual=split.count, count=len(entries))


def _lone(candidate: SplitCandidate, entry: Entry, members: Members) -> SetFacts | None:
    """A file that speaks of others under a name that does not say what they are called."""
    facts = members.get(entry.name)
    if facts is None or facts.split is None or facts.split.alone:
        return None
    if _holds_all(facts):
        return _only_stale(candidate, entry.name, [entry], members)
    split = facts.split
    place = "one" if split.number is None else f"number {split.number + 1}"
    message = (
        f"{quoted(entry.name)} says that it is {place} of {split.count} files, and its name does not say what the others "
        "are called (NAME-00001-of-00003.gguf does)"
    )
    rows = (member(entry, facts, None if split.number is None else split.number + 1),)
    return SetFacts(
        kind="gguf_split",
        name=exact(entry.name)[0],
        directory=candidate.directory,
        members=rows,
        missing_count=(split.count or 1) - 1,
        declared=SetFigures(members=split.count, tensors=split.tensors),
        found=SetFigures(members=1, tensors=facts.tensors),
        remarks=(SetRemark("set_contradictory", message, subject="set.members[0]"), *of_members(rows)),
    )


# -- shards -----------------------------------------------------------------------------------------


def _shards(
    candidate: SplitCandidate,
    numbered: Numbered,
    sorts: _Sorts,
    members: Members,
    *,
    standing_still: bool,
    pause: Pause,
) -> SetFacts:
    splits = [facts.split for entry in sorts.parts if (facts := members[entry.name]).split is not None]
    count = _agreed(split.count for split in splits) or numbered.series.count or 0
    rows = _rows((*sorts.parts, *sorts.unknown), members)
    here = {row.number for row in rows if row.present and row.number is not None}
    missing, missing_count = missing_numbers(numbered.series, numbered.entries, here, count)
    wanted = _agreed(split.tensors for split in splits)
    found = total(row.tensors for row in rows if row.present)
    lost = wanted - found if not missing_count and wanted is not None and found is not None else 0
    return SetFacts(
        kind="gguf_split",
        name=exact(numbered.series.label)[0],
        directory=candidate.directory,
        members=rows,
        missing=missing,
        missing_count=missing_count,
        stray=listed(entry.name for entry in sorts.alone),
        stale=listed(entry.name for entry in sorts.stale),
        declared=SetFigures(members=count, tensors=wanted),
        found=SetFigures(members=len({number for number in here if 1 <= number <= count}), tensors=found),
        in_progress=(missing_count > 0 or lost > 0) and (bool(candidate.unfinished) or not standing_still),
        unfinished=candidate.unfinished,
        missing_tensor_count=max(0, lost),
        remarks=tuple(_remarks(numbered.series, sorts, rows, count, wanted, found, members, pause)),
        limits=tuple(unknown_members(rows, members)),
    )


def _rows(entries: Iterable[Entry], members: Members) -> tuple[SetMember, ...]:
    """The rows in the order of their numbers."""
    rows = (_row(entry, members) for entry in entries)
    return tuple(sorted(rows, key=lambda row: (row.number or 0, row.name)))


def _row(entry: Entry, members: Members) -> SetMember:
    facts = members.get(entry.name)
    split = facts.split if facts is not None else None
    number = None if split is None or split.number is None else split.number + 1
    return member(entry, facts, number)


def _agreed(values: Iterable[int | None]) -> int | None:
    """What most say, of equals the least."""
    votes = Counter(value for value in values if value is not None)
    return min(votes, key=lambda value: (-votes[value], value), default=None)


def _remarks(
    series: Series,
    sorts: _Sorts,
    rows: Sequence[SetMember],
    count: int,
    wanted: int | None,
    found: int | None,
    members: Members,
    pause: Pause,
) -> Iterator[SetRemark]:
    yield from _contradictions(series, rows, count, members)
    if wanted is not None and found is not None and found > wanted:
        message = f"the members hold {found} tensors, and their keys say {wanted} for all of them"
        yield SetRemark("set_contradictory", message, expected=wanted, actual=found)
    first = next((row for row in rows if row.number == 1 and row.present), None)
    if first is not None and first.name in members and members[first.name].architecture is False:
        yield SetRemark("set_architecture_absent", f"{quoted(first.name)} has no general.architecture")
    if sorts.stale:
        yield _stale_key(sorts.stale, members)
    yield from repeated(rows, members, pause)
    yield from of_members(rows)


def _contradictions(series: Series, rows: Sequence[SetMember], count: int, members: Members) -> Iterator[SetRemark]:
    """Each way in which members disagree, with the first that does."""
    splits = [(row, split) for row in rows if row.name in members and (split := members[row.name].split) is not None]
    if series.count != count:
        message = f"the names say {series.count} files, the headers {count}"
        yield SetRemark("set_contradictory", message, expected=series.count, actual=count)
    yield from _differing([(row, split.count) for row, split in splits], "split.count")
    yield from _differing([(row, split.tensors) for row, split in splits], "split.tensors.count")
    yield from _same_number([row for row, split in splits if split.number is not None])
    for row, _ in splits:
        named = series.member(row.number or 0, series.count)
        if row.number is not None and (row.number > count or named != row.name):
            message = f"{quoted(row.name)} says that it is number {row.number} of {count}"
            yield SetRemark("set_contradictory", message, actual=row.number)
            break


def _differing(values: Sequence[tuple[SetMember, int | None]], key: str) -> Iterator[SetRemark]:
    agreed = _agreed(value for _, value in values)
    other = [(row, value) for row, value in values if value != agreed]
    if other:
        row, value = other[0]
        said = "has none" if value is None else f"says {value}"
        message = f"{key} is {agreed} in most members, and {quoted(row.name)} {said}"
        yield SetRemark("set_contradictory", message, expected=agreed, actual=value, count=len(other))


def _same_number(rows: Sequence[SetMember]) -> Iterator[SetRemark]:
    """Two members that say they are the same one; ``rows`` stand in the order of their numbers."""
    same = [(one, two) for one, two in pairwise(rows) if one.number == two.number]
    if same:
        one, two = same[0]
        message = f"{quoted(one.name)} and {quoted(two.name)} both say that they are number {one.number}"
        yield SetRemark("set_contradictory", message, actual=one.number, count=len(same))
