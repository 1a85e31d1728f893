"""Models that are stored whole inside a llamafile, a ZIP archive or an Android package.

Such a file is foreign, and what it holds can be sound all the same: each stored entry that is a model is
accounted from its own first byte, as if it were the file. Reads the archive's directory and the headers of the
models, bounded in every direction; an entry that is compressed or encrypted is named and not opened. Blocking;
raises :class:`auditd.inspection.descriptor.Unreadable` where the host fails, what the checkpoint raises, and
nothing for any content.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from auditd.accounting.account import account_gguf, account_safetensors
from auditd.evidence.observation import Observation
from auditd.evidence.record import Verdict
from auditd.formats.archives import (
    DIRECTORY_BYTES,
    LOCAL_BYTES,
    TAIL_BYTES,
    ZipDirectory,
    ZipEntry,
    data_begin,
    entries_of,
    find_directory,
)
from auditd.formats.bounds import CHUNK_BYTES, FIRST_CHUNK_BYTES, HEADER_BYTES
from auditd.formats.declarations import GgufHeader
from auditd.formats.detection import HEAD_BYTES, Format, detect
from auditd.formats.foreign import Foreign, foreign_as
from auditd.formats.gguf.reader import GgufReader
from auditd.formats.kinds import ZIP_WORDS, plainest_last, zip_word
from auditd.formats.naming import suffix
from auditd.formats.quoting import shown
from auditd.formats.safetensors.reader import SafetensorsReader
from auditd.inspection.descriptor import Descriptor
from auditd.inspection.request import Checkpoint, carry_on
from auditd.rules.evaluate import evaluate
from auditd.rules.findings import worst_verdict

#: Kinds of foreign files that may hold models as they are. A PyTorch archive holds hundreds of stored entries, and
#: none of them is one.
CONTAINERS: Final = frozenset({*ZIP_WORDS, "executable"} - {"pytorch"})

#: Stored entries whose first bytes are looked at: the first ones with a model's name, and the largest of all others,
#: since an application holds thousands of small pictures beside its model.
_PROBES: Final = 1024

#: Models that are accounted. Those seen in one container are one, or the parts of one.
_MODELS: Final = 16

#: Their headers together, in bytes: entries may all name the same place.
_HEADERS_BYTES: Final = HEADER_BYTES

#: Nothing shorter is worth a look: two counts and a mark, or a length and an empty object.
_LEAST_BYTES: Final = 10

_NAMED: Final = frozenset({b".gguf", b".safetensors"})
_TOLD: Final = 3
_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Inner:
    """A model inside a container: ``begin`` is a file offset of the container, ``length`` in bytes.

    ``residue`` is None where the account does not say; ``trouble`` is the worst finding's message, counted from
    the model's own first byte, empty if there is none.
    """

    name: bytes
    begin: int
    length: int
    form: Format
    verdict: Verdict
    residue: int | None
    trouble: str = ""

    @property
    def words(self) -> str:
        """Name, place and verdict, in one phrase."""
        residue = "unknown" if self.residue is None else f"{self.residue:,}"
        trouble = f" ({self.trouble})" if self.trouble else ""
        return (
            f"{shown(self.name)}, {self.length:,} bytes of {self.form} at byte {self.begin:,}: "
            f"{self.verdict}, residue {residue}{trouble}"
        )


@dataclass(frozen=True, slots=True)
class Contents:
    """What a container holds, as far as it was looked at.

    ``word`` is its kind, better told by all of its names. ``entries`` were listed; ``packed`` have a model's name
    and are compressed or encrypted, ``first_packed`` is the first of them. ``skipped`` may be models and were not
    looked at; ``is_partial`` says that the directory is longer than is read, or broken. ``overlaps`` says that two
    of the models claim the same bytes.
    """

    word: str
    entries: int
    models: tuple[Inner, ...]
    packed: int
    first_packed: bytes
    skipped: int
    is_partial: bool
    overlaps: bool
    bytes_read: int

    def told(self, foreign: Foreign) -> Foreign:
        """What the file is, with what it holds."""
        details = "; ".join(self._clauses())
        return foreign_as(self.word, f"{foreign.details}; {details}" if foreign.details else details)

    def _clauses(self) -> Iterator[str]:
        for inner in self.models[:_TOLD]:
            yield f"it holds {inner.words}"
        if len(self.models) > _TOLD:
            yield f"it holds {len(self.models) - _TOLD} more models"
        if self.overlaps:
            yield "two of its entries claim the same bytes"
        if self.packed:
            more = f" and {self.packed - 1:,} more like it" if self.packed > 1 else ""
            yield f"it holds {shown(self.first_packed)}{more}; a compressed entry is not opened"
        if self.skipped or self.is_partial:
            yield "not all of its entries were looked at"
        elif not self.models and not self.packed:
            yield f"none of its {self.entries:,} entries is a stored GGUF or safetensors file"


def inspect_contents(
    descriptor: Descriptor, file_size: int, word: str, checkpoint: Checkpoint = carry_on, layout: str = "auto"
) -> Contents | None:
    """The models inside a file of the kind ``word``, one of :data:`CONTAINERS`; None if there is no archive in it.

    The place where ``descriptor`` reads on is not moved.
    """
    inside = _Inside(descriptor, checkpoint, layout)
    tail_begin = max(0, file_size - TAIL_BYTES)
    tail = inside.read(tail_begin, file_size - tail_begin)
    directory = find_directory(tail, tail_begin + len(tail))
    if directory is None:
        return None
    listing = inside.listing(directory)
    models = tuple(inside.models(listing, directory.begin))
    return Contents(
        word=word if word == "executable" else plainest_last(listing.words),
        entries=listing.entries,
        models=models,
        packed=listing.packed,
        first_packed=listing.first_packed,
        skipped=listing.skipped,
        is_partial=listing.entries != directory.entries,
        overlaps=_overlap(models),
        bytes_read=inside.bytes_read,
    )


def _overlap(models: tuple[Inner, ...]) -> bool:
    ordered = sorted((inner.begin, inner.begin + inner.length) for inner in models)
    return any(after[0] < before[1] for before, after in pairwise(ordered))


@dataclass(slots=True)
class _Listing:
    """The entries of a directory that are worth a look, and counts of the rest."""

    words: set[str] = field(default_factory=set)
    entries: int = 0
    named: list[ZipEntry] = field(default_factory=list)
    #: A heap of (size, -number, entry): the smallest gives way.
    others: list[tuple[int, int, ZipEntry]] = field(default_factory=list)
    packed: int = 0
    first_packed: bytes = b""
    skipped: int = 0

    def take(self, entry: ZipEntry) -> None:
        """Count one more entry and keep it if it may be a model."""
        self.entries += 1
        self.words.add(zip_word(entry.name))
        is_named = suffix(entry.name) in _NAMED
        if entry.is_stored and entry.size >= _LEAST_BYTES:
            self._keep(entry, is_named)
        elif is_named and not entry.is_stored:
            self.first_packed = self.first_packed or entry.name
            self.packed += 1

    def _keep(self, entry: ZipEntry, is_named: bool) -> None:
        kept = len(self.named if is_named else self.others)
        self.skipped += kept == _PROBES
        if is_named and kept < _PROBES:
            self.named.append(entry)
        elif not is_named:
            put = heapq.heappush if kept < _PROBES else heapq.heappushpop
            put(self.others, (entry.size, -self.entries, entry))

    def candidates(self) -> Iterator[ZipEntry]:
        """The entries that may be models, those that are called so first, then the largest."""
        yield from self.named
        yield from (entry for _, _, entry in sorted(self.others, reverse=True))


class _Inside:
    """Bounded reading of one container."""

    def __init__(self, descriptor: Descriptor, checkpoint: Checkpoint, layout: str) -> None:
        self._descriptor = descriptor
        self._checkpoint = checkpoint
        self._layout = layout
        self.bytes_read = 0

    def read(self, offset: int, size: int) -> bytes:
        """``size`` bytes at ``offset``, fewer where the file ends."""
        pieces: list[bytes] = []
        while size > 0:
            self._checkpoint()
            piece = self._descriptor.read_at(offset, min(size, _PIECE_BYTES))
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
            self.bytes_read += len(piece)
        return b"".join(pieces)

    def listing(self, directory: ZipDirectory) -> _Listing:
        """The entries of a directory, as many as its first 8 MiB hold."""
        listing = _Listing()
        rows = self.read(directory.begin, min(directory.size, DIRECTORY_BYTES))
        for entry in entries_of(rows, directory.shift):
            self._checkpoint()
            listing.take(entry)
        return listing

    def models(self, listing: _Listing, end: int) -> Iterator[Inner]:
        """The models among the entries, which all end at ``end``; what is left out is counted in ``skipped``."""
        budget = self.bytes_read + _HEADERS_BYTES
        found = 0
        for entry in listing.candidates():
            begin = self._begin(entry, end)
            form = None if begin is None else detect(self.read(begin, HEAD_BYTES), entry.size)
            if begin is None or form is None:
                continue
            if found == _MODELS or self.bytes_read > budget:
                listing.skipped += 1
                continue
            found += 1
            yield self._account(entry, begin, form)

    def _begin(self, entry: ZipEntry, end: int) -> int | None:
        """Where a stored entry's bytes begin; None if its own header is not there or it does not fit in front of ``end``."""
        if entry.packed != entry.size or entry.header_at + LOCAL_BYTES + entry.size > end:
            return None
        begin = data_begin(self.read(entry.header_at, LOCAL_BYTES), entry.header_at)
        return begin if begin is not None and begin + entry.size <= end else None

    def _account(self, entry: ZipEntry, begin: int, form: Format) -> Inner:
        reader = self._walk(entry, begin, form)
        if not reader.done:  # the container shrank under the reading
            return Inner(entry.name, begin, entry.size, form, "unknown", None, "its header could not be read")
        header = reader.result()
        if not header.complete:
            account = None
        elif isinstance(header, GgufHeader):
            account = account_gguf(header, self._layout, self._checkpoint)
        else:
            account = account_safetensors(header)
        found = evaluate(Observation(entry.name, "header", size=entry.size, header=header, account=account))
        verdict = worst_verdict(drafts.verdict for drafts in found)
        trouble = next((drafts.message for drafts in found if drafts.verdict == verdict != "sound"), "")
        return Inner(
            entry.name, begin, entry.size, form, verdict, None if account is None else account.figures.residue, trouble
        )

    def _walk(self, entry: ZipEntry, begin: int, form: Format) -> GgufReader | SafetensorsReader:
        """A reader that was fed the entry's bytes from its first one on, to the end of its header."""
        reader = GgufReader(entry.size) if form == "gguf" else SafetensorsReader(entry.size)
        position, piece_bytes = 0, FIRST_CHUNK_BYTES
        while not reader.done:
            if not reader.needs_bytes:
                self._checkpoint()
                reader.feed(b"")
                continue
            data = self.read(begin + position, min(piece_bytes, entry.size - position))
            if not data:
                break
            reader.feed(data)
            position, piece_bytes = position + len(data), CHUNK_BYTES
        return reader
