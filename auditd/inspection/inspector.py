"""One bounded look at one artifact: open, read, compare, close, and a record whatever happens.

Walk of a file: its name (unfinished downloads are not read), its identity, its first bytes, its header in
chunks through a reader, in full mode the rest through the same SHA-256, one more read past its end, its
identity again. The checkpoint is called before every read and may end it there; what is known then is kept.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from auditd.accounting.account import Account, account_gguf, account_safetensors
from auditd.errors import InspectionStopped
from auditd.evidence.observation import Observation, Stop
from auditd.evidence.record import Evidence
from auditd.formats.bounds import CHUNK_BYTES, FIRST_CHUNK_BYTES
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.detection import HEAD_BYTES, KIND_BYTES, Format, detect
from auditd.formats.foreign import foreign_of
from auditd.formats.gguf.reader import GgufReader
from auditd.formats.naming import is_unfinished_name
from auditd.formats.safetensors.reader import SafetensorsReader
from auditd.inspection.composition import compose
from auditd.inspection.descriptor import Descriptor, Unreadable, stop_of
from auditd.inspection.embedded import CONTAINERS, inspect_contents
from auditd.inspection.identity import compare, observe
from auditd.inspection.pace import Pace
from auditd.inspection.request import Checkpoint, Progress, Request, carry_on, unwatched
from auditd.inspection.streaming import Digester, Rest
from auditd.inspection.timestamps import now_text
from auditd.rules.reference_rules import broken_references, is_silent_change

Reader: TypeAlias = GgufReader | SafetensorsReader


_READERS: Final[dict[Format, type[GgufReader | SafetensorsReader]]] = {
    "gguf": GgufReader,
    "safetensors": SafetensorsReader,
}

#: Behind the header: uncached reads are slower in smaller pieces, and a stop is never far.
_HASH_CHUNK_BYTES: Final = 4 * 1024 * 1024


def inspect(request: Request, checkpoint: Checkpoint = carry_on, progress: Progress = unwatched) -> Evidence:
    """Inspect one artifact. Blocking; raises nothing for any file, path or stop."""
    return _recorded(request, observe_artifact(request, checkpoint, progress))


def given_up(request: Request, size: int | None, seconds: float) -> Evidence:
    """The record of an inspection whose read did not come back for ``seconds``: only that is known."""
    stop = Stop("execution_failure", "host", f"no read came back for {seconds:g} s", abandoned=True)
    return _recorded(request, Observation(request.path, "header", size=size, stop=stop))


def _recorded(request: Request, observation: Observation) -> Evidence:
    return compose(
        observation,
        producer=request.producer,
        trigger=request.trigger,
        recorded_at=now_text(),
        severities=request.severities,
    )


def observe_artifact(
    request: Request, checkpoint: Checkpoint = carry_on, progress: Progress = unwatched
) -> Observation:
    """The facts of one look, before they are a record. Blocking; raises nothing for any file, path or stop."""
    began = time.perf_counter()
    observation = _look(request, checkpoint, progress)
    return replace(observation, duration_seconds=round(time.perf_counter() - began, 6))


def _look(request: Request, checkpoint: Checkpoint, progress: Progress) -> Observation:
    scope: Literal["header", "full"] = "full" if request.hash_mode == "full" else "header"
    if not request.unfinished and is_unfinished(request.path):
        return _skipped(request, scope, checkpoint)
    try:
        path = resolve(request.path)
        descriptor = Descriptor(path)
    except OSError as error:
        return Observation(request.path, scope, stop=stop_of(error, "the path cannot be followed"))
    except Unreadable as refused:
        return Observation(request.path, scope, stop=refused.stop)
    reading = _Reading(descriptor, Observation(path, scope, given=request.path), request, checkpoint, progress)
    try:
        reading.run()
    except Unreadable as failed:
        reading.fail(failed.stop)
    except InspectionStopped as stopped:
        reading.stop = Stop("cancelled", "cancelled", stopped.reason)
    finally:
        close_errno = descriptor.close()
    return replace(reading.observation(), close_errno=close_errno)


def is_unfinished(path: bytes) -> bool:
    """Whether a download is under way: by the name, or by what aria2 keeps beside it."""
    return is_unfinished_name(path.rpartition(b"/")[2]) or os.path.lexists(path + b".aria2")


def _skipped(request: Request, scope: Literal["header", "full"], checkpoint: Checkpoint) -> Observation:
    """A download under way: its size, and what its store says of it."""
    observation = Observation(request.path, scope, skipped=True)
    try:
        status = os.lstat(request.path)
        return replace(
            observation,
            size=status.st_size,
            expectation=request.expectations(request.path, request.path, status, checkpoint),
        )
    except OSError:
        return observation
    except InspectionStopped as stopped:
        return replace(observation, size=status.st_size, stop=Stop("cancelled", "cancelled", stopped.reason))


def resolve(path: bytes) -> bytes:
    """The path of the regular file behind a link; raises ``OSError`` for loops and dangling links."""
    return os.path.realpath(path, strict=True) if stat.S_ISLNK(os.lstat(path).st_mode) else path


class _Reading:
    """The state of one reading of one descriptor; ``look()`` is what is known at any moment."""

    def __init__(
        self, descriptor: Descriptor, empty: Observation, request: Request, checkpoint: Checkpoint, progress: Progress
    ) -> None:
        self._descriptor = descriptor
        self._empty = empty
        self._request = request
        self._full = request.hash_mode == "full"
        self._checkpoint = checkpoint
        self._progress = progress
        self._pace = Pace(request.bytes_per_second, checkpoint)
        self._before: os.stat_result | None = None
        self._size = 0
        self._known = empty
        self._reader: Reader | None = None
        self._account: Account | None = None
        self._rest: Rest | None = None
        self._digester = Digester()
        self._again: str | None = None
        #: What the last chunk of the header held behind it.
        self._tail = b""
        self._header_sha256: str | None = None
        self._grew = False
        #: Bytes that were read apart from the way through the file: a first reading, a look into a container.
        self._read_apart = 0
        self.stop: Stop | None = None

    def observation(self) -> Observation:
        """The facts so far. Digests are published only for a file that held still."""
        held = self._known.identity == "unchanged"
        whole = held and self._full and self._digester.hashed == self._size and not self._grew
        rest = self._rest
        return replace(
            self._known,
            header=None if self._reader is None else self._reader.result(),
            header_sha256=self._header_sha256 if held else None,
            sha256=self._digester.sha256 if whole else None,
            sha256_again=self._again if whole else None,
            git_sha1=self._digester.git_sha1 if whole else None,
            parts=rest.parts if rest is not None and whole else None,
            zeros=rest.zeros if rest is not None and whole else None,
            appended=rest.appended if rest is not None and whole else None,
            scanned=None if rest is None else rest.scanned,
            bytes_read=self._read_apart + self._descriptor.offset,
            bytes_hashed=self._digester.hashed,
            cache=self._descriptor.treatment,
            account=self._account,
            stop=self.stop,
        )

    def fail(self, stop: Stop) -> None:
        """The reading failed; a file of which nothing could be read is not said to be foreign."""
        self.stop = stop
        if not self._descriptor.offset:
            self._known = replace(self._known, foreign=None)

    def run(self) -> None:
        """Read what is asked for; raises ``Unreadable`` or ``InspectionStopped`` where it ends early."""
        self._checkpoint()
        self._before = before = self._descriptor.status()
        self._size = before.st_size
        self._known = replace(self._empty, before=observe(before), size=before.st_size, earlier=self._request.earlier)
        self._ask_the_store(before)
        self._read_header()
        if self._full:
            self._read_rest()
        self._compare()
        if self._is_unexpected():
            self._read_again()

    def _ask_the_store(self, before: os.stat_result) -> None:
        """What is promised decides whether ``expected`` reads everything."""
        expectation = self._request.expectations(self._descriptor.path, self._request.path, before, self._checkpoint)
        self._full = self._full or (self._request.hash_mode == "expected" and bool(expectation.references))
        self._known = replace(self._known, expectation=expectation, scope="full" if self._full else "header")
        self._descriptor.prepare(self._size if self._full else None)
        if self._full:
            self._digester.expect(expectation, self._size)

    # -- header -------------------------------------------------------------------------------------

    def _read_header(self) -> None:
        first = self._read(min(FIRST_CHUNK_BYTES, self._size))
        form = detect(first, self._size)
        if form is None:
            self._digester.update(first)
            self._tail = first
            self._name_foreign(first)
            return
        self._reader = reader = _READERS[form](self._size)
        self._take(reader, first)
        while not reader.done:
            if reader.needs_bytes:
                data = self._read(min(CHUNK_BYTES, self._size - self._descriptor.offset))
                if not data:  # it shrank under the reading; the identity will say so
                    return
                self._take(reader, data)
            else:
                self._checkpoint()
                reader.feed(b"")
        self._settle_account(reader.result())

    def _name_foreign(self, first: bytes) -> None:
        """What a file is that is neither format, and what it holds if it is a container of models."""
        foreign = foreign_of(first[:KIND_BYTES], self._size)
        if foreign.kind.word in CONTAINERS:
            contents = inspect_contents(
                self._descriptor, self._size, foreign.kind.word, self._checkpoint, self._request.layout
            )
            if contents is not None:
                foreign = contents.told(foreign)
                self._read_apart += contents.bytes_read
        self._known = replace(
            self._known, foreign=foreign.kind, foreign_details=foreign.details, foreign_head=first[:HEAD_BYTES]
        )

    def _take(self, reader: Reader, data: bytes) -> None:
        """Feed the reader, and the digest up to the header's end, which may be known only now."""
        begin = self._descriptor.offset - len(data)
        reader.feed(data)
        end = reader.header_end
        if end is not None and self._header_sha256 is None and begin <= end <= self._descriptor.offset:
            self._digester.update(data[: end - begin])
            self._header_sha256 = self._digester.sha256
            data = self._tail = data[end - begin :]
        if self._full or self._header_sha256 is None:
            self._digester.update(data)

    def _settle_account(self, header: GgufHeader | SafetensorsHeader) -> None:
        if not header.complete:
            return
        if isinstance(header, GgufHeader):
            self._account = account_gguf(header, self._request.layout, self._checkpoint)
        else:
            self._account = account_safetensors(header)

    # -- the rest -----------------------------------------------------------------------------------

    def _read_rest(self) -> None:
        header = None if self._reader is None else self._reader.result()
        self._rest = rest = Rest(header, self._account, self._size, self._request.parts)
        if self._reader is None or self._reader.header_end is not None:
            rest.feed(self._descriptor.offset - len(self._tail), self._tail, len(self._tail))
        for begin, piece, buffer in self._pieces():
            self._digester.update(piece)
            rest.feed(begin, buffer, len(piece))
        self._checkpoint()
        self._grew = bool(self._descriptor.read(1))

    def _pieces(self) -> Iterator[tuple[int, memoryview, bytearray]]:
        """The file from here to its size: begin, the piece, and the buffer that it is the first part of."""
        buffer = bytearray(self._pace.piece(min(_HASH_CHUNK_BYTES, max(1, self._size))))
        view = memoryview(buffer)
        while self._descriptor.offset < self._size:
            self._checkpoint()
            begin = self._descriptor.offset
            count = self._descriptor.read_into(buffer)
            if not count:
                return
            yield begin, view[:count], buffer
            self._progress(self._descriptor.offset, self._size)
            self._pace.after(count)

    def _compare(self) -> None:
        """The identity after the reading, of the descriptor and of the path."""
        self._checkpoint()
        assert self._before is not None  # noqa: S101 - run() has set it
        descriptor, path = self._descriptor.status(), self._descriptor.path_status()
        status = compare(self._before, descriptor, path)
        if status == "unchanged" and (self._grew or self._descriptor.offset < self._due()):
            status = "modified"
        self._known = replace(self._known, after=observe(path or descriptor), identity=status)

    def _is_unexpected(self) -> bool:
        """Whether the digest is none that was expected: bad news, which one reading alone does not give."""
        observation = self.observation()
        return observation.sha256 is not None and (
            bool(broken_references(observation)) or is_silent_change(observation)
        )

    def _read_again(self) -> None:
        """Read all of it a second time: a host whose memory fails reads it differently each time."""
        sha = hashlib.sha256()
        # What is not confirmed is not published: a stop on the way leaves the digests unknown.
        self._known = replace(self._known, after=None, identity="unverified")
        self._read_apart += self._descriptor.offset
        self._descriptor.offset = 0
        for _, piece, _ in self._pieces():
            sha.update(piece)
        self._again = sha.hexdigest()
        self._compare()

    def _due(self) -> int:
        """How far the reading had to come, if the file kept its size."""
        if self._full:
            return self._size
        header_end = None if self._reader is None else self._reader.header_end
        return header_end or 0

    # -- bytes --------------------------------------------------------------------------------------

    def _read(self, size: int) -> bytes:
        self._checkpoint()
        data = self._descriptor.read(size)
        self._progress(self._descriptor.offset, self._size if self._full else self._descriptor.offset)
        self._pace.after(len(data))
        return data
