"""Tensor types and the layouts that have given them a size: tables, and the few questions asked of them.

A *layout* says how many bytes a tensor of each type id takes. The file does not name its layout: ids 9
(Q8_1), 10-15 (K types) and 16-25 have had more than one released meaning, and both sides of each change write
GGUF 3 and quantization version 2. What every released layout agrees on is *established*; everything else is a
hypothesis that the accounting tries. A new type is a row in :data:`CURRENT`, a fork's layout a row in
:data:`FORKS`.

Sizes of today: ggml at d99724f2. Releases: llama.cpp b1500 to b2300, read from each release's ``ggml.h``;
64-element super-blocks: ``GGML_QKK_64`` of b1500.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple


class Sizing(NamedTuple):
    """How a type is stored: ``size`` bytes for each ``block`` elements of a row.

    ``row_extra`` bytes stand before each row and ``tensor_extra`` once in a tensor; only forks use them.
    """

    name: str
    block: int
    size: int
    row_extra: int = 0
    tensor_extra: int = 0

    def byte_length(self, elements: int, row: int) -> int | None:
        """Bytes of a non-empty tensor with rows of ``row`` elements; None if a row is not whole blocks."""
        if row % self.block:
            return None
        return elements // self.block * self.size + elements // row * self.row_extra + self.tensor_extra


def _rows(table: str) -> dict[int, Sizing]:
    """Rows of ``id name block bytes``."""
    rows = (line.split() for line in table.strip().splitlines())
    return {int(row[0]): Sizing(row[1], int(row[2]), int(row[3])) for row in rows}


CURRENT: Final[Mapping[int, Sizing]] = MappingProxyType(
    _rows("""
    0 F32 1 4
    1 F16 1 2
    2 Q4_0 32 18
    3 Q4_1 32 20
    6 Q5_0 32 22
    7 Q5_1 32 24
    8 Q8_0 32 34
    9 Q8_1 32 36
    10 Q2_K 256 84
    11 Q3_K 256 110
    12 Q4_K 256 144
    13 Q5_K 256 176
    14 Q6_K 256 210
    15 Q8_K 256 292
    16 IQ2_XXS 256 66
    17 IQ2_XS 256 74
    18 IQ3_XXS 256 98
    19 IQ1_S 256 50
    20 IQ4_NL 32 18
    21 IQ3_S 256 110
    22 IQ2_S 256 82
    23 IQ4_XS 256 136
    24 I8 1 1
    25 I16 1 2
    26 I32 1 4
    27 I64 1 8
    28 F64 1 8
    29 IQ1_M 256 56
    30 BF16 1 2
    34 TQ1_0 256 54
    35 TQ2_0 256 66
    39 MXFP4 32 17
    40 NVFP4 64 36
    41 Q1_0 128 18
    42 Q2_0 64 18
    """)
)

#: Ids that ggml has removed; the sizes that are known are in :data:`_REMOVED_SIZED`.
REMOVED: Final[Mapping[int, str]] = MappingProxyType(
    {
        4: "Q4_2",
        5: "Q4_3",
        31: "Q4_0_4_4",
        32: "Q4_0_4_8",
        33: "Q4_0_8_8",
        36: "IQ4_NL_4_4",
        37: "IQ4_NL_4_8",
        38: "IQ4_NL_8_8",
    }
)

#: Sized as Q4_0 and IQ4_NL before their removal; 4 and 5 have no known size, 36 is contested.
_REMOVED_SIZED: Final[Mapping[int, Sizing]] = MappingProxyType(
    {i: Sizing(REMOVED[i], 32, 18) for i in (31, 32, 33, 37, 38)}
)

#: Ids at and past this are claimed by forks only.
FORK_IDS_FROM: Final = 97

#: Ids that upstream and a fork both use; like those of forks alone they never raise an alarm on their own.
_CONTESTED_IDS: Final = frozenset({36, 42})

Q8_1: Final = 9
K_IDS: Final = range(10, 16)
SHIFTED_IDS: Final = range(16, 26)
_IQ_IDS: Final = (16, 17, 18, 19, 20, 21, 22, 23, 29)

_Q8_1_40: Final = Sizing("Q8_1", 32, 40)

_K64: Final[Mapping[int, Sizing]] = MappingProxyType(
    _rows("""
    10 Q2_K 64 24
    11 Q3_K 64 28
    12 Q4_K 64 38
    13 Q5_K 64 46
    14 Q6_K 64 54
    15 Q8_K 64 76
    """)
)

#: Release and its id of I8; I16 and I32 follow it, ids below it are named as today, ids past I32 were not there.
RELEASES: Final[tuple[tuple[str, int], ...]] = (
    ("b1500", 16),
    ("b1803", 17),
    ("b1871", 18),
    ("b2100", 19),
    ("b2172", 20),
    ("b2221", 21),
    ("b2253", 22),
    ("b2275", 23),
)

#: Types whose declared row must be a multiple of this whatever the layout; where a type is not named here, it
#: is its block if its size is established, else 1.
_COMMON_ROW_MULTIPLE: Final[Mapping[int, int]] = MappingProxyType({Q8_1: 32} | dict.fromkeys(K_IDS, 64))


@dataclass(frozen=True, slots=True)
class Layout:
    """A named table from type id to its sizing; a type that is not in it has no size under this layout."""

    name: str
    sizings: Mapping[int, Sizing]


def _without_iq(sizings: Mapping[int, Sizing]) -> dict[int, Sizing]:
    """No size of an IQ type in a 64-element build is known."""
    return {type_id: sizing for type_id, sizing in sizings.items() if type_id not in _IQ_IDS or sizing.block == 1}


def _release(first_integer_id: int) -> dict[int, Sizing]:
    integers = {first_integer_id + i: CURRENT[24 + i] for i in range(3)}
    return {type_id: sizing for type_id, sizing in CURRENT.items() if type_id < first_integer_id} | integers


def _base_layouts() -> tuple[Layout, ...]:
    rows: list[tuple[str, Mapping[int, Sizing]]] = [
        ("ggml-current", CURRENT),
        ("ggml-removed", {**CURRENT, **_REMOVED_SIZED}),
        ("q8_1-40", {**CURRENT, Q8_1: _Q8_1_40}),
        ("k64", {**_without_iq(CURRENT), **_K64}),
    ]
    for name, first_integer_id in RELEASES:
        sizings = _release(first_integer_id)
        rows += [(name, sizings), (f"{name}-k64", {**_without_iq(sizings), **_K64})]
    return tuple(Layout(name, MappingProxyType(dict(sizings))) for name, sizings in rows)


def _doubled(layouts: tuple[Layout, ...]) -> tuple[Layout, ...]:
    """Each layout once more with 40 bytes for a Q8_1 block; ``q8_1-40`` itself is that form of today's."""
    return tuple(
        Layout(f"{layout.name}+q8_1-40", MappingProxyType({**layout.sizings, Q8_1: _Q8_1_40}))
        for layout in layouts
        if layout.name not in ("ggml-current", "q8_1-40")
    )


_BASE: Final = _base_layouts()

#: Every layout that the accounting tries, in the order in which ties are decided.
RELEASED: Final[tuple[Layout, ...]] = _BASE + _doubled(_BASE)

#: Layouts of forks: never tried unasked, since they give ids a meaning that upstream has not; used by name.
FORKS: Final[tuple[Layout, ...]] = (
    Layout(
        "ik_llama.cpp",
        MappingProxyType(
            {**CURRENT, 144: Sizing("IQ4_KS", 256, 136, row_extra=4), 146: Sizing("IQ4_KSS", 256, 128, row_extra=4)}
        ),
    ),
    Layout("bitnet.cpp", MappingProxyType({**CURRENT, 36: Sizing("I2_S", 4, 1, tensor_extra=32)})),
)

DEFAULT_LAYOUT: Final = RELEASED[0]
LAYOUTS: Final[Mapping[str, Layout]] = MappingProxyType({layout.name: layout for layout in RELEASED + FORKS})
LAYOUT_NAMES: Final[tuple[str, ...]] = tuple(LAYOUTS)

#: The ids whose size every released layout agrees on.
ESTABLISHED: Final[Mapping[int, Sizing]] = MappingProxyType(
    {
        type_id: sizing
        for type_id, sizing in CURRENT.items()
        if type_id not in SHIFTED_IDS and type_id not in K_IDS and type_id != Q8_1 and type_id not in _CONTESTED_IDS
    }
)

_ROW_MULTIPLE: Final[Mapping[int, int]] = MappingProxyType(
    {type_id: sizing.block for type_id, sizing in ESTABLISHED.items()} | dict(_COMMON_ROW_MULTIPLE)
)


def row_multiple(type_id: int) -> int:
    """What a row's element count must be a multiple of under every released layout (1: nothing is known)."""
    return _ROW_MULTIPLE.get(type_id, 1)


def is_contested(type_id: int) -> bool:
    """Whether forks claim the id, so that upstream's meaning, if any, is not settled."""
    return type_id in _CONTESTED_IDS or type_id >= FORK_IDS_FROM


def is_removed(type_id: int) -> bool:
    """Whether ggml once had a type of this id and has it no more."""
    return type_id in REMOVED


def is_known(type_id: int) -> bool:
    """Whether any release gave the id a meaning."""
    return type_id in CURRENT or type_id in REMOVED


def type_label(type_id: int) -> str:
    """The declared type's name: established, or a label that says why there is none."""
    if type_id in SHIFTED_IDS:
        return f"AMBIGUOUS_{type_id}"
    if is_contested(type_id) and is_known(type_id):
        return f"CONTESTED_{type_id}"
    if type_id in CURRENT:
        return CURRENT[type_id].name
    return REMOVED.get(type_id, f"UNKNOWN_{type_id}")


def released_meanings(type_id: int) -> tuple[tuple[str, str], ...]:
    """``(type name, "releases")`` for each released meaning of an id from 16 to 25, the earliest first."""
    meanings: dict[str, list[str]] = {}
    for name, first_integer_id in RELEASES:
        sizing = _release(first_integer_id).get(type_id)
        if sizing is not None:
            meanings.setdefault(sizing.name, []).append(name)
    meanings.setdefault(CURRENT[type_id].name, []).append("b2300 and since")
    return tuple((name, ", ".join(releases)) for name, releases in meanings.items())
