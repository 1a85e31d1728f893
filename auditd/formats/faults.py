"""What can be wrong with a header, as values.

A reader raises nothing for bad content: it *reports* a :class:`Fault`. A stopping fault loses the position
and ends the walk; a standing fault leaves the walk going, and every figure that does not need the faulty
field stays. A :class:`Notice` is something that the format allows and a person would want to know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar


class Constraint(StrEnum):
    """The rule that a fault breaks; what each means stands in ``auditd.rules.findings.CONSTRAINTS``."""

    MAGIC = "magic"
    VERSION = "version"
    BYTE_ORDER = "byte_order"
    LENGTH_PAST_END = "length_past_end"
    COUNT_PAST_END = "count_past_end"
    VALUE_TYPE = "value_type"
    NESTING = "nesting"
    DIMENSIONS = "dimensions"
    SHAPE_OVERFLOW = "shape_overflow"
    ROW_BLOCKS = "row_blocks"
    DUPLICATE_KEY = "duplicate_key"
    DUPLICATE_NAME = "duplicate_name"
    ALIGNMENT = "alignment"
    PARTIAL_GAP = "partial_gap"
    STRING_LENGTH = "string_length"
    JSON = "json"
    JSON_DUPLICATE = "json_duplicate"
    JSON_ENCODING = "json_encoding"
    ENTRY_FIELDS = "entry_fields"
    METADATA_VALUES = "metadata_values"
    RANGE_ORDER = "range_order"
    RANGE_GAP = "range_gap"
    RANGE_OVERLAP = "range_overlap"
    RANGE_PAST_END = "range_past_end"
    RANGE_TRAILING = "range_trailing"
    RANGE_SIZE = "range_size"
    END_OF_FILE = "end_of_file"
    HEADER_LENGTH = "header_length"
    TENSOR_COUNT = "tensor_count"


class FaultKind(StrEnum):
    """What a fault says about the file."""

    MALFORMED = "malformed"
    #: Within the bounds and past the end: the rest of the file may simply not be there yet.
    TRUNCATED = "truncated"
    UNSUPPORTED = "unsupported"
    #: Over a bound with the bytes there: this reader refuses, another may not.
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule.

    ``subject`` is a path into the header counted from 0 (``metadata[4].value[1].length``), ``message``
    counts from 1; ``offset`` is the first byte of the field in the file. Names inside ``message`` are
    already printable. ``expected`` and ``actual`` are exact integers or text.
    """

    constraint: Constraint
    kind: FaultKind
    subject: str
    offset: int
    message: str
    expected: int | str | None = None
    actual: int | str | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something notable; ``code`` is a finding code of ``auditd.rules.findings``."""

    code: str
    subject: str
    offset: int | None
    message: str
    expected: int | str | None = None
    actual: int | str | None = None


T = TypeVar("T")


class Tally(Generic[T]):
    """The first item under each key and how many there were: a hostile file can break one rule a million times."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: dict[str, tuple[T, int]] = {}

    def add(self, key: str, item: T, count: int = 1) -> None:
        """Count ``item``; only the first one under ``key`` is kept."""
        first, seen = self._items.get(key, (item, 0))
        self._items[key] = (first, seen + count)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[tuple[T, int]]:
        return iter(self._items.values())

    def __len__(self) -> int:
        return len(self._items)
