"""The directory of a ZIP archive, walked without opening a single entry. Pure: bytes in, places out.

Returns values or None, raises nothing for any bytes; nothing is decompressed. Front to back an archive is
(stub,) entries, central directory, (ZIP64 end, locator,) end record: so a reader starts at the tail, and what
stands in front of the entries - a program, in a llamafile - moves all offsets by its length. (PKWARE's
APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

LOCAL_MARK: Final = b"PK\x03\x04"
_CENTRAL_MARK: Final = b"PK\x01\x02"
_END_MARK: Final = b"PK\x05\x06"
_END64_MARK: Final = b"PK\x06\x06"
_LOCATOR_MARK: Final = b"PK\x06\x07"

_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
_END64: Final = struct.Struct("<4sQ2H2I4Q")
_LOCATOR: Final = struct.Struct("<4sIQI")

#: Of an entry's own header, without name and extra field.
LOCAL_BYTES: Final = _LOCAL.size

#: As much of a file's end as can hold its end record with the longest comment, and the ZIP64 records in front.
TAIL_BYTES: Final = _END64.size + _LOCATOR.size + _END.size + 0xFFFF

#: A directory of an archive of models takes some hundred bytes; a large application's, a few MiB.
DIRECTORY_BYTES: Final = 8 * 1024 * 1024

#: Names that are looked at in the first bytes of a file.
_LOCAL_NAMES: Final = 32

_ENCRYPTED: Final = 0x0001
_SIZES_FOLLOW: Final = 0x0008
_STORED: Final = 0
_IN_EXTRA_32: Final = 0xFFFFFFFF
_IN_EXTRA_16: Final = 0xFFFF
_ZIP64_EXTRA: Final = 0x0001


@dataclass(frozen=True, slots=True)
class ZipDirectory:
    """Where the central directory is: file offset and length in bytes, the number of entries that is declared.

    ``shift`` is what stands in front of the archive, in bytes: every offset in it counts from there.
    """

    begin: int
    size: int
    entries: int
    shift: int


class ZipEntry(NamedTuple):
    """A row of the central directory; ``size`` unpacked and ``packed`` in bytes, ``header_at`` a file offset."""

    name: bytes
    is_stored: bool
    size: int
    packed: int
    header_at: int


def find_directory(tail: bytes, file_size: int) -> ZipDirectory | None:
    """The central directory that the end record in ``tail``, the last bytes of the file, speaks of.

    None if there is no end record, if it speaks of an archive in several files, or if its figures do not fit
    into the file. A comment may hold the mark, too: of several records the last one counts whose comment ends
    with the file, else the last one whose comment fits.
    """
    found = [end for end in _end_records(tail) if end.behind >= 0]
    chosen = next((end for end in found if end.behind == 0), None) or next(iter(found), None)
    return None if chosen is None else _placed(_from_zip64(tail, chosen) or chosen, file_size - len(tail))


class _Figures(NamedTuple):
    """An end record at ``at`` in the tail, with ``behind`` bytes behind its comment."""

    at: int
    behind: int
    disk: int
    first_disk: int
    entries: int
    size: int
    offset: int


def _end_records(tail: bytes) -> Iterator[_Figures]:
    """Every end record that is whole, the last one first."""
    at = tail.rfind(_END_MARK)
    while at >= 0:
        if at + _END.size <= len(tail):
            _, disk, first_disk, _, entries, size, offset, comment = _END.unpack_from(tail, at)
            yield _Figures(at, len(tail) - at - _END.size - comment, disk, first_disk, entries, size, offset)
        at = tail.rfind(_END_MARK, 0, at)


def _from_zip64(tail: bytes, end: _Figures) -> _Figures | None:
    """What the ZIP64 end record says, if the plain one leaves a figure to it."""
    if _IN_EXTRA_32 not in (end.size, end.offset) and _IN_EXTRA_16 not in (end.entries, end.disk, end.first_disk):
        return None
    at = end.at - _LOCATOR.size - _END64.size
    if at < 0 or tail[at + _END64.size :][:4] != _LOCATOR_MARK or tail[at : at + 4] != _END64_MARK:
        return None
    _, _, _, _, disk, first_disk, _, entries, size, offset = _END64.unpack_from(tail, at)
    return _Figures(at, 0, disk, first_disk, entries, size, offset)


def _placed(end: _Figures, tail_begin: int) -> ZipDirectory | None:
    """The directory ends where the end record begins: the difference to where it says it is, is the stub."""
    begin = tail_begin + end.at - end.size
    shift = begin - end.offset
    if end.disk or end.first_disk or begin < 0 or shift < 0:
        return None
    return ZipDirectory(begin, end.size, end.entries, shift)


def entries_of(directory: bytes, shift: int) -> Iterator[ZipEntry]:
    """The rows of a central directory up to its end or its first broken row.

    Encrypted entries are never ``is_stored``: their bytes are not those of what they hold.
    """
    at = 0
    while at + _CENTRAL.size <= len(directory):
        row = _CENTRAL.unpack_from(directory, at)
        mark, flags, method, packed, size = row[0], row[3], row[4], row[8], row[9]
        name_length, extra_length, comment_length, offset = row[10], row[11], row[12], row[16]
        name_at = at + _CENTRAL.size
        extra_at = name_at + name_length
        at = extra_at + extra_length + comment_length
        if mark != _CENTRAL_MARK or at > len(directory):
            return
        figures = (size, packed, offset)
        if _IN_EXTRA_32 in figures:
            figures = _widened(directory[extra_at : extra_at + extra_length], figures)
        is_stored = method == _STORED and not flags & _ENCRYPTED
        size, packed, offset = figures
        yield ZipEntry(directory[name_at:extra_at], is_stored, size, packed, offset + shift)


def _widened(extra: bytes, figures: tuple[int, int, int]) -> tuple[int, int, int]:
    """Each figure that is left to the ZIP64 extra field, from there; as it stands where the field is cut."""
    at = 0
    while at + 4 <= len(extra):
        identifier, length = struct.unpack_from("<HH", extra, at)
        if identifier == _ZIP64_EXTRA:
            values = iter(struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4))
            size, packed, offset = (next(values, each) if each == _IN_EXTRA_32 else each for each in figures)
            return size, packed, offset
        at += 4 + length
    return figures


def data_begin(local: bytes, header_at: int) -> int | None:
    """The file offset of an entry's bytes, from its own header; None if that is none, or says they are packed."""
    if len(local) < _LOCAL.size:
        return None
    mark, _, flags, method, _, _, _, _, _, name_length, extra_length = _LOCAL.unpack_from(local)
    if mark != LOCAL_MARK or method != _STORED or flags & _ENCRYPTED:
        return None
    return header_at + _LOCAL.size + int(name_length) + int(extra_length)


def local_names(head: bytes) -> Iterator[bytes]:
    """Names of the first entries of an archive, as far as they stand in ``head`` whole."""
    at = 0
    for _ in range(_LOCAL_NAMES):
        if not head.startswith(LOCAL_MARK, at) or at + _LOCAL.size > len(head):
            return
        row = _LOCAL.unpack_from(head, at)
        flags, packed, name_length, extra_length = row[2], row[7], row[9], row[10]
        name_at = at + _LOCAL.size
        if name_at + name_length > len(head):
            return
        yield head[name_at : name_at + name_length]
        if flags & _SIZES_FOLLOW:  # they stand behind the data, so where the next entry begins is not known
            return
        at = name_at + name_length + extra_length + packed
