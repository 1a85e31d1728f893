"""What was seen of one tensor's numbers, and which types have numbers that can be seen. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from auditd.evidence.observation import Stop
from auditd.evidence.record import IdentityStatus
from auditd.formats.dtypes import DTYPE_BITS
from auditd.formats.layouts import LAYOUTS

Number: TypeAlias = int | float

#: Numbers from the beginning that are kept to be shown.
FIRST: Final = 8

#: What stands in a healthy tensor is smaller than this in magnitude; numbers read at a wrong place mostly are not.
PLAUSIBLE: Final = 100


class PlainType(NamedTuple):
    """A type whose elements are numbers by themselves: bytes of one, and how they are meant."""

    size: int
    meaning: Literal["signed", "unsigned", "float", "bfloat"]


#: The names are those of both formats. Everything else is packed into blocks, or has no established numbers.
PLAIN_TYPES: Final[Mapping[str, PlainType]] = MappingProxyType(
    {
        "BOOL": PlainType(1, "unsigned"),
        "U8": PlainType(1, "unsigned"),
        "I8": PlainType(1, "signed"),
        "U16": PlainType(2, "unsigned"),
        "I16": PlainType(2, "signed"),
        "U32": PlainType(4, "unsigned"),
        "I32": PlainType(4, "signed"),
        "U64": PlainType(8, "unsigned"),
        "I64": PlainType(8, "signed"),
        "F16": PlainType(2, "float"),
        "BF16": PlainType(2, "bfloat"),
        "F32": PlainType(4, "float"),
        "F64": PlainType(8, "float"),
    }
)

#: Types of GGUF that are stored in blocks of several elements, under whatever layout.
_QUANTIZED: Final = frozenset(sizing.name for layout in LAYOUTS.values() for sizing in layout.sizings.values()) - set(
    PLAIN_TYPES
)


def refusal(type_name: str) -> str | None:
    """Why the numbers of a type cannot be shown, in plain words that are safe for a terminal; None if they can."""
    if type_name in PLAIN_TYPES:
        return None
    if type_name in _QUANTIZED:
        return f"{type_name} is quantized; its numbers cannot be shown without dequantizing"
    if type_name in DTYPE_BITS:
        return f"{type_name} is not shown: only {', '.join(PLAIN_TYPES)} are"
    return "the type has no established meaning, so its bytes are not numbers yet"


@dataclass(frozen=True, slots=True)
class Numbers:
    """One reading of one tensor's numbers.

    ``begin`` is the file offset that was read from, ``declared`` how many numbers the tensor has by its size, ``count``
    how many were read. ``smallest``, ``largest`` and ``mean`` are taken over the finite ones alone and None where there
    is none; integers are exact, and a mean is rounded to a double. ``not_finite`` counts infinities and what is not a
    number, ``plausible`` the finite ones smaller than :data:`PLAUSIBLE` in magnitude. ``stop`` says why the reading
    ended before the tensor did, ``ended_at`` at which byte of the file the last whole number that was read ends.
    ``identity`` compares the file with the one whose header was read, and with itself after the reading.
    """

    begin: int
    declared: int
    count: int
    ended_at: int
    first: tuple[Number, ...]
    smallest: Number | None
    largest: Number | None
    mean: float | None
    not_finite: int
    plausible: int
    identity: IdentityStatus
    stop: Stop | None = None
