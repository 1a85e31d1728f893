"""The GGUF reader: versions 2 and 3 little-endian, version 3 big-endian.

Fed the bytes of a file from its first one on, in pieces of any size, until ``done``; ``result()`` gives at any
moment what is complete. Returns declarations, standing faults, notices and at most one stopping fault; raises
nothing for any bytes. Front to back: magic, version, two counts, metadata, tensor directory, padding up to the
alignment (GGUF specification; ggml's reader where it is stricter gives a notice that says so).

Each position is computed once, from the one before it. Nothing is allocated or looped over before the count
or length that asks for it is known to fit into the file and the bounds.
"""

from __future__ import annotations

from dataclasses import replace

from auditd.formats.bounds import TENSOR_COUNT
from auditd.formats.declarations import GgufHeader
from auditd.formats.faults import Constraint, Fault, FaultKind, Notice
from auditd.formats.gguf.cursor import Cursor
from auditd.formats.gguf.directory import DirectoryWalk
from auditd.formats.gguf.metadata import MetadataWalk
from auditd.formats.gguf.places import place
from auditd.formats.gguf.wire import HEAD_BYTES, LEAST_ENTRY, LEAST_TENSOR, MAGIC, VERSIONS
from auditd.formats.quoting import counted, shown
from auditd.formats.retention import Retention
from auditd.formats.window import Stopped, Walk


class GgufReader:
    """One walk over one header. ``file_size`` in bytes is what lengths and counts are checked against."""

    def __init__(self, file_size: int, retention: Retention | None = None) -> None:
        retention = retention or Retention()
        self._retention = retention
        self._cursor = Cursor(file_size)
        self._metadata = MetadataWalk(self._cursor, retention)
        self._directory = DirectoryWalk(self._cursor, retention)
        self._stopped: Fault | None = None
        self._version: int | None = None
        self._metadata_count: int | None = None
        self._tensor_count: int | None = None
        self._metadata_done = 0
        self._metadata_end: int | None = None
        self._directory_end: int | None = None
        self._data_offset: int | None = None
        self.done = False
        self._walk = self._whole()
        self._advance()

    # -- feeding ------------------------------------------------------------------------------------

    @property
    def needs_bytes(self) -> bool:
        """Whether only more bytes of the file can bring it on."""
        return not self.done

    @property
    def header_end(self) -> int | None:
        """The file offset after the last byte of the header, once the walk has come there."""
        return self._directory_end

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the file and walk as far as they reach."""
        if not self.done and self._cursor.window.feed(data):
            self._advance()

    def _advance(self) -> None:
        try:
            next(self._walk)
        except StopIteration:
            self.done = True
        except Stopped as stop:
            self._stopped = self._named(stop.fault)
            self.done = True

    def result(self) -> GgufHeader:
        """What is complete so far."""
        cursor, metadata = self._cursor, self._metadata
        alignment_known = self._metadata_end is not None or metadata.alignment_declared
        faults = [(self._named(fault), count) for fault, count in cursor.faults]
        if self._stopped is not None:
            faults.append((self._stopped, 1))
        return GgufHeader(
            file_size=cursor.window.file_size,
            version=self._version,
            byte_order=None if self._version is None else cursor.order,
            tensor_count=self._tensor_count,
            metadata_count=self._metadata_count,
            alignment=metadata.alignment() if alignment_known else None,
            alignment_declared=metadata.alignment_declared if alignment_known else None,
            metadata_end=self._metadata_end,
            directory_end=self._directory_end,
            data_offset=self._data_offset,
            metadata=tuple(metadata.entries),
            metadata_done=self._metadata_done,
            tensors=tuple(self._directory.tensors),
            columns=self._directory.columns,
            rows_complete=not self._retention.exhausted,
            templates=tuple(metadata.templates),
            architecture_present=metadata.architecture_present,
            complete=self._directory_end is not None,
            stopped=self._stopped,
            faults=tuple(sorted(faults, key=lambda item: item[0].offset)),
            notices=tuple(cursor.notices),
        )

    def _named(self, fault: Fault) -> Fault:
        """The fault with its place in front of its message, in words and counted from 1."""
        where = place(fault.subject, self._metadata_count, self._tensor_count)
        return replace(fault, message=f"{where}: {fault.message}")

    # -- the walk -----------------------------------------------------------------------------------

    def _whole(self) -> Walk:
        yield from self._head()
        for index in range(self._metadata_count or 0):
            yield from self._metadata.entry(index)
            self._metadata_done = index + 1
        self._metadata_end = self._cursor.offset
        yield from self._directory.walk(self._tensor_count or 0, self._metadata.alignment())
        self._directory_end = self._cursor.offset
        self._place_data()

    def _head(self) -> Walk:
        window = self._cursor.window
        yield from window.more(4, "header.magic")
        magic = window.data[window.pos : window.pos + 4]
        if magic != MAGIC:
            raise Stopped(
                Fault(
                    Constraint.MAGIC,
                    FaultKind.MALFORMED,
                    "header.magic",
                    0,
                    f"the file opens {shown(magic)} and a GGUF file opens {shown(MAGIC)}",
                    shown(MAGIC),
                    shown(magic),
                )
            )
        window.pos += 4
        yield from self._read_version()
        self._tensor_count = yield from self._cursor.unsigned(8, "header.tensor_count")
        self._metadata_count = yield from self._cursor.unsigned(8, "header.metadata_count")
        self._cursor.check_count("header.tensor_count", 8, self._tensor_count, LEAST_TENSOR, HEAD_BYTES)
        if self._tensor_count > TENSOR_COUNT:
            raise Stopped(
                Fault(
                    Constraint.TENSOR_COUNT,
                    FaultKind.BOUND,
                    "header.tensor_count",
                    8,
                    f"{self._tensor_count:,} tensors; at most {TENSOR_COUNT:,} are followed",
                    TENSOR_COUNT,
                    self._tensor_count,
                )
            )
        self._cursor.check_count("header.metadata_count", 16, self._metadata_count, LEAST_ENTRY, HEAD_BYTES)

    def _read_version(self) -> Walk:
        window = self._cursor.window
        yield from window.more(4, "header.version")
        raw = window.data[window.pos : window.pos + 4]
        known = VERSIONS.get(raw)
        if known is None:
            little, big = int.from_bytes(raw, "little"), int.from_bytes(raw, "big")
            raise Stopped(
                Fault(
                    Constraint.VERSION,
                    FaultKind.UNSUPPORTED,
                    "header.version",
                    4,
                    f"bytes {raw.hex(' ')} read {little} little-endian and {big} big-endian; "
                    "GGUF 2 and 3 little-endian and GGUF 3 big-endian are read",
                    "2 or 3 little-endian, 3 big-endian",
                    f"bytes {raw.hex(' ')}, little-endian {little}, big-endian {big}",
                )
            )
        self._version, self._cursor.order = known
        window.pos += 4
        if self._cursor.order == "big":
            self._cursor.notices.add(
                "big_endian", Notice("big_endian", "header.version", 4, "a big-endian GGUF 3 file")
            )

    def _place_data(self) -> None:
        """Where the data starts: with tensors the aligned offset; with none, where the file allows."""
        alignment = self._metadata.alignment()
        header_end = self._cursor.window.offset
        if alignment is None:
            return
        aligned = -(-header_end // alignment) * alignment
        size = self._cursor.window.file_size
        if self._tensor_count or size >= aligned:
            self._data_offset = header_end if not self._tensor_count and size == header_end else aligned
        elif size == header_end:
            self._data_offset = header_end
        else:
            message = (
                f"no tensors, and the file ends {counted(size - header_end, 'byte')} after its directory: "
                f"neither there nor at the aligned offset {aligned}"
            )
            self._cursor.fault(
                Constraint.PARTIAL_GAP, "header.padding", header_end, message, aligned - header_end, size - header_end
            )
