"""Every field of a file, front to back: what it is called, where it begins and ends. For ``show fields``.

The coarse level has whole metadata entries and tensor entries, the fine level each field inside them, under the path
that faults use (``metadata[4].value[1].length``). A stream: nothing is kept, and fields that lie in the file cover it
once, whatever is wrong with the header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from auditd.accounting.account import no_pulse
from auditd.accounting.segments import Segment, segments
from auditd.accounting.sizes import sizings_of
from auditd.evidence.observation import Observation
from auditd.formats import layouts
from auditd.formats.declarations import ArrayValue, GgufHeader, GgufTensor, MetadataEntry, MetadataValue
from auditd.formats.gguf.elements import FIXED_BYTES, extent_of
from auditd.formats.gguf.wire import ARRAY, HEAD_BYTES, STRING, VALUE_TYPES

#: Length in front of a text, a value type or a number of dimensions, a count or a position.
_LENGTH, _U32, _U64 = 8, 4, 8

_HEAD: Final = (
    ("header.magic", 0, 4, "magic: the four bytes GGUF"),
    ("header.version", 4, 8, "version, a u32"),
    ("header.tensor_count", 8, 16, "how many tensors, a u64"),
    ("header.metadata_count", 16, HEAD_BYTES, "how many metadata entries, a u64"),
)

#: What a stretch without an owner is called.
_PLAIN: Final = {
    "json": "the JSON of the header",
    "padding": "padding behind a tensor",
    "gap": "gap: bytes that belong to nothing",
    "trailing": "trailing: bytes that belong to nothing",
    "padding_partial": "padding that was not finished",
    "overlap": "bytes that several tensors claim",
    "missing": "missing: bytes before the data that are not there",
    "unknown": "bytes of which nobody can say whose they are",
    "unread": "not read",
    "metadata": "metadata entries that were not kept",
    "directory": "tensor entries that were not kept",
}


class Field(NamedTuple):
    """One field, ``end`` excluded.

    ``subject`` is its path, empty for what has none. Its name is ``before``, the exact bytes of a key or name, and
    ``after``. ``tensor`` is the index of the tensor that it declares or holds.
    """

    begin: int
    end: int
    kind: str
    subject: str
    before: str
    label: bytes = b""
    after: str = ""
    tensor: int | None = None


def fields(observation: Observation, *, fine: bool, pulse: Callable[[], None] = no_pulse) -> Iterator[Field]:
    """Every field of the file of ``look``; those past its end are what is missing of it.

    ``pulse`` is called now and then and may raise to end it.
    """
    header = observation.header
    for segment in segments(header, observation.account, observation.size or 0, pulse):
        if segment.kind == "head":
            yield from _head(header)
        elif segment.kind == "metadata" and segment.owner is not None:
            entry = _entry(header, segment.owner)
            yield from _metadata_fields(entry) if fine else (_metadata(entry),)
        elif segment.kind == "directory" and isinstance(header, GgufHeader):
            yield from _directory(header, segment, fine=fine)
        elif segment.kind == "unread" and segment.begin == 0:
            yield from _begun(observation, segment)
        else:
            yield _other(observation, segment)


def _entry(header: object, index: int) -> MetadataEntry:
    assert isinstance(header, GgufHeader)  # noqa: S101 - no other format has such segments
    return header.metadata[index]


def _head(header: object) -> Iterator[Field]:
    if isinstance(header, GgufHeader):
        yield from (Field(begin, end, "head", subject, name) for subject, begin, end, name in _HEAD)
    else:
        yield Field(0, _LENGTH, "head", "safetensors.header_length", "length of the JSON, a u64")


def _begun(observation: Observation, segment: Segment) -> Iterator[Field]:
    """A file whose head was not read to its end: the fields before the place where the reading stopped."""
    stopped = None if observation.header is None else observation.header.stopped
    begin = 0
    if isinstance(observation.header, GgufHeader) and stopped is not None:
        for subject, at, end, name in _HEAD:
            if end > stopped.offset or end > segment.end:
                break
            yield Field(at, end, "head", subject, name)
            begin = end
    if begin < segment.end:
        yield Field(begin, segment.end, "unread", "", _PLAIN["unread"])


def _other(observation: Observation, segment: Segment) -> Field:
    if segment.kind == "header_padding":
        return Field(segment.begin, segment.end, segment.kind, "header.padding", _header_padding(observation))
    if segment.owner is None:
        return Field(segment.begin, segment.end, segment.kind, "", _PLAIN[segment.kind])
    before = {"tensor": "tensor data: ", "missing": "missing: of "}.get(segment.kind, "behind ")
    after = _weights(observation, segment) if segment.kind == "tensor" else ""
    if segment.kind == "unknown":
        after = ", whose size is not known"
    subject = f"tensors[{segment.owner}].data"
    return Field(segment.begin, segment.end, segment.kind, subject, before, segment.label, after, segment.owner)


def _header_padding(observation: Observation) -> str:
    header = observation.header
    if not isinstance(header, GgufHeader) or header.alignment is None:
        return "padding"
    word = "declared" if header.alignment_declared else "default"
    return f"padding up to the {word} alignment of {header.alignment:,}"


def _weights(observation: Observation, segment: Segment) -> str:
    """How many weights of which type, where the stretch is all of the tensor."""
    header, index = observation.header, segment.owner
    if header is None or index is None or index >= len(header.tensors):
        return f" ({segment.type})"
    elements = header.tensors[index].elements
    if elements is None or _length(observation, index, elements) != segment.length:
        return f", a part of its {segment.type} weights"
    return f", {elements:,} {segment.type} {'weight' if elements == 1 else 'weights'}"


def _length(observation: Observation, index: int, elements: int) -> int | None:
    """Bytes of a tensor under the selected layout."""
    header = observation.header
    if isinstance(header, GgufHeader):
        tensor = header.tensors[index]
        sizing = sizings_of(observation.account).get(tensor.type_id)
        return None if sizing is None else sizing.byte_length(elements, tensor.shape[0] if tensor.shape else 1)
    assert header is not None  # noqa: S101 - the caller has asked
    return header.tensors[index].end - header.tensors[index].begin


# -- entries ----------------------------------------------------------------------------------------


def _metadata(entry: MetadataEntry) -> Field:
    after = f" ({VALUE_TYPES[entry.type_id]})"
    return Field(entry.begin, entry.end, "metadata", f"metadata[{entry.index}]", "metadata: ", entry.key, after)


def _directory(header: GgufHeader, segment: Segment, *, fine: bool) -> Iterator[Field]:
    end = segment.begin
    for tensor in header.tensors:
        yield from _tensor_fields(tensor) if fine else (_tensor(tensor),)
        end = tensor.end
    if end < segment.end:
        yield Field(end, segment.end, "directory", "", _PLAIN["directory"])


def _tensor(tensor: GgufTensor) -> Field:
    subject = f"tensors[{tensor.index}]"
    return Field(tensor.begin, tensor.end, "directory", subject, "tensor entry: ", tensor.name, "", tensor.index)


class _Cursor:
    """Fields one behind the other, each from where the one before it ended."""

    def __init__(self, begin: int, kind: str, tensor: int | None = None) -> None:
        self.at = begin
        self._kind = kind
        self._tensor = tensor

    def take(self, size: int, subject: str, before: str, label: bytes = b"") -> Field:
        """The next ``size`` bytes."""
        begin, self.at = self.at, self.at + size
        return Field(begin, self.at, self._kind, subject, before, label, "", self._tensor)


def _metadata_fields(entry: MetadataEntry) -> Iterator[Field]:
    path = f"metadata[{entry.index}]"
    cursor = _Cursor(entry.begin, "metadata")
    yield cursor.take(_LENGTH, f"{path}.key.length", "length of the key")
    yield cursor.take(len(entry.key), f"{path}.key", "key: ", entry.key)
    yield cursor.take(_U32, f"{path}.type", f"value type: {VALUE_TYPES[entry.type_id]} ({entry.type_id})")
    yield from _value(cursor, entry.type_id, entry.value, f"{path}.value", "the value")
    if cursor.at < entry.end and isinstance(entry.value, ArrayValue):
        yield cursor.take(entry.end - cursor.at, f"{path}.value", f"the rest of {entry.value.count:,} elements")


def _value(cursor: _Cursor, type_id: int, value: MetadataValue, path: str, what: str) -> Iterator[Field]:
    """The fields of a value, as far as their places follow from what is kept of it."""
    if isinstance(value, ArrayValue):
        yield from _array(cursor, value, path)
    elif type_id == STRING and isinstance(value, bytes):
        yield cursor.take(_LENGTH, f"{path}.length", f"length of {what}")
        yield cursor.take(len(value), path, f"{what}, a string")
    else:
        yield cursor.take(FIXED_BYTES[type_id], path, f"{what}: {value!r}")


def _array(cursor: _Cursor, array: ArrayValue, path: str) -> Iterator[Field]:
    """Its head and the elements that are kept; it ends early at an element whose end does not follow.

    Bounded: arrays stand in each other at most 32 deep, and a header keeps as many elements as its budget allows.
    """
    name = VALUE_TYPES[array.element_type]
    yield cursor.take(_U32, f"{path}.element_type", f"element type: {name} ({array.element_type})")
    yield cursor.take(_U64, f"{path}.count", f"how many elements: {array.count:,}")
    for index, element in enumerate(array.preview):
        yield from _value(cursor, array.element_type, element, f"{path}[{index}]", f"element {index + 1}")
        if array.element_type == ARRAY and not extent_of(ARRAY, element).known:
            return


def _tensor_fields(tensor: GgufTensor) -> Iterator[Field]:
    path = f"tensors[{tensor.index}]"
    cursor = _Cursor(tensor.begin, "directory", tensor.index)
    yield cursor.take(_LENGTH, f"{path}.name.length", "length of the name")
    yield cursor.take(len(tensor.name), f"{path}.name", "name: ", tensor.name)
    yield cursor.take(_U32, f"{path}.n_dims", f"how many dimensions: {len(tensor.shape)}")
    if tensor.shape:
        yield cursor.take(_U64 * len(tensor.shape), f"{path}.dims", f"dimensions: {' x '.join(map(str, tensor.shape))}")
    yield cursor.take(_U32, f"{path}.type", f"type: {layouts.type_label(tensor.type_id)} ({tensor.type_id})")
    yield cursor.take(_U64, f"{path}.offset", f"offset from the data start: {tensor.offset:,}")
