"""What a header says, as frozen values: metadata entries, tensors, and columns for the accounting."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from auditd.formats.faults import Fault, Notice

ByteOrder: TypeAlias = Literal["little", "big"]


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """A metadata array: its declared element type id and count, and at most eight elements."""

    element_type: int
    count: int
    preview: tuple[MetadataValue, ...]

    @property
    def preview_complete(self) -> bool:
        """Whether the preview is all of it."""
        return len(self.preview) == self.count


#: bytes for a string; bool is the integer that stands in the file; f32 is the exact double.
MetadataValue: TypeAlias = int | float | bytes | ArrayValue


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """One GGUF metadata entry; ``begin`` and ``value_begin`` are file offsets in bytes."""

    index: int
    key: bytes
    type_id: int
    value: MetadataValue
    begin: int
    value_begin: int
    end: int


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One entry of a GGUF tensor directory.

    ``shape`` is fastest first; ``elements`` is None if the product overflows u64; ``offset`` is relative to
    the data start, ``begin`` and ``end`` are where the entry itself stands in the file.
    """

    index: int
    name: bytes
    shape: tuple[int, ...]
    type_id: int
    offset: int
    elements: int | None
    sound_shape: bool
    begin: int
    end: int


class Shape:
    """How a tensor's shape stands to the rules of its type, in :attr:`TensorColumns.shapes`."""

    SOUND = 0
    #: The row is not whole blocks under any released layout: no size, unless it is empty.
    PARTIAL_BLOCKS = 1
    #: The product of the dimensions overflows: no element count and no size.
    OVERFLOW = 2


class TensorColumns:
    """Every tensor of a GGUF directory as numbers, kept even where the rows are not: 29 bytes a tensor."""

    __slots__ = ("elements", "offsets", "rows", "shapes", "types")

    def __init__(self) -> None:
        self.types = array("I")
        self.offsets = array("Q")
        #: Element counts; 0 where the shape overflows.
        self.elements = array("Q")
        #: First dimension, 1 for a scalar.
        self.rows = array("Q")
        self.shapes = bytearray()

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, type_id: int, offset: int, elements: int | None, row: int, *, whole: bool = True) -> None:
        """Add one tensor; ``elements`` None is an overflow, ``whole`` says that its rows are whole blocks."""
        self.types.append(type_id)
        self.offsets.append(offset)
        self.elements.append(elements or 0)
        self.rows.append(row)
        self.shapes.append(Shape.OVERFLOW if elements is None else Shape.SOUND if whole else Shape.PARTIAL_BLOCKS)

    def is_empty(self, index: int) -> bool:
        """Whether the tensor has a dimension of 0, so that its extent owns no byte."""
        return not self.elements[index] and self.shapes[index] != Shape.OVERFLOW


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What is known of a GGUF header so far.

    Every position is a file offset in bytes and None until the walk has come that far. ``complete`` says
    that the walk reached the end of the directory, whatever standing faults it met.
    """

    file_size: int
    version: int | None
    byte_order: ByteOrder | None
    tensor_count: int | None
    metadata_count: int | None
    alignment: int | None
    alignment_declared: bool | None
    metadata_end: int | None
    directory_end: int | None
    data_offset: int | None
    metadata: tuple[MetadataEntry, ...]
    metadata_done: int
    tensors: tuple[GgufTensor, ...]
    columns: TensorColumns
    rows_complete: bool
    templates: tuple[tuple[str, str], ...]
    architecture_present: bool
    complete: bool
    stopped: Fault | None
    faults: tuple[tuple[Fault, int], ...]
    notices: tuple[tuple[Notice, int], ...]

    @property
    def header_end(self) -> int | None:
        """The file offset after the last byte of the header."""
        return self.directory_end


class SafetensorsTensor(NamedTuple):
    """One safetensors tensor: ``begin`` and ``end`` count from the data start, ``at`` is its name's file offset.

    ``elements`` is None if the product of the shape overflows u64; ``validation`` compares shape and dtype
    with the range.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    elements: int | None
    validation: Literal["consistent", "unknown", "contradicted"]
    at: int


class RangeColumns:
    """Every safetensors tensor as numbers, in name order: begin and end in bytes from the data start."""

    __slots__ = ("begins", "ends")

    def __init__(self, begins: array[int], ends: array[int]) -> None:
        self.begins = begins
        self.ends = ends

    def __len__(self) -> int:
        return len(self.begins)


@dataclass(frozen=True, slots=True)
class SafetensorsHeader:
    """What is known of a safetensors header: nothing of its JSON until all of it is validated.

    ``header_length`` is 8 + N, ``data_offset`` the same number once N is within its bounds.
    """

    file_size: int
    header_length: int | None
    data_offset: int | None
    bytes_present: bool
    metadata: dict[str, str] | None
    metadata_kept: bool
    tensors: tuple[SafetensorsTensor, ...]
    tensor_count: int | None
    rows_complete: bool
    totals: tuple[TypeTally, ...]
    columns: RangeColumns | None
    complete: bool
    stopped: Fault | None
    faults: tuple[tuple[Fault, int], ...]
    notices: tuple[tuple[Notice, int], ...]

    @property
    def header_end(self) -> int | None:
        """The file offset after the last byte of the header, if all of it is in the file."""
        return self.header_length if self.bytes_present else None


class TypeTally(NamedTuple):
    """Totals of one dtype: ``elements`` None as soon as one product overflows, ``size`` in bytes."""

    dtype: str
    tensors: int
    elements: int | None
    size: int
