"""Model files made byte by byte with ``struct``: the tests' own account of both formats.

Nothing here uses the package's writer or tables. Every builder also says where it put each field, so a test
can know what a reader has to say without asking a reader.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, settings

from auditd.evidence.record import Evidence, Finding, Producer
from auditd.inspection.request import Request, carry_on, unwatched

#: Where the collection of input files is, if this checkout has one beside it.
CASES: Final = Path(__file__).resolve().parents[2] / "shared" / "cases"

#: Value types of GGUF metadata by name.
KINDS: Final[dict[str, int]] = {
    "u8": 0,
    "i8": 1,
    "u16": 2,
    "i16": 3,
    "u32": 4,
    "i32": 5,
    "f32": 6,
    "bool": 7,
    "string": 8,
    "array": 9,
    "u64": 10,
    "i64": 11,
    "f64": 12,
}

#: ``struct`` letters and sizes of the plain value types.
PLAIN: Final[dict[str, tuple[str, int]]] = {
    "u8": ("B", 1),
    "i8": ("b", 1),
    "u16": ("H", 2),
    "i16": ("h", 2),
    "u32": ("I", 4),
    "i32": ("i", 4),
    "f32": ("f", 4),
    "bool": ("B", 1),
    "u64": ("Q", 8),
    "i64": ("q", 8),
    "f64": ("d", 8),
}

F32, F16, Q4_0, Q8_0, Q8_1, Q4_K, Q6_K, BF16 = 0, 1, 2, 8, 9, 12, 14, 30

PRODUCER: Final = Producer(name="model-auditd", version="0", host="here", configuration="0" * 64)


def property_test(examples: int = 100) -> settings:
    """Settings for a property test: no deadline, because a slow machine is not a fault."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )


def round_up(position: int, alignment: int) -> int:
    """The first multiple of ``alignment`` at or after ``position``."""
    return (position + alignment - 1) // alignment * alignment


@dataclass(frozen=True)
class Entry:
    """A metadata entry; ``raw`` replaces everything behind the key's bytes, the value type included."""

    key: str | bytes
    kind: str = "u32"
    value: Any = 0
    raw: bytes | None = None


@dataclass(frozen=True)
class Tensor:
    """A directory entry; ``offset`` None means: behind the one before it, padded (``length`` says how long)."""

    name: str | bytes
    dims: Sequence[int]
    type_id: int = F32
    offset: int | None = None
    length: int | None = None


@dataclass(frozen=True)
class Array:
    """The value of an array entry or element; ``items`` as bytes are written as they are, one byte an element."""

    kind: str
    items: Sequence[Any]
    count: int | None = None


@dataclass(frozen=True)
class Span:
    """One field of a header: its path, its first byte, its length."""

    subject: str
    begin: int
    length: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.begin + self.length


@dataclass
class Built:
    """A file, where its parts are, and the span of every field of its header in file order."""

    data: bytes
    header_end: int
    data_offset: int
    spans: list[Span] = field(default_factory=list)

    def span(self, subject: str) -> Span:
        """The span of one field."""
        return next(span for span in self.spans if span.subject == subject)

    def at(self, subject: str) -> int:
        """The first byte of one field."""
        return self.span(subject).begin


class _Header:
    def __init__(self, endian: str) -> None:
        self.endian = endian
        self.out = bytearray()
        self.spans: list[Span] = []

    def put(self, subject: str, raw: bytes) -> None:
        self.spans.append(Span(subject, len(self.out), len(raw)))
        self.out += raw

    def number(self, subject: str, letter: str, value: float) -> None:
        self.put(subject, struct.pack(self.endian + letter, value))

    def string(self, subject: str, text: str | bytes) -> None:
        raw = text.encode() if isinstance(text, str) else text
        self.number(subject + ".length", "Q", len(raw))
        self.put(subject, raw)

    def value(self, subject: str, kind: str, value: Any) -> None:
        if kind == "string":
            self.string(subject, value)
        elif kind == "array":
            self.number(subject + ".element_type", "I", KINDS[value.kind])
            self.number(subject + ".count", "Q", len(value.items) if value.count is None else value.count)
            if isinstance(value.items, bytes):  # elements as they stand in the file
                self.put(subject + ".elements", value.items)
                return
            for position, item in enumerate(value.items):
                self.value(f"{subject}[{position}]", value.kind, item)
        else:
            self.number(subject, PLAIN[kind][0], value)


def f32_length(dims: Sequence[int], type_id: int) -> int:
    """Bytes of a tensor of one of the few types the builders size themselves."""
    block, size = {
        F32: (1, 4),
        F16: (1, 2),
        Q4_0: (32, 18),
        Q8_0: (32, 34),
        Q8_1: (32, 36),
        Q4_K: (256, 144),
        Q6_K: (256, 210),
        BF16: (1, 2),
        3: (32, 20),
        6: (32, 22),
        7: (32, 24),
        26: (1, 4),
        27: (1, 8),
        28: (1, 8),
        34: (256, 54),
        35: (256, 66),
        39: (32, 17),
        40: (64, 36),
        41: (128, 18),
    }[type_id]
    elements = 1
    for dim in dims:
        elements *= dim
    return elements // block * size


def gguf(
    metadata: Sequence[Entry] = (),
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    endian: str = "<",
    magic: bytes = b"GGUF",
    alignment: int = 32,
    metadata_count: int | None = None,
    tensor_count: int | None = None,
    data: bytes | None = None,
    data_length: int | None = None,
) -> Built:
    """A GGUF file. ``alignment`` is what the writer pads to; declaring it is an entry like any other.

    Data is zeros up to the end of the last tensor, unpadded, unless ``data`` or ``data_length`` says otherwise.
    """
    header = _Header(endian)
    header.put("header.magic", magic)
    header.number("header.version", "I", version)
    header.number("header.tensor_count", "Q", len(tensors) if tensor_count is None else tensor_count)
    header.number("header.metadata_count", "Q", len(metadata) if metadata_count is None else metadata_count)
    for index, entry in enumerate(metadata):
        subject = f"metadata[{index}]"
        header.string(subject + ".key", entry.key)
        if entry.raw is not None:
            header.put(subject + ".raw", entry.raw)
            continue
        header.number(subject + ".type", "I", KINDS[entry.kind])
        header.value(subject + ".value", entry.kind, entry.value)
    free = end = 0
    for index, tensor in enumerate(tensors):
        subject = f"tensors[{index}]"
        header.string(subject + ".name", tensor.name)
        header.number(subject + ".n_dims", "I", len(tensor.dims))
        header.put(subject + ".dims", struct.pack(f"{endian}{len(tensor.dims)}Q", *tensor.dims))
        header.number(subject + ".type", "I", tensor.type_id)
        offset = free if tensor.offset is None else tensor.offset
        header.number(subject + ".offset", "Q", offset)
        if data is None and data_length is None:
            length = f32_length(tensor.dims, tensor.type_id) if tensor.length is None else tensor.length
            free = round_up(offset + length, alignment)
            end = max(end, offset + length)
    header_end = len(header.out)
    data_offset = round_up(header_end, alignment) if alignment else header_end
    header.put("header.padding", bytes(data_offset - header_end))
    if data is None:
        data = bytes(end if data_length is None else data_length)
    if not tensors and not data:
        return Built(bytes(header.out[:header_end]), header_end, header_end, header.spans[:-1])
    return Built(bytes(header.out) + data, header_end, data_offset, header.spans)


#: ``general.architecture``: files without it carry one more finding than a test wants.
ARCHITECTURE: Final = Entry("general.architecture", "string", "test")


def simple(*tensors: Tensor, **options: Any) -> Built:
    """A GGUF with an architecture and these tensors."""
    return gguf([ARCHITECTURE], tensors, **options)


def aligned(alignment: int) -> Entry:
    """The entry that declares an alignment."""
    return Entry("general.alignment", "u32", alignment)


def sketch(alignment: int | None = 64) -> Built:
    """The small known file: 408 bytes at alignment 64, six weights."""
    metadata = [
        Entry("general.architecture", "string", "counts"),
        Entry("general.name", "string", "one page of this ledger"),
        Entry("general.alignment", "u32", alignment),
        Entry("counts.block_count", "u32", 1),
        Entry("counts.tokens", "array", Array("string", ["<pad>", "one", "counted"])),
    ]
    if alignment is None:
        del metadata[2]
    weights = struct.pack("<6f", 0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    tensors = [Tensor("blk.0.counts.weight", (3, 2), F32, 0)]
    return gguf(metadata, tensors, alignment=alignment or 32, data=weights)


def safetensors(header: dict[str, Any] | bytes | str, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file; ``length`` is what the prefix claims if not the truth."""
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"))
    raw = header.encode("utf-8", "surrogatepass") if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def st_entry(dtype: str, shape: Sequence[int], begin: int, end: int) -> dict[str, Any]:
    """One entry of a safetensors header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def observation(path: str | bytes | Path, **options: Any) -> Evidence:
    """One inspection of a path, with nothing that stops it."""
    from auditd.inspection.inspector import inspect

    return inspect(Request(path=os.fsencode(path), producer=PRODUCER, **options), carry_on, unwatched)


def observe_artifact(directory: Path, data: bytes, name: str = "model.gguf", **options: Any) -> Evidence:
    """One inspection of these bytes."""
    path = directory / name
    path.write_bytes(data)
    return observation(path, **options)


def look_at_sparse(directory: Path, data: bytes, size: int, name: str = "model.gguf", **options: Any) -> Evidence:
    """One inspection of a file that begins with these bytes and is made longer, with a hole, to ``size``."""
    path = directory / name
    path.write_bytes(data)
    os.truncate(path, size)
    return observation(path, **options)


def finding(evidence: Evidence, code: str, constraint: str | None = None) -> Finding:
    """The one finding of this code (and constraint)."""
    hits = [
        item
        for item in evidence.findings
        if item.code == code and (constraint is None or item.constraint == constraint)
    ]
    assert len(hits) == 1, [(item.code, item.constraint) for item in evidence.findings]
    return hits[0]


def codes(evidence: Evidence) -> set[str]:
    """The codes of all findings."""
    return {item.code for item in evidence.findings}


def parts(evidence: Evidence) -> dict[str, int | None]:
    """The figures of the account that a brute-force count gives, too."""
    figures = evidence.accounting
    assert figures is not None
    return {
        "data_offset": figures.data_offset,
        "tensor_bytes": figures.tensor_bytes,
        "alignment_padding": figures.alignment_padding,
        "remainder": figures.remainder,
        "surplus": figures.surplus,
        "missing": figures.missing,
        "overlap": figures.overlap,
        "residue": figures.residue,
    }
