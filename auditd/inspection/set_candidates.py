"""Which sets stand in a directory: numbered GGUF and safetensors files, and the indexes that name them.

The names are gone through once and only those that have to do with sets are kept, a bounded number. An index is read
within 64 MiB and never through a link that leads out of where the caller looks. What an index names is looked for in
its own directory alone. Bad content is never an exception: an index that cannot be used is a candidate with the reason.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from auditd.evidence.text import quoted
from auditd.model_sets.candidate import Candidate, Entry, IndexCandidate, Numbered, Rival, SplitCandidate
from auditd.model_sets.index import INDEX_BYTES, Index, IndexProblem, parse_index
from auditd.model_sets.names import KEPT_NAMES, Listing, Series, index_stem, series_of
from auditd.model_stores.files import Checkpoint, Unknown, carry_on, entries_of, read_small

#: Nothing stands there, or a link that leads to nothing.
_NOWHERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


def candidates(
    directory: bytes, *, within: bytes | None = None, checkpoint: Checkpoint = carry_on
) -> Iterator[Candidate]:
    """Yield what may be a set in ``directory`` (not below it), in a fixed order.

    A link to an index is followed if it leads below ``within``, by default the directory itself or, in a snapshot of a
    Hugging Face cache, the model's directory. Raises ``Unknown`` for a directory that is there and cannot be read, or
    has more names that may belong to sets than are kept: what is missing could not be told from what was left out.
    """
    listing = Listing()
    for name, kind in entries_of(directory, checkpoint):
        if kind != stat.S_IFDIR:
            listing.add(name)
    yield from candidates_of(listing, directory, within=within, checkpoint=checkpoint)


def candidates_of(
    listing: Listing, directory: bytes, *, within: bytes | None = None, checkpoint: Checkpoint = carry_on
) -> Iterator[Candidate]:
    """The same for names that the caller has gone through already."""
    if listing.cut:
        raise Unknown(f"more than {KEPT_NAMES:,} names in {quoted(directory)} may belong to sets")
    place = _Directory(directory, listing, within or reach_of(directory), checkpoint)
    yield from place.splits()
    yield from place.indexed()


def lone(path: bytes, size: int | None = None) -> SplitCandidate:
    """A GGUF file whose header speaks of others (``not MemberFacts.split.alone``) and whose name does not."""
    directory, _, name = path.rpartition(b"/")
    return SplitCandidate(directory, lone=Entry(name, path, size))


def reach_of(directory: bytes) -> bytes:
    """How far up a link in ``directory`` may lead: a snapshot's files are links to blobs beside the snapshots."""
    above, snapshots, _ = directory.rpartition(b"/snapshots/")
    return above if snapshots and above.rpartition(b"/")[2].startswith(b"models--") else directory


def entry_of(directory: bytes, name: bytes, number: int | None = None, within: bytes | None = None) -> Entry | None:
    """What a name in a directory stands for: a regular file, a link to one, or a link to nothing; else None.

    What cannot be looked at may be the file: it is an entry without a size. A target below ``within`` (by default the
    directory) has the path that a walk down from there would come by.
    """
    path = os.path.join(directory, name)
    try:
        status = os.lstat(path)
    except OSError as error:
        return None if error.errno in _NOWHERE else Entry(name, path, number=number)
    if stat.S_ISLNK(status.st_mode):
        return _linked(name, path, number, directory if within is None else within)
    return Entry(name, path, status.st_size, number=number) if stat.S_ISREG(status.st_mode) else None


def _linked(name: bytes, path: bytes, number: int | None, within: bytes) -> Entry | None:
    try:
        status = os.stat(path)
        target, real = os.path.realpath(path), os.path.realpath(within)
    except OSError as error:
        return Entry(name, path, dangling=error.errno in _NOWHERE, number=number)
    if target.startswith(real + b"/"):
        target = within.rstrip(b"/") + target[len(real) :]
    return Entry(name, target, status.st_size, number=number) if stat.S_ISREG(status.st_mode) else None


class _Directory:
    """One directory: its numbered files, and its safetensors files shared out among its indexes."""

    def __init__(self, directory: bytes, listing: Listing, within: bytes, checkpoint: Checkpoint) -> None:
        self._directory = directory
        self._listing = listing
        self._within = within
        self._checkpoint = checkpoint

    def splits(self) -> Iterator[SplitCandidate]:
        """Yield a candidate for each series that is not of safetensors files."""
        for files in self._numbered(lambda series: series.kind != "safetensors"):
            unfinished = self._listing.under_way(self._listing.awaited.get(files.series, ()))
            yield SplitCandidate(self._directory, files, unfinished=unfinished)

    def indexed(self) -> Iterator[IndexCandidate]:
        """Yield a candidate for each index, then one for each series that none of them speaks of."""
        names = sorted(self._listing.indexes)
        read = {name: self._index(name) for name in names}
        named = {file for index in read.values() if isinstance(index, Index) for file in index.files}
        free = [
            files
            for files in self._numbered(lambda series: series.kind == "safetensors")
            if not any(entry.name in named for entry in files.entries)
        ]
        shared = _shared(names, free)
        strays = self._strays(names, named, free)
        for name in names:
            yield self._candidate(name, read[name], shared.get(name, []), strays.get(name, []))
        for files in shared.get(b"", []):
            yield self._without(files)

    def _numbered(self, wanted: Callable[[Series], bool]) -> Iterator[Numbered]:
        for series in sorted(filter(wanted, self._listing.series), key=lambda series: series.label):
            numbers = self._listing.series[series]
            entries = (self._entry(numbers[number]) for number in sorted(numbers))
            files = Numbered(series, tuple(entry for entry in entries if entry is not None))
            if files.entries:
                yield files

    def _entry(self, name: bytes) -> Entry | None:
        self._checkpoint()
        if self._listing.preallocated(name):
            return None
        numbered = series_of(name)
        return entry_of(self._directory, name, None if numbered is None else numbered[1], self._within)

    def _index(self, name: bytes) -> Index | IndexProblem:
        path = os.path.join(self._directory, name)
        try:
            if os.path.islink(path):
                path = os.path.realpath(path, strict=True)
                if not path.startswith(os.path.realpath(self._within) + b"/"):
                    return IndexProblem("it is a link that leads out of this place, and is not followed")
            data = read_small(path, INDEX_BYTES)
        except OSError as error:
            gone = "leads to nothing" if error.errno in _NOWHERE else "cannot be followed"
            return IndexProblem(f"it is a link that {gone}")
        except Unknown:
            return IndexProblem(f"it cannot be read, or is no regular file of at most {INDEX_BYTES:,} bytes")
        return parse_index(data, self._checkpoint)

    def _strays(
        self, indexes: Sequence[bytes], named: set[bytes], free: Sequence[Numbered]
    ) -> dict[bytes, list[bytes]]:
        """Files that no index names and that are in no series, each for the index whose stem it begins with."""
        if not indexes:
            return {}
        stems = _by_stem(indexes)
        apart = named.union(entry.name for files in free for entry in files.entries)
        strays: dict[bytes, list[bytes]] = {}
        for file in sorted(self._listing.safetensors - apart):
            # The longest stem; a name has at most 255 bytes, so this is no search through all indexes.
            prefixes = (file[:end] for end in range(len(file), 0, -1))
            owner = next((stems[prefix] for prefix in prefixes if prefix in stems), indexes[0])
            strays.setdefault(owner, []).append(file)
        return strays

    def _candidate(
        self, name: bytes, index: Index | IndexProblem, series: Sequence[Numbered], strays: list[bytes]
    ) -> IndexCandidate:
        source = os.path.join(self._directory, name)
        if isinstance(index, IndexProblem):
            files = series[0] if len(series) == 1 else None
            return IndexCandidate(
                self._directory,
                () if files is None else files.entries,
                source,
                problem=index.message,
                series=None if files is None else files.series,
                unfinished=self._listing.under_way([name]),
            )
        rivals = [Rival(files.series.label, files.entries, files.whole) for files in series]
        single = (index_stem(name) or b"") + b".safetensors"
        if single in strays and (entry := self._entry(single)) is not None:
            strays.remove(single)
            rivals.append(Rival(single, (entry,), whole=not entry.dangling))
        return IndexCandidate(
            self._directory,
            tuple(entry for file in sorted(index.files) if (entry := self._entry(file)) is not None),
            source,
            index,
            rivals=tuple(rivals),
            strays=tuple(strays),
            unfinished=self._listing.under_way(index.files),
        )

    def _without(self, files: Numbered) -> IndexCandidate:
        awaited = [*self._listing.awaited.get(files.series, ()), files.series.stem + b".safetensors.index.json"]
        return IndexCandidate(
            self._directory, files.entries, series=files.series, unfinished=self._listing.under_way(awaited)
        )


def _by_stem(indexes: Sequence[bytes]) -> dict[bytes, bytes]:
    return {index_stem(name) or b"": name for name in indexes}


def _shared(indexes: Sequence[bytes], free: Iterable[Numbered]) -> dict[bytes, list[Numbered]]:
    """Which series that no index names goes to which index, by the stem; to ``b""`` if there is none."""
    stems = _by_stem(indexes)
    shared: dict[bytes, list[Numbered]] = {}
    for files in free:
        shared.setdefault(stems.get(files.series.stem, b""), []).append(files)
    return shared
