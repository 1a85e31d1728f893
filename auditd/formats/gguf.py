"""The GGUF reader: versions 2 and 3 little-endian, version 3 big-endian.

Fed the bytes of a file from its first one on, in pieces of any size, until ``done``; ``result()`` gives at any
moment what is complete. Returns declarations, standing faults, notices and at most one stopping fault; raises
nothing for any bytes. Front to back: magic, version, two counts, metadata, tensor directory, padding up to the
alignment (GGUF specification; ggml's reader where it is stricter gives a notice that says so).

Each position is computed once, from the one before it. Nothing is allocated or looped over before the count
or length that asks for it is known to fit into the file and the bounds.
"""

from __future__ import annotations

import hashlib
import re
import struct
from typing import TYPE_CHECKING, Final

from auditd.formats import gguf_strings, layouts
from auditd.formats.bounds import (
    GGML_NAME_BYTES,
    GGUF_DIMENSIONS,
    HEADER_BYTES,
    KEY_BYTES,
    NESTING_DEPTH,
    PREVIEW_ELEMENTS,
    STRING_BYTES,
    TENSOR_COUNT,
    U64,
)
from auditd.formats.declarations import (
    ArrayValue,
    ByteOrder,
    GgufHeader,
    GgufTensor,
    MetadataEntry,
    MetadataValue,
    TensorColumns,
)
from auditd.formats.faults import Constraint, Fault, FaultKind, Notice, Tally
from auditd.formats.gguf_places import place
from auditd.formats.quoting import shown
from auditd.formats.retention import Retention
from auditd.formats.uniqueness import NameRegister
from auditd.formats.window import Stopped, Walk, Window, header_bound

if TYPE_CHECKING:
    from collections.abc import Generator

MAGIC: Final = b"GGUF"
HEAD_BYTES: Final = 24
DEFAULT_ALIGNMENT: Final = 32

#: Value type ids on the wire, in their own order.
VALUE_TYPES: Final = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64")
U32, BOOL, STRING, ARRAY = (VALUE_TYPES.index(name) for name in ("u32", "bool", "string", "array"))

#: struct codes of the fixed-size value types.
_CODES: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_SCALARS: Final[dict[ByteOrder, dict[int, struct.Struct]]] = {
    "little": {type_id: struct.Struct("<" + code) for type_id, code in _CODES.items()},
    "big": {type_id: struct.Struct(">" + code) for type_id, code in _CODES.items()},
}

#: The least that one item takes: a count is checked with it before it is believed.
_LEAST_ENTRY: Final = 13  # empty key, value type, one byte
_LEAST_TENSOR: Final = 24  # empty name, no dimension, type, offset
_LEAST_STRING: Final = 8
_LEAST_ARRAY: Final = 12

_VERSIONS: Final[dict[bytes, tuple[int, ByteOrder]]] = {
    b"\2\0\0\0": (2, "little"),
    b"\3\0\0\0": (3, "little"),
    b"\0\0\0\3": (3, "big"),
}

_KEY: Final = re.compile(rb"[a-z0-9]++(?:[._-][a-z0-9]++)*+")
_ALIGNMENT_KEY: Final = b"general.alignment"
_ARCHITECTURE_KEY: Final = b"general.architecture"
_TEMPLATE_KEY: Final = b"tokenizer.chat_template"


class GgufReader:
    """One walk over one header. ``file_size`` in bytes is what lengths and counts are checked against."""

    def __init__(self, file_size: int, retention: Retention | None = None) -> None:
        self._window = Window(file_size)
        self._retention = retention or Retention()
        self._keys = NameRegister()
        self._names = NameRegister()
        self._faults: Tally[Fault] = Tally()
        self._notices: Tally[Notice] = Tally()
        self._stopped: Fault | None = None
        self._version: int | None = None
        self._order: ByteOrder = "little"
        self._metadata_count: int | None = None
        self._tensor_count: int | None = None
        self._alignments: set[int] = set()
        self._alignment_faulty = False
        self._architecture_present = False
        self._metadata: list[MetadataEntry] = []
        self._metadata_done = 0
        self._metadata_end: int | None = None
        self._tensors: list[GgufTensor] = []
        self._columns = TensorColumns()
        self._directory_end: int | None = None
        self._data_offset: int | None = None
        self._furthest_offset = 0
        self._templates: list[tuple[str, str]] = []
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
        if not self.done and self._window.feed(data):
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
        metadata_known = self._metadata_end is not None
        faults = [(self._named(fault), count) for fault, count in self._faults]
        if self._stopped is not None:
            faults.append((self._stopped, 1))
        return GgufHeader(
            file_size=self._window.file_size,
            version=self._version,
            byte_order=self._order if self._version is not None else None,
            tensor_count=self._tensor_count,
            metadata_count=self._metadata_count,
            alignment=self._alignment() if metadata_known or self._alignments else None,
            alignment_declared=bool(self._alignments) if metadata_known or self._alignments else None,
            metadata_end=self._metadata_end,
            directory_end=self._directory_end,
            data_offset=self._data_offset,
            metadata=tuple(self._metadata),
            metadata_done=self._metadata_done,
            tensors=tuple(self._tensors),
            columns=self._columns,
            rows_complete=not self._retention.exhausted,
            templates=tuple(self._templates),
            architecture_present=self._architecture_present,
            complete=self._directory_end is not None,
            stopped=self._stopped,
            faults=tuple(sorted(faults, key=lambda item: item[0].offset)),
            notices=tuple(self._notices),
        )

    def _named(self, fault: Fault) -> Fault:
        """The fault with its place in front of its message, in words and counted from 1."""
        where = place(fault.subject, self._metadata_count, self._tensor_count)
        return Fault(
            fault.constraint,
            fault.kind,
            fault.subject,
            fault.offset,
            f"{where}: {fault.message}",
            fault.expected,
            fault.actual,
        )

    # -- the walk -----------------------------------------------------------------------------------

    def _whole(self) -> Walk:
        yield from self._head()
        for index in range(self._metadata_count or 0):
            yield from self._entry(index)
            self._metadata_done = index + 1
        self._metadata_end = self._window.offset
        yield from self._directory(self._tensor_count or 0)
        self._directory_end = self._window.offset
        self._place_data()

    def _head(self) -> Walk:
        window = self._window
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
        self._tensor_count = yield from self._unsigned(8, "header.tensor_count")
        self._metadata_count = yield from self._unsigned(8, "header.metadata_count")
        self._check_count("header.tensor_count", 8, self._tensor_count, _LEAST_TENSOR, HEAD_BYTES)
        if self._tensor_count > TENSOR_COUNT:
            raise Stopped(
                Fault(
                    Constraint.TENSOR_COUNT,
                    FaultKind.BOUND,
                    "header.tensor_count",
                    8,
                    f"{self._tensor_count} tensors; at most {TENSOR_COUNT} are followed",
                    TENSOR_COUNT,
                    self._tensor_count,
                )
            )
        self._check_count("header.metadata_count", 16, self._metadata_count, _LEAST_ENTRY, HEAD_BYTES)

    def _read_version(self) -> Walk:
        window = self._window
        yield from window.more(4, "header.version")
        raw = window.data[window.pos : window.pos + 4]
        known = _VERSIONS.get(raw)
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
        self._version, self._order = known
        window.pos += 4
        if self._order == "big":
            self._notices.add("big_endian", Notice("big_endian", "header.version", 4, "a big-endian GGUF 3 file"))

    # -- fields -------------------------------------------------------------------------------------

    def _unsigned(self, size: int, subject: str) -> Generator[None, None, int]:
        window = self._window
        if window.end - window.pos < size:
            yield from window.more(size, subject)
        value = int.from_bytes(window.data[window.pos : window.pos + size], self._order)
        window.pos += size
        return value

    def _string(self, subject: str) -> Generator[None, None, bytes]:
        """A string's bytes; a fault of its length is a fault of the field ``<subject>.length``."""
        window = self._window
        at = window.offset
        length = yield from self._unsigned(8, f"{subject}.length")
        if length > window.end - window.pos:
            self._check_length(f"{subject}.length", at, length)
            yield from window.more(length, subject)
        elif length > STRING_BYTES:
            self._check_length(f"{subject}.length", at, length)
        raw = window.data[window.pos : window.pos + length]
        window.pos += length
        return raw

    def _check_length(self, subject: str, at: int, length: int) -> None:
        """A string's length against its bound, the file and the header's bound, in this order."""
        end = at + 8 + length
        past_end = end > self._window.file_size
        if length > STRING_BYTES:
            kind = FaultKind.MALFORMED if past_end else FaultKind.BOUND
            message = f"a string of {length} bytes; no string is longer than {STRING_BYTES}"
            raise Stopped(Fault(Constraint.STRING_LENGTH, kind, subject, at, message, STRING_BYTES, length))
        if past_end:
            left = max(0, self._window.file_size - at - 8)
            kind = FaultKind.MALFORMED if end > HEADER_BYTES else FaultKind.TRUNCATED
            message = f"{length} bytes are declared and {left} are left in the file"
            raise Stopped(Fault(Constraint.LENGTH_PAST_END, kind, subject, at, message, left, length))
        if end > HEADER_BYTES:
            raise Stopped(header_bound(subject, at, end))

    def _check_count(self, subject: str, at: int, count: int, least: int, items_at: int) -> None:
        """``count`` items of at least ``least`` bytes each, the first at ``items_at``, against file and bound."""
        end = items_at + count * least
        if end > self._window.file_size:
            left = self._window.file_size - items_at
            over = end > HEADER_BYTES or (subject == "header.tensor_count" and count > TENSOR_COUNT)
            kind = FaultKind.MALFORMED if over else FaultKind.TRUNCATED
            message = f"{count} items of at least {least} bytes are declared and {left} bytes are left in the file"
            raise Stopped(Fault(Constraint.COUNT_PAST_END, kind, subject, at, message, left // least, count))
        if end > HEADER_BYTES and subject != "header.tensor_count":
            raise Stopped(header_bound(subject, at, end))

    # -- metadata -----------------------------------------------------------------------------------

    def _entry(self, index: int) -> Walk:
        begin = self._window.offset
        path = f"metadata[{index}]"
        key = yield from self._string(f"{path}.key")
        self._judge_key(key, path, begin)
        type_at = self._window.offset
        type_id = yield from self._unsigned(4, f"{path}.type")
        self._check_type(type_id, f"{path}.type", type_at, f" behind the key {shown(key)}")
        value_begin = self._window.offset
        value = yield from self._value(type_id, f"{path}.value", 1)
        if key == _ALIGNMENT_KEY:
            self._take_alignment(type_id, value, path, type_at, value_begin)
        elif key == _ARCHITECTURE_KEY:
            self._architecture_present = True
        elif key.startswith(_TEMPLATE_KEY) and type_id == STRING:
            self._take_template(key, value)
        if self._retention.admit(len(key) + _text_bytes(value)):
            self._metadata.append(
                MetadataEntry(index, key, type_id, value, begin, value_begin, self._window.offset)
            )

    def _judge_key(self, key: bytes, path: str, at: int) -> None:
        subject = f"{path}.key"
        standing = self._keys.judge(key)
        if standing == "duplicate":
            self._fault(Constraint.DUPLICATE_KEY, subject, at, f"{shown(key)} was there before", None, shown(key))
        elif standing == "alias":
            self._notice("name_alias", subject, at, f"{shown(key)} equals another key up to a NUL")
        if len(key) > KEY_BYTES:
            self._notice("key_too_long", subject, at, f"a key of {len(key)} bytes", KEY_BYTES, len(key))
        if _KEY.fullmatch(key) is None:
            self._notice("key_spelling", subject, at, f"{shown(key)} is not spelled like a GGUF key")
            if not gguf_strings.is_utf8(key):
                self._notice("name_not_utf8", subject, at, f"{shown(key)} is not UTF-8")

    @staticmethod
    def _check_type(type_id: int, subject: str, at: int, behind: str = "") -> None:
        if type_id >= len(VALUE_TYPES):
            message = f"value type {type_id}{behind} is none of the thirteen (0 to 12)"
            raise Stopped(Fault(Constraint.VALUE_TYPE, FaultKind.MALFORMED, subject, at, message, "0 to 12", type_id))

    def _value(self, type_id: int, path: str, depth: int) -> Generator[None, None, MetadataValue]:
        """A value; ``depth`` is that of the array it would be."""
        window = self._window
        at = window.offset
        if type_id == STRING:
            raw = yield from self._string(path)
            if not raw.isascii() and not gguf_strings.is_utf8(raw):
                self._notice("text_not_utf8", path, at, "a text value that is not UTF-8")
            return raw
        if type_id == ARRAY:
            return (yield from self._array(path, depth))
        scalar = _SCALARS[self._order][type_id]
        if window.end - window.pos < scalar.size:
            yield from window.more(scalar.size, path)
        value: int | float = scalar.unpack_from(window.data, window.pos)[0]
        window.pos += scalar.size
        if type_id == BOOL and value > 1:
            self._notice("bool_value", path, at, f"a bool of {value}", "0 or 1", int(value))
        return value

    def _array(self, path: str, depth: int) -> Generator[None, None, ArrayValue]:
        window = self._window
        type_at = window.offset
        element_type = yield from self._unsigned(4, f"{path}.element_type")
        self._check_type(element_type, f"{path}.element_type", type_at)
        if element_type == ARRAY:
            if depth == NESTING_DEPTH:
                message = f"an array inside {depth} arrays; at most {NESTING_DEPTH} containers stand inside each other"
                raise Stopped(
                    Fault(
                        Constraint.NESTING,
                        FaultKind.MALFORMED,
                        f"{path}.element_type",
                        type_at,
                        message,
                        NESTING_DEPTH,
                        depth + 1,
                    )
                )
            self._notice("nested_array", f"{path}.element_type", type_at, "an array of arrays")
        count_at = window.offset
        count = yield from self._unsigned(8, f"{path}.count")
        self._check_count(f"{path}.count", count_at, count, self._least(element_type), window.offset)
        preview = []
        for index in range(min(count, PREVIEW_ELEMENTS)):
            preview.append((yield from self._value(element_type, f"{path}[{index}]", depth + 1)))
        if count > PREVIEW_ELEMENTS:
            yield from self._pass_over(element_type, path, PREVIEW_ELEMENTS, count, depth)
        return ArrayValue(element_type, count, tuple(preview))

    def _least(self, type_id: int) -> int:
        if type_id == STRING:
            return _LEAST_STRING
        return _LEAST_ARRAY if type_id == ARRAY else _SCALARS[self._order][type_id].size

    def _pass_over(self, element_type: int, path: str, first: int, count: int, depth: int) -> Walk:
        """Check elements ``first`` to ``count`` and keep none of them."""
        if element_type == STRING:
            yield from self._pass_strings(path, first, count)
        elif element_type == ARRAY:
            for index in range(first, count):
                yield from self._array(f"{path}[{index}]", depth + 1)
        else:
            size = _SCALARS[self._order][element_type].size
            yield from self._pass_scalars(path, first, (count - first) * size, is_bool=element_type == BOOL)

    def _pass_strings(self, path: str, index: int, count: int) -> Walk:
        window = self._window
        while index < count:
            stretch = gguf_strings.walk_strings(window.data, window.pos, window.end, count - index, self._order)
            if stretch.not_utf8:
                subject = f"{path}[{index + stretch.first_index}]"
                at = window.base + stretch.first_pos
                notice = Notice("text_not_utf8", subject, at, "a text value that is not UTF-8")
                self._notices.add("text_not_utf8", notice, stretch.not_utf8)
            window.pos = stretch.pos
            index += stretch.strings
            if index < count:  # the next string is not whole in the window, or never will be
                yield from self._value(STRING, f"{path}[{index}]", 0)
                index += 1

    def _pass_scalars(self, path: str, first: int, size: int, *, is_bool: bool) -> Walk:
        window = self._window
        index = first
        while size:
            if window.pos == window.end:
                yield from window.more(1, path)
            step = min(size, window.end - window.pos)
            if is_bool:
                self._judge_bools(path, index, window.data[window.pos : window.pos + step])
            window.pos += step
            size -= step
            index += step

    def _judge_bools(self, path: str, index: int, raw: bytes) -> None:
        """Bools of an array, the first of which is element ``index`` and stands at the window's position."""
        odd = raw.translate(None, b"\0\1")
        if odd:
            first = raw.index(odd[:1])
            subject = f"{path}[{index + first}]"
            at = self._window.offset + first
            self._notices.add("bool_value", Notice("bool_value", subject, at, f"a bool of {odd[0]}", "0 or 1", odd[0]), len(odd))

    def _take_alignment(self, type_id: int, value: MetadataValue, path: str, type_at: int, value_at: int) -> None:
        if type_id != U32 or not isinstance(value, int):
            self._alignment_faulty = True
            actual = VALUE_TYPES[type_id]
            self._fault(
                Constraint.ALIGNMENT, f"{path}.type", type_at, f"the alignment is a u32, not {actual}", "u32", actual
            )
            return
        if value == 0:
            self._alignment_faulty = True
            self._fault(Constraint.ALIGNMENT, f"{path}.value", value_at, "the alignment is 0", "above 0", 0)
        elif self._alignments and value not in self._alignments:
            self._alignment_faulty = True
            first = min(self._alignments)
            message = f"the alignment is {value} here and {first} before"
            self._fault(Constraint.ALIGNMENT, f"{path}.value", value_at, message, first, value)
        if value % 8:
            self._notice("alignment_not_multiple_of_8", f"{path}.value", value_at, f"the alignment is {value}")
        if value & (value - 1):
            self._notice("alignment_not_power_of_two", f"{path}.value", value_at, f"the alignment is {value}")
        self._alignments.add(value)

    def _take_template(self, key: bytes, value: MetadataValue) -> None:
        name = key[len(_TEMPLATE_KEY) :]
        if isinstance(value, bytes) and name[:1] in (b"", b"."):
            shown = name[1:].decode("utf-8", "backslashreplace") or "default"
            self._templates.append((shown, hashlib.sha256(value).hexdigest()))

    def _alignment(self) -> int | None:
        """The one valid alignment, the default if none is declared, None if that cannot be said."""
        if self._alignment_faulty:
            return None
        return next(iter(self._alignments), DEFAULT_ALIGNMENT)

    # -- directory ----------------------------------------------------------------------------------

    def _directory(self, count: int) -> Walk:
        window = self._window
        alignment = self._alignment()
        mark = "<" if self._order == "little" else ">"
        dims_of = [struct.Struct(f"{mark}{n}Q") for n in range(GGUF_DIMENSIONS + 1)]
        for index in range(count):
            begin = window.offset
            path = f"tensors[{index}]"
            name = yield from self._string(f"{path}.name")
            n_dims_at = window.offset
            n_dims = yield from self._unsigned(4, f"{path}.n_dims")
            if n_dims > GGUF_DIMENSIONS:
                message = f"{shown(name)} has {n_dims} dimensions; a GGUF tensor has at most {GGUF_DIMENSIONS}"
                raise Stopped(
                    Fault(
                        Constraint.DIMENSIONS,
                        FaultKind.MALFORMED,
                        f"{path}.n_dims",
                        n_dims_at,
                        message,
                        GGUF_DIMENSIONS,
                        n_dims,
                    )
                )
            if window.end - window.pos < n_dims * 8:
                yield from window.more(n_dims * 8, f"{path}.dims")
            dims_at = window.offset
            shape = dims_of[n_dims].unpack_from(window.data, window.pos)
            window.pos += n_dims * 8
            type_id = yield from self._unsigned(4, f"{path}.type")
            offset = yield from self._unsigned(8, f"{path}.offset")
            self._take_tensor(index, name, shape, type_id, offset, alignment, begin, dims_at)

    def _take_tensor(
        self,
        index: int,
        name: bytes,
        shape: tuple[int, ...],
        type_id: int,
        offset: int,
        alignment: int | None,
        begin: int,
        dims_at: int,
    ) -> None:
        path = f"tensors[{index}]"
        self._judge_name(name, path, begin)
        elements = self._elements(shape, name, path, dims_at)
        row = shape[0] if shape else 1
        multiple = layouts.row_multiple(type_id)
        whole = row % multiple == 0
        if not whole:
            label = layouts.type_label(type_id)
            message = f"{shown(name)} has rows of {row} elements; {label} is stored in blocks of {multiple}"
            self._fault(Constraint.ROW_BLOCKS, f"{path}.dims", dims_at, message, f"a multiple of {multiple}", row)
        end = self._window.offset
        if elements:
            self._judge_offset(offset, alignment, name, path, end - 8)
        self._judge_type(type_id, elements, name, path, end - 12)
        self._columns.append(type_id, offset, elements, row, whole=whole)
        if self._retention.admit(len(name) + 8 * len(shape)):
            sound = whole and elements is not None
            self._tensors.append(GgufTensor(index, name, shape, type_id, offset, elements, sound, begin, end))

    def _judge_name(self, name: bytes, path: str, at: int) -> None:
        subject = f"{path}.name"
        standing = self._names.judge(name)
        if standing == "duplicate":
            message = f"a tensor {shown(name)} was there before"
            self._fault(Constraint.DUPLICATE_NAME, subject, at, message, None, shown(name))
        elif standing == "alias":
            self._notice("name_alias", subject, at, f"{shown(name)} equals another tensor's name up to a NUL")
        if len(name) > GGML_NAME_BYTES:
            message = f"{shown(name)} has {len(name)} bytes; ggml takes {GGML_NAME_BYTES}"
            self._notice("name_too_long", subject, at, message, GGML_NAME_BYTES, len(name))
        if not name.isascii() and not gguf_strings.is_utf8(name):
            self._notice("name_not_utf8", subject, at, f"{shown(name)} is not UTF-8")

    def _elements(self, shape: tuple[int, ...], name: bytes, path: str, at: int) -> int | None:
        """The product of the dimensions in declaration order; None if it passes u64 on the way."""
        elements = 1
        for dimension in shape:
            if dimension >= 1 << 63:
                message = f"{shown(name)} has a dimension of {dimension}"
                self._notice("dimension_beyond_int64", f"{path}.dims", at, message, str(2**63 - 1), str(dimension))
            elements *= dimension
            if elements >= U64:
                product = " x ".join(map(str, shape))
                message = f"{shown(name)} has {product} elements, which no 64-bit count holds"
                self._fault(Constraint.SHAPE_OVERFLOW, f"{path}.dims", at, message, "below 2^64", product)
                return None
        return elements

    def _judge_offset(self, offset: int, alignment: int | None, name: bytes, path: str, at: int) -> None:
        """For a non-empty tensor: on the alignment, and not in front of one that stands before it."""
        subject = f"{path}.offset"
        if alignment is not None and offset % alignment:
            message = f"{shown(name)} begins at offset {offset}, which is no multiple of {alignment}"
            self._notice("offset_misaligned", subject, at, message, f"a multiple of {alignment}", offset)
        if offset < self._furthest_offset:
            message = f"{shown(name)} begins at offset {offset}, before tensors that the directory lists before it"
            self._notice("directory_order", subject, at, message, None, offset)
        else:
            self._furthest_offset = offset

    def _judge_type(self, type_id: int, elements: int | None, name: bytes, path: str, at: int) -> None:
        if layouts.is_removed(type_id):
            message = f"{shown(name)} has type {type_id} ({layouts.REMOVED[type_id]}), which ggml has removed"
            self._notice("removed_type", f"{path}.type", at, message, None, type_id)
        elif elements == 0 and not layouts.is_known(type_id):
            message = f"{shown(name)} is empty and of type {type_id}, which no release knows"
            self._notice("unknown_type", f"{path}.type", at, message, None, type_id)

    def _place_data(self) -> None:
        """Where the data starts: with tensors the aligned offset; with none, where the file allows."""
        alignment = self._alignment()
        header_end = self._window.offset
        if alignment is None:
            return
        aligned = -(-header_end // alignment) * alignment
        size = self._window.file_size
        if self._tensor_count or size >= aligned:
            self._data_offset = header_end if not self._tensor_count and size == header_end else aligned
        elif size == header_end:
            self._data_offset = header_end
        else:
            message = (
                f"no tensors, and the file ends {size - header_end} bytes after its directory: "
                f"neither there nor at the aligned offset {aligned}"
            )
            self._fault(Constraint.PARTIAL_GAP, "header.padding", header_end, message, aligned - header_end, size - header_end)

    # -- reports ------------------------------------------------------------------------------------

    def _fault(
        self,
        constraint: Constraint,
        subject: str,
        offset: int,
        message: str,
        expected: int | str | None = None,
        actual: int | str | None = None,
    ) -> None:
        """Report a standing fault."""
        self._faults.add(
            constraint, Fault(constraint, FaultKind.MALFORMED, subject, offset, message, expected, actual)
        )

    def _notice(
        self,
        code: str,
        subject: str,
        offset: int | None,
        message: str,
        expected: int | str | None = None,
        actual: int | str | None = None,
    ) -> None:
        self._notices.add(code, Notice(code, subject, offset, message, expected, actual))


def _text_bytes(value: MetadataValue) -> int:
    """What a value keeps as text, in bytes, plus eight for each element of a preview."""
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, ArrayValue):
        return sum(8 + _text_bytes(element) for element in value.preview)
    return 0

