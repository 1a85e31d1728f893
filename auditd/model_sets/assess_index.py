"""Sharded safetensors files: what the index says against what the files hold.

Every file of the index is there, every tensor of the map is in its file, and every tensor of a file in the map. An
index whose files are gone beside a series that is whole and holds its tensors speaks of an earlier sharding. Without an
index the numbers in the names say what belongs together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from auditd.evidence.text import exact, quoted
from auditd.formats.uniqueness import Seen
from auditd.model_sets.candidate import Entry, IndexCandidate, Rival
from auditd.model_sets.facts import LISTED, MissingMember, SetFacts, SetFigures, SetMember, SetRemark
from auditd.model_sets.index import Index
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


def assess_index(candidate: IndexCandidate, members: Members, *, standing_still: bool, pause: Pause) -> SetFacts | None:
    """The set, or None for a single file that needs no index."""
    moving = bool(candidate.unfinished) or not standing_still
    if candidate.source is None:
        return _without_index(candidate, members, moving=moving, pause=pause)
    if candidate.index is None:
        return _unusable(candidate, members, moving=moving, pause=pause)
    rows = tuple(member(entry, members.get(entry.name)) for entry in candidate.named)
    missing = _missing_files(candidate.index, rows, candidate.named)
    if missing:
        for rival in candidate.rivals:
            if rival.whole and _covers(rival, candidate.index, members):
                return _stale(candidate, candidate.index, rival, len(missing), members, pause)
    return _indexed(candidate, candidate.index, rows, missing, members, moving=moving, pause=pause)


def _name(candidate: IndexCandidate) -> str:
    if candidate.source is not None:
        return exact(candidate.source.rpartition(b"/")[2])[0]
    return exact(candidate.series.label)[0] if candidate.series is not None else ""


# -- with an index ----------------------------------------------------------------------------------


def _missing_files(index: Index, rows: Sequence[SetMember], named: Sequence[Entry]) -> list[MissingMember]:
    here = {row.name for row in rows if row.present}
    dangling = {entry.name for entry in named if entry.dangling}
    return [MissingMember(file, dangling=file in dangling) for file in sorted(index.files) if file not in here]


@dataclass(slots=True)
class _Comparison:
    """The map against the headers: counts, and the first names."""

    found: int = 0
    unknown: bool = False
    missing: list[bytes] = field(default_factory=list)
    missing_count: int = 0
    extra: tuple[bytes, bytes] | None = None
    extra_count: int = 0

    def compare(self, file: bytes, mapped: set[bytes], held: set[bytes]) -> None:
        """Take one file that is there: the names that the index has for it and those that it has."""
        absent = mapped - held
        self.found += len(mapped) - len(absent)
        if absent:
            self.missing_count += len(absent)
            self.missing += islice(sorted(absent), LISTED - len(self.missing))
        unnamed = held - mapped
        if unnamed:
            self.extra = self.extra or (min(unnamed), file)
            self.extra_count += len(unnamed)


def _compare(index: Index, rows: Sequence[SetMember], members: Members, pause: Pause) -> _Comparison:
    """Compare file by file, so that the names of one file at a time are in memory."""
    result = _Comparison()
    for row in rows:
        pause()
        facts = members.get(row.name)
        if not row.present:
            continue
        if facts is None or facts.names is None:
            result.unknown = True
        else:
            result.compare(row.name, set(index.files[row.name]), set(facts.names))
    return result


def _indexed(
    candidate: IndexCandidate,
    index: Index,
    rows: tuple[SetMember, ...],
    missing: Sequence[MissingMember],
    members: Members,
    *,
    moving: bool,
    pause: Pause,
) -> SetFacts:
    compared = _compare(index, rows, members, pause)
    size = total(members[row.name].tensor_bytes if row.name in members else None for row in rows if row.present)
    strays = sorted([*candidate.strays, *(entry.name for rival in candidate.rivals for entry in rival.entries)])
    # Where every file holds what the map gives it and no more, no tensor can be in two of them.
    twice = repeated(rows, members, pause) if compared.extra_count else ()
    return SetFacts(
        kind="safetensors_index",
        name=_name(candidate),
        directory=candidate.directory,
        members=rows,
        missing=tuple(missing[:LISTED]),
        missing_count=len(missing),
        stray=listed(strays),
        stray_count=len(strays),
        declared=SetFigures(members=len(index.files), tensors=index.tensors, size=index.total_size),
        found=SetFigures(sum(row.present for row in rows), None if compared.unknown else compared.found, size),
        in_progress=moving and bool(missing or compared.missing_count),
        source=candidate.source,
        unfinished=candidate.unfinished,
        missing_tensors=tuple(compared.missing),
        missing_tensor_count=compared.missing_count,
        remarks=(*_extra(compared), *_total(index, size, missing, compared), *twice, *of_members(rows)),
        limits=tuple(unknown_members(rows, members)),
    )


def _extra(compared: _Comparison) -> Iterator[SetRemark]:
    if compared.extra is not None:
        name, file = compared.extra
        message = f"the index does not give the tensor {quoted(name)} to {quoted(file)}, which holds it"
        more = f"; so with {compared.extra_count - 1:,} more" if compared.extra_count > 1 else ""
        yield SetRemark("set_not_indexed", message + more, count=compared.extra_count)


def _total(
    index: Index, size: int | None, missing: Sequence[MissingMember], compared: _Comparison
) -> Iterator[SetRemark]:
    """The total against the sum, where the files hold the tensors of the map and no others."""
    comparable = not (missing or compared.missing_count or compared.extra_count or compared.unknown)
    if comparable and size is not None and index.total_size is not None and size != index.total_size:
        message = f"the index says {index.total_size:,} bytes for all tensors, and they have {size:,}"
        yield SetRemark("set_total_differs", message, expected=index.total_size, actual=size)


# -- an index of another sharding -------------------------------------------------------------------


def _covers(rival: Rival, index: Index, members: Members) -> bool:
    """Whether the files hold every tensor that the index names, as far as their names are known."""
    known = [members.get(entry.name) for entry in rival.entries]
    if any(facts is None or facts.names is None for facts in known):
        return True
    held = Seen()
    for facts in known:
        for name in (facts.names if facts is not None else None) or ():
            held.add(name)
    return all(name in held for name in chain.from_iterable(index.files.values()))


def _stale(
    candidate: IndexCandidate, index: Index, rival: Rival, gone: int, members: Members, pause: Pause
) -> SetFacts:
    rows = tuple(member(entry, members.get(entry.name)) for entry in rival.entries)
    source = (candidate.source or b"").rpartition(b"/")[2]
    others = [entry.name for other in candidate.rivals if other is not rival for entry in other.entries]
    strays = sorted([*candidate.strays, *others, *(entry.name for entry in candidate.named)])
    files, tensors = len(index.files), total(row.tensors for row in rows)
    message = (
        f"{quoted(source)} names {files:,} files, of which {gone:,} are not here, and the {len(rows):,} files "
        f"{quoted(rival.label)} are whole among themselves: the index is of another sharding"
    )
    return SetFacts(
        kind="safetensors_index",
        name=_name(candidate),
        directory=candidate.directory,
        members=rows,
        stray=listed(strays),
        stray_count=len(strays),
        stale=(source,),
        declared=SetFigures(members=len(rows), tensors=index.tensors),
        found=SetFigures(members=len(rows), tensors=tensors),
        source=candidate.source,
        remarks=(
            SetRemark("set_stale", message, subject="set.stale[0]", expected=len(rows), actual=files),
            *repeated(rows, members, pause),
            *of_members(rows),
        ),
        limits=tuple(unknown_members(rows, members)),
    )


# -- without one ------------------------------------------------------------------------------------


def _without_index(candidate: IndexCandidate, members: Members, *, moving: bool, pause: Pause) -> SetFacts | None:
    count = 0 if candidate.series is None else candidate.series.count or 0
    if count <= 1:
        return None
    message = f"the files are numbered to {count:,}, and no index says which tensor is where"
    return _bare(candidate, SetRemark("set_index_absent", message), members, moving=moving, pause=pause)


def _unusable(candidate: IndexCandidate, members: Members, *, moving: bool, pause: Pause) -> SetFacts:
    source = (candidate.source or b"").rpartition(b"/")[2]
    message = f"{quoted(source)} cannot be used: {candidate.problem}"
    return _bare(
        candidate, SetRemark("set_index_unusable", message, subject="set.source"), members, moving=moving, pause=pause
    )


def _bare(candidate: IndexCandidate, remark: SetRemark, members: Members, *, moving: bool, pause: Pause) -> SetFacts:
    """What the names alone say, and the remark why there is no more."""
    rows = tuple(member(entry, members.get(entry.name)) for entry in candidate.named)
    present = [row for row in rows if row.present]
    series = candidate.series
    here = {row.number for row in present if row.number is not None}
    missing, gone = ((), 0) if series is None else missing_numbers(series, candidate.named, here, series.count or 0)
    return SetFacts(
        kind="safetensors_index",
        name=_name(candidate),
        directory=candidate.directory,
        members=rows,
        missing=missing,
        missing_count=gone,
        declared=SetFigures(members=None if series is None else series.count),
        found=SetFigures(members=len(present), tensors=total(row.tensors for row in present)),
        in_progress=moving,
        source=candidate.source,
        unfinished=candidate.unfinished,
        remarks=(remark, *repeated(rows, members, pause), *of_members(rows)),
        limits=tuple(unknown_members(rows, members)),
    )
