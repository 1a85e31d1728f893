"""What the assessments of all kinds of sets share: rows of members, sums, and what is said of any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from auditd.evidence.record import Verdict
from auditd.evidence.text import quoted
from auditd.formats.uniqueness import Seen
from auditd.model_sets.candidate import Entry
from auditd.model_sets.facts import LISTED, MissingMember, SetLimit, SetMember, SetRemark
from auditd.model_sets.members import MemberFacts
from auditd.model_sets.names import Series

#: Facts by the name that the set has for the file.
Members: TypeAlias = Mapping[bytes, MemberFacts]

#: Called before each member that is gone through; what it raises ends the work.
Pause: TypeAlias = Callable[[], None]

#: Verdicts that say nothing against a file.
_GOOD: Final[frozenset[Verdict]] = frozenset({"sound", "notice", "undetermined", "in_progress"})

#: Verdicts of a file that has the name of a member and is none.
_ABSENT: Final[frozenset[Verdict]] = frozenset({"foreign", "in_progress"})

#: Names that a message lists.
_NAMED: Final = 3


def some(names: Sequence[bytes], count: int | None = None) -> str:
    """The first names for a message, and how many more there are of ``count``."""
    more = (len(names) if count is None else count) - min(len(names), _NAMED)
    shown = ", ".join(quoted(name) for name in names[:_NAMED])
    return f"{shown} and {more:,} more" if more else shown


def listed(names: Iterable[bytes]) -> tuple[bytes, ...]:
    """The names that facts keep."""
    return tuple(islice(names, LISTED))


def total(figures: Iterable[int | None]) -> int | None:
    """The sum, None as soon as one figure is not known."""
    known = list(figures)
    return None if None in known else sum(figure for figure in known if figure is not None)


def member(entry: Entry, facts: MemberFacts | None, number: int | None = None) -> SetMember:
    """The row of one file; a page in a member's place, or a download that is not finished, is not the member."""
    return SetMember(
        name=entry.name,
        path=entry.path,
        size=entry.size,
        present=not entry.dangling and (facts is None or facts.verdict not in _ABSENT),
        number=entry.number if number is None else number,
        tensors=None if facts is None else facts.tensors,
        verdict=None if facts is None else facts.verdict,
        evidence_id=None if facts is None else facts.evidence_id,
    )


def missing_numbers(
    series: Series, entries: Sequence[Entry], here: set[int], count: int
) -> tuple[tuple[MissingMember, ...], int]:
    """The first numbers from 1 to ``count`` that are not here, and how many they are; a huge count takes no time."""
    gone = max(0, count - sum(1 <= number <= count for number in here))
    by_number = {entry.number: entry for entry in entries}
    missing = []
    for number in islice((number for number in range(1, count + 1) if number not in here), min(gone, LISTED)):
        entry = by_number.get(number)
        name = series.member(number, count) if entry is None else entry.name
        missing.append(MissingMember(name, dangling=entry is not None and entry.dangling))
    return tuple(missing), gone


def of_members(members: Sequence[SetMember]) -> Iterator[SetRemark]:
    """That members are not good by themselves, in one remark."""
    bad = [one for one in members if one.verdict is not None and one.verdict not in _GOOD]
    if bad:
        others = f" and {len(bad) - 1:,} more" if len(bad) > 1 else ""
        message = f"{quoted(bad[0].name)} is {bad[0].verdict}{others}"
        yield SetRemark("set_member_unsound", message, subject=subject_of(members, bad[0]), count=len(bad))


def subject_of(members: Sequence[SetMember], one: SetMember) -> str:
    """The place of a member's row in the record."""
    return f"set.members[{members.index(one)}]"


def unknown_members(members: Sequence[SetMember], facts: Members) -> Iterator[SetLimit]:
    """Members whose header is not known, and those whose tensors' names are not."""
    unseen = [one.name for one in members if one.present and one.name not in facts]
    if unseen:
        message = "these members have no record, so nothing but their names is known of them"
        yield SetLimit("member_not_inspected", message, listed(unseen), len(unseen))
    unnamed = [one.name for one in members if one.present and one.name in facts and facts[one.name].names is None]
    if unnamed:
        message = "the tensors' names of these members are not known: the header is not whole, or not all was kept"
        yield SetLimit("tensor_names_unknown", message, listed(unnamed), len(unnamed))


def repeated(members: Sequence[SetMember], facts: Members, pause: Pause) -> Iterator[SetRemark]:
    """Tensors that stand in two members, in one remark."""
    seen, count, first = Seen(), 0, None
    for one, name in _names(members, facts, pause):
        if not seen.add(name):
            count += 1
            first = first or (one, name)
    if first is not None:
        holder = next(one for one, name in _names(members, facts, pause) if name == first[1])
        message = f"the tensor {quoted(first[1])} is in {quoted(holder.name)} and in {quoted(first[0].name)}"
        more = f", and {count - 1:,} more are in two members" if count > 1 else ""
        yield SetRemark("set_tensor_repeated", message + more, subject=subject_of(members, first[0]), count=count)


def _names(members: Sequence[SetMember], facts: Members, pause: Pause) -> Iterator[tuple[SetMember, bytes]]:
    """Each member's tensors' names, each once: twice in one file is a fault of that file."""
    for one in members:
        pause()
        known = facts.get(one.name)
        if one.present and known is not None and known.names is not None:
            for name in dict.fromkeys(known.names):
                yield one, name
