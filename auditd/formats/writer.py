"""A GGUF writer, and the small known file: a reader without a writer beside it only agrees with itself.

For files that are built to be read back - the sketch, tests - not for models: everything is made in memory.
The span of each field is what the writer's own counter said as it went past; nothing is counted twice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from auditd.formats.declarations import ByteOrder
from auditd.formats.gguf.wire import DEFAULT_ALIGNMENT, MAGIC, VALUE_TYPES

#: Text and bytes for a string, a list for an array, with the element type in the entry.
Value: TypeAlias = "int | float | str | bytes | list[Value]"

_CODES: Final = dict(zip(VALUE_TYPES, "BbHhIifB..QqdL", strict=False))

SKETCH_ALIGNMENT: Final = 64
SKETCH_VALUES: Final = (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
SKETCH_VERSION: Final = 3
SKETCH_TENSOR: Final = "blk.0.counts.weight"
SKETCH_SHAPE: Final = (3, 2)
#: F32.
SKETCH_TYPE: Final = 0
#: Where its last tensor entry ends, at any alignment.
SKETCH_HEADER_END: Final = 327


class Span(NamedTuple):
    """A field in the file: where it begins, how long it is, what it is called."""

    begin: int
    length: int
    field: str


class Entry(NamedTuple):
    """A metadata entry. ``type`` is a value type name; ``element_type`` one, or nested, for an array."""

    key: str | bytes
    type: str
    value: Value
    element_type: str = ""


class Tensor(NamedTuple):
    """A tensor: shape fastest first, type id, and its bytes; ``offset`` None follows the one before, padded."""

    name: str | bytes
    shape: Sequence[int]
    type_id: int
    data: bytes = b""
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A file's bytes with the span of every field, in file order."""

    data: bytes
    spans: tuple[Span, ...]


class _Emitter:
    def __init__(self, byte_order: ByteOrder) -> None:
        self.mark = "<" if byte_order == "little" else ">"
        self.out = bytearray()
        self.spans: list[Span] = []

    def number(self, code: str, value: float) -> None:
        self.out += struct.pack(self.mark + code, value)

    def string(self, text: str | bytes) -> None:
        raw = text.encode("utf-8") if isinstance(text, str) else text
        self.number("Q", len(raw))
        self.out += raw

    def span(self, begin: int, field: str) -> None:
        self.spans.append(Span(begin, len(self.out) - begin, field))

    def value(self, type_name: str, value: Value, element_type: str) -> None:
        if type_name == "array":
            self._array(value, element_type)
        elif type_name == "string":
            if not isinstance(value, (str, bytes)):
                message = f"a string entry takes text or bytes, not {value!r}"
                raise TypeError(message)
            self.string(value)
        elif isinstance(value, (int, float)):
            self.number(_CODES[type_name], value)
        else:
            message = f"a {type_name} entry takes a number, not {value!r}"
            raise TypeError(message)

    def _array(self, value: Value, element_type: str) -> None:
        if not isinstance(value, list):
            message = f"an array entry takes a list, not {value!r}"
            raise TypeError(message)
        outer, _, inner = element_type.partition(":")
        self.number("I", VALUE_TYPES.index(outer))
        self.number("Q", len(value))
        for element in value:
            self.value(outer, element, inner)


def write_gguf(
    metadata: Sequence[Entry],
    tensors: Sequence[Tensor],
    *,
    version: int = 3,
    byte_order: ByteOrder = "little",
    alignment: int = DEFAULT_ALIGNMENT,
    pad_tail: bool = False,
) -> Written:
    """Write a file. ``alignment`` is what is padded to; declaring it is an entry like any other.

    A nested array's element type is written ``array:u8``. ``pad_tail`` pads behind the last tensor, too, as
    llama.cpp's writer does.
    """
    emit = _Emitter(byte_order)
    _head(emit, version, len(tensors), len(metadata))
    for entry in metadata:
        begin = len(emit.out)
        emit.string(entry.key)
        emit.number("I", VALUE_TYPES.index(entry.type))
        emit.value(entry.type, entry.value, entry.element_type)
        emit.span(begin, f"metadata: {_text(entry.key)} ({entry.type})")
    _directory(emit, tensors, alignment)
    if tensors:
        _pad(emit, alignment, f"padding up to the declared alignment of {alignment}")
        _data(emit, tensors, alignment)
        if pad_tail:
            _pad(emit, alignment, "padding behind the last tensor")
    return Written(bytes(emit.out), tuple(emit.spans))


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def _head(emit: _Emitter, version: int, tensors: int, entries: int) -> None:
    emit.out += MAGIC
    emit.span(0, "magic: the four bytes GGUF")
    for code, number, field in (
        ("I", version, "version, a u32"),
        ("Q", tensors, "how many tensors, a u64"),
        ("Q", entries, "how many metadata entries, a u64"),
    ):
        begin = len(emit.out)
        emit.number(code, number)
        emit.span(begin, field)


def _directory(emit: _Emitter, tensors: Sequence[Tensor], alignment: int) -> None:
    offset = 0
    for tensor in tensors:
        begin = len(emit.out)
        offset = offset if tensor.offset is None else tensor.offset
        emit.string(tensor.name)
        emit.number("I", len(tensor.shape))
        for dimension in tensor.shape:
            emit.number("Q", dimension)
        emit.number("I", tensor.type_id)
        emit.number("Q", offset)
        emit.span(begin, f"tensor entry: {_text(tensor.name)}")
        offset += len(tensor.data) + -len(tensor.data) % alignment


def _pad(emit: _Emitter, alignment: int, field: str) -> None:
    begin = len(emit.out)
    emit.out += bytes(-begin % alignment)
    emit.span(begin, field)


def _data(emit: _Emitter, tensors: Sequence[Tensor], alignment: int) -> None:
    """Tensor data in directory order, or where an offset says, as far as that is behind what is written."""
    start = len(emit.out)
    for tensor in tensors:
        due = len(emit.out) + -len(emit.out) % alignment
        if tensor.offset is not None and start + tensor.offset >= len(emit.out):
            due = start + tensor.offset
        emit.out += bytes(due - len(emit.out))
        begin = len(emit.out)
        emit.out += tensor.data
        emit.span(begin, f"tensor data: {_text(tensor.name)}")


def sketch_size(alignment: int) -> int:
    """Bytes of the small known file at an alignment of 1 or more."""
    return -(-SKETCH_HEADER_END // alignment) * alignment + 4 * len(SKETCH_VALUES)


def sketch_metadata(alignment: int) -> tuple[Entry, ...]:
    """The entries of the small known file: text, two numbers and an array."""
    return (
        Entry("general.architecture", "string", "counts"),
        Entry("general.name", "string", "one page's own counting"),
        Entry("general.alignment", "u32", alignment),
        Entry("counts.block_count", "u32", 1),
        Entry("counts.tokens", "array", ["same", "blocks", "again"], "string"),
    )


def sketch(alignment: int = SKETCH_ALIGNMENT) -> Written:
    """The small known file: five entries, one tensor of six numbers, and padding that is not empty.

    408 bytes at the alignment of 64, which the file declares; its header ends at 327 at any alignment. Everything is
    made in memory, padding included, so :func:`sketch_size` is asked first.
    """
    data = struct.pack(f"<{len(SKETCH_VALUES)}f", *SKETCH_VALUES)
    tensor = Tensor(SKETCH_TENSOR, SKETCH_SHAPE, SKETCH_TYPE, data)
    return write_gguf(sketch_metadata(alignment), (tensor,), version=SKETCH_VERSION, alignment=alignment)
