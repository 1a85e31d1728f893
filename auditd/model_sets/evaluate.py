"""What is wrong or notable with a set: findings from its facts, whoever found them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from auditd.model_sets.facts import MissingMember, SetFacts, SetRemark
from auditd.model_sets.parts import some
from auditd.rules.findings import SEVERITY_ORDER
from auditd.rules.set_findings import SET_FINDINGS

#: Reasons that one finding tells; its count is exact.
_REASONS: Final = 3


def evaluate_set(facts: SetFacts) -> list[SetRemark]:
    """Every finding of a set, one for a code, worst first. One that is still being written has only that finding."""
    if facts.in_progress:
        return [SetRemark("set_unfinished", _progress(facts))]
    found = [*_missing(facts), *_stale(facts), *_stray(facts), *facts.remarks]
    by_code: dict[str, list[SetRemark]] = {}
    for remark in found:
        by_code.setdefault(remark.code, []).append(remark)
    return sorted((_merged(remarks) for remarks in by_code.values()), key=_rank)


def _rank(remark: SetRemark) -> int:
    return -SEVERITY_ORDER.index(SET_FINDINGS[remark.code].severity)


def _merged(remarks: Sequence[SetRemark]) -> SetRemark:
    """One finding of several with the same code: the reasons together, the rest from the first."""
    first = remarks[0]
    message = "; ".join(remark.message for remark in remarks[:_REASONS])
    count = sum(remark.count for remark in remarks)
    return SetRemark(first.code, message, first.subject, first.expected, first.actual, count)


def _progress(facts: SetFacts) -> str:
    parts = [_members(facts)]
    if facts.unfinished:
        parts.append(f"under way: {some(facts.unfinished)}")
    return "; ".join(parts)


def _members(facts: SetFacts) -> str:
    """``2 of 3 members are here``."""
    found, declared = members_found(facts), members_declared(facts)
    of = "" if declared is None else f" of {declared:,}"
    return f"{found:,}{of} {'member is' if found == 1 and not of else 'members are'} here"


def members_found(facts: SetFacts) -> int:
    """How many members are there."""
    if facts.found.members is not None:
        return facts.found.members
    return sum(one.present for one in facts.members)


def members_declared(facts: SetFacts) -> int | None:
    """How many members the set should have, None where nobody says."""
    if facts.declared.members is not None:
        return facts.declared.members
    return members_found(facts) + facts.all_missing if facts.all_missing else None


def _missing(facts: SetFacts) -> Iterator[SetRemark]:
    dangling = [one for one in facts.missing if one.dangling]
    plain = [one for one in facts.missing if not one.dangling]
    count, declared = facts.all_missing - len(dangling), members_declared(facts)
    tensors = _missing_tensors(facts)
    if count > 0:
        words = "is missing" if count == 1 else "are missing"
        message = "; ".join(filter(None, (_lost(plain, count, words, declared), tensors)))
        subject = f"set.missing[{facts.missing.index(plain[0])}]" if plain else None
        yield SetRemark("set_incomplete", message, subject, expected=declared, actual=members_found(facts), count=count)
    elif facts.all_missing_tensors:
        subject = "set.missing_tensors[0]" if facts.missing_tensors else None
        figures = facts.declared.tensors, facts.found.tensors
        yield SetRemark("set_incomplete", tensors, subject, *figures, count=facts.all_missing_tensors)
    if dangling:
        words = "is a link that leads to nothing" if len(dangling) == 1 else "are links that lead to nothing"
        subject = f"set.missing[{facts.missing.index(dangling[0])}]"
        message = _lost(dangling, len(dangling), words, declared)
        yield SetRemark("missing_target", message, subject, count=len(dangling))


def _lost(named: Sequence[MissingMember], count: int, what: str, declared: int | None) -> str:
    """``1 of 3 members is missing: "b.gguf" (96 bytes)``."""
    of = "" if declared is None else f" of {declared:,}"
    words = f"{count:,}{of} member{'' if (declared or count) == 1 else 's'} {what}"
    if not named:
        return words
    size = f" ({named[0].size:,} bytes)" if count == 1 and named[0].size is not None else ""
    return f"{words}: {some([one.name for one in named], count)}{size}"


def _missing_tensors(facts: SetFacts) -> str:
    """How many tensors are here, and which are not in their member though the member is here; nothing if none is lost."""
    declared, found, lost = facts.declared.tensors, facts.found.tensors, facts.all_missing_tensors
    named = f": {some(facts.missing_tensors, lost)}" if facts.missing_tensors else ""
    if declared is not None and found is not None and found < declared:
        return f"{found:,} of {declared:,} tensors are here" + (f"; not where they should be{named}" if named else "")
    if not lost:
        return ""
    return f"{lost:,} {'tensor is' if lost == 1 else 'tensors are'} not where the set says{named}"


def _stale(facts: SetFacts) -> Iterator[SetRemark]:
    """What is stale, unless a remark tells it already."""
    if facts.stale and not any(remark.code == "set_stale" for remark in facts.remarks):
        message = f"left over from an earlier state: {some(facts.stale)}"
        yield SetRemark("set_stale", message, "set.stale[0]", count=len(facts.stale))


def _stray(facts: SetFacts) -> Iterator[SetRemark]:
    if facts.stray:
        count = facts.all_stray
        words = "file beside the set is" if count == 1 else "files beside the set are"
        message = f"{count:,} {words} named by nothing: {some(facts.stray, count)}"
        yield SetRemark("set_stray", message, "set.stray[0]", count=count)
