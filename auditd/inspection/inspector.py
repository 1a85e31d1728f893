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
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from auditd.accounting.account import Account, account_gguf, account_safetensors
from auditd.errors import InspectionStopped
from auditd.evidence.compose import compose
from auditd.evidence.look import Look, Stop
from auditd.evidence.record import Evidence
from auditd.formats.bounds import CHUNK_BYTES, FIRST_CHUNK_BYTES
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.detection import KIND_BYTES, Format, detect, kind_of
from auditd.formats.gguf.reader import GgufReader
from auditd.formats.naming import is_unfinished_name
from auditd.formats.safetensors.reader import SafetensorsReader
from auditd.inspection.descriptor import Descriptor, Unreadable, stop_of
from auditd.inspection.identity import compare, observe
from auditd.inspection.pace import Pace
from auditd.inspection.request import Checkpoint, Progress, Request, carry_on, unwatched
from auditd.inspection.unowned import UnownedScan, ranges_of

Reader: TypeAlias = GgufReader | SafetensorsReader

_READERS: Final[dict[Format, type[GgufReader | SafetensorsReader]]] = {
    "gguf": GgufReader,
    "safetensors": SafetensorsReader,
}

#: Behind the header: as fast as larger pieces, and a stop is never far.
_HASH_CHUNK_BYTES: Final = 1024 * 1024


def inspect(request: Request, checkpoint: Checkpoint = carry_on, progress: Progress = unwatched) -> Evidence:
    """Inspect one artifact. Blocking; raises nothing for any file, path or stop."""
    return compose(
        look_at(request, checkpoint, progress),
        producer=request.producer,
        trigger=request.trigger,
        recorded_at=datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        severities=request.severities,
    )


def look_at(request: Request, checkpoint: Checkpoint = carry_on, progress: Progress = unwatched) -> Look:
    """The facts of one look, before they are a record. Blocking; raises nothing for any file, path or stop."""
    began = time.perf_counter()
    look = _look(request, checkpoint, progress)
    return replace(look, duration_seconds=round(time.perf_counter() - began, 6))


def _look(request: Request, checkpoint: Checkpoint, progress: Progress) -> Look:
    scope: Literal["header", "full"] = "full" if request.hash_mode == "full" else "header"
    if not request.unfinished and is_unfinished(request.path):
        return Look(request.path, scope, skipped=True, size=_size_of(request.path))
    try:
        path = resolve(request.path)
        descriptor = Descriptor(path)
    except OSError as error:
        return Look(request.path, scope, stop=stop_of(error, "the path cannot be followed"))
    except Unreadable as refused:
        return Look(request.path, scope, stop=refused.stop)
    reading = _Reading(descriptor, Look(path, scope, given=request.path), request, checkpoint, progress)
    try:
        reading.run()
    except Unreadable as failed:
        reading.fail(failed.stop)
    except InspectionStopped as stopped:
        reading.stop = Stop("cancelled", "cancelled", stopped.reason)
    finally:
        close_errno = descriptor.close()
    return replace(reading.look(), close_errno=close_errno)


def is_unfinished(path: bytes) -> bool:
    """Whether a download is under way: by the name, or by what aria2 keeps beside it."""
    return is_unfinished_name(path.rpartition(b"/")[2]) or os.path.lexists(path + b".aria2")


def _size_of(path: bytes) -> int | None:
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def resolve(path: bytes) -> bytes:
    """The path of the regular file behind a link; raises ``OSError`` for loops and dangling links."""
    return os.path.realpath(path, strict=True) if stat.S_ISLNK(os.lstat(path).st_mode) else path


class _Reading:
    """The state of one reading of one descriptor; ``look()`` is what is known at any moment."""

    def __init__(
        self, descriptor: Descriptor, empty: Look, request: Request, checkpoint: Checkpoint, progress: Progress
    ) -> None:
        self._descriptor = descriptor
        self._empty = empty
        self._layout = request.layout
        self._full = request.hash_mode == "full"
        self._checkpoint = checkpoint
        self._progress = progress
        self._pace = Pace(request.bytes_per_second, checkpoint)
        self._before: os.stat_result | None = None
        self._size = 0
        self._known = empty
        self._reader: Reader | None = None
        self._account: Account | None = None
        self._scan: UnownedScan | None = None
        self._sha = hashlib.sha256()
        self._hashed = 0
        #: What the last chunk of the header held behind it.
        self._tail = b""
        self._header_sha256: str | None = None
        self._grew = False
        self.stop: Stop | None = None

    def look(self) -> Look:
        """The facts so far. Digests are published only for a file that held still."""
        held = self._known.identity == "unchanged"
        whole = self._full and self._hashed == self._size and not self._grew
        return replace(
            self._known,
            header=None if self._reader is None else self._reader.result(),
            header_sha256=self._header_sha256 if held else None,
            sha256=self._sha.hexdigest() if held and whole else None,
            bytes_read=self._descriptor.offset,
            bytes_hashed=self._hashed,
            account=self._account,
            scanned=None if self._scan is None else self._scan.result(),
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
        self._known = replace(self._empty, before=observe(before), size=before.st_size)
        self._read_header()
        if self._full:
            self._read_rest()
        self._compare()

    # -- header -------------------------------------------------------------------------------------

    def _read_header(self) -> None:
        first = self._read(min(FIRST_CHUNK_BYTES, self._size))
        form = detect(first, self._size)
        if form is None:
            self._known = replace(self._known, foreign=kind_of(first[:KIND_BYTES]), foreign_head=first[:16])
            self._hash(first)
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

    def _take(self, reader: Reader, data: bytes) -> None:
        """Feed the reader, and the digest up to the header's end, which may be known only now."""
        begin = self._descriptor.offset - len(data)
        reader.feed(data)
        end = reader.header_end
        if end is not None and self._header_sha256 is None and begin <= end <= self._descriptor.offset:
            self._hash(data[: end - begin])
            self._header_sha256 = self._sha.copy().hexdigest()
            data = self._tail = data[end - begin :]
        if self._full or self._header_sha256 is None:
            self._hash(data)

    def _settle_account(self, header: GgufHeader | SafetensorsHeader) -> None:
        if not header.complete:
            return
        if isinstance(header, GgufHeader):
            self._account = account_gguf(header, self._layout, self._checkpoint)
        else:
            self._account = account_safetensors(header)

    # -- the rest -----------------------------------------------------------------------------------

    def _read_rest(self) -> None:
        header_end = None if self._reader is None else self._reader.header_end
        self._scan = scan = UnownedScan(ranges_of(self._account, header_end, self._size))
        if header_end is not None:
            scan.feed(header_end, self._tail, len(self._tail))
        buffer = bytearray(_HASH_CHUNK_BYTES)
        view = memoryview(buffer)
        while self._descriptor.offset < self._size:
            self._checkpoint()
            begin = self._descriptor.offset
            count = self._descriptor.read_into(buffer)
            if not count:
                return
            self._hash(view[:count])
            scan.feed(begin, buffer, count)
            self._progress(self._descriptor.offset, self._size)
            self._pace.after(count)
        self._checkpoint()
        self._grew = bool(self._descriptor.read(1))

    def _compare(self) -> None:
        """The identity after the reading, of the descriptor and of the path."""
        self._checkpoint()
        assert self._before is not None  # noqa: S101 - run() has set it
        descriptor, path = self._descriptor.status(), self._descriptor.path_status()
        status = compare(self._before, descriptor, path)
        if status == "unchanged" and (self._grew or self._descriptor.offset < self._due()):
            status = "modified"
        self._known = replace(self._known, after=observe(path or descriptor), identity=status)

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

    def _hash(self, data: bytes | memoryview) -> None:
        self._sha.update(data)
        self._hashed += len(data)
