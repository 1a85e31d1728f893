"""What ``show stack`` says of a file, as figures."""

from __future__ import annotations

import msgspec

from auditd.report.show.layout import File
from auditd.report.show.outcome import Ending
from auditd.report.show.tables import Storage


class OneType(msgspec.Struct, frozen=True, kw_only=True):
    """The tensors of one row that are held in one type, and the numbers of their blocks, ascending.

    ``storage`` is null unless the type is quantized. ``share_of_tensors`` is their part of the bytes of all tensors, from 0 to 1.
    """

    type: str
    tensors: int
    bytes: int | None
    share_of_tensors: float | None
    blocks: list[int]
    storage: Storage | None


class OneRow(msgspec.Struct, frozen=True, kw_only=True):
    """The tensors of one name; ``N`` stands for the number of the block, ``E`` for that of an expert.

    ``stack`` is null outside any block. ``shape`` is null where there are several, ``shapes`` says how many; ``types``
    go from the narrowest to the widest.
    """

    name: str
    name_base64: str | None
    stack: str | None
    tensors: int
    blocks: int
    shape: list[str] | None
    shapes: int
    types: list[OneType]
    bytes: int | None


class OneBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block and its bytes."""

    block: int
    tensors: int
    bytes: int | None


class OneKind(msgspec.Struct, frozen=True, kw_only=True):
    """The tensors of a stack that are for one thing; ``share`` is their part of the stack's bytes, from 0 to 1."""

    kind: str
    tensors: int
    bytes: int | None
    share: float | None


class OneStack(msgspec.Struct, frozen=True, kw_only=True):
    """A run of numbered blocks; ``smallest`` and ``largest`` are null unless the size of every block is known.

    ``attention_matrices`` are the attention's weights without its biases, null where there are none.
    """

    name: str
    name_base64: str | None
    blocks: int
    first_block: int
    last_block: int
    tensors: int
    bytes: int | None
    smallest: OneBlock | None
    largest: OneBlock | None
    kinds: list[OneKind]
    attention_matrices: OneKind | None


class Sum(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors and their bytes."""

    tensors: int
    bytes: int | None


class Mixed(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that are held in more than one type.

    ``bytes`` are all of theirs, ``wider_bytes`` those in any but the narrowest type of each row; the shares are parts
    of the bytes of all tensors and of the file, from 0 to 1.
    """

    rows: int
    bytes: int | None
    share_of_tensors: float | None
    wider_bytes: int | None
    wider_share_of_tensors: float | None
    wider_share_of_file: float | None


class StackSheet(msgspec.Struct, frozen=True, kw_only=True):
    """Every tensor of a file, by name. Sizes in bytes, null where unknown or past 2**53 - 1.

    ``rows`` stand in the order in which the first tensor of each stands in the file. ``in_front``, ``between`` and
    ``behind`` are outside any block, null in a file without blocks. ``tensors`` is what the header counts, of which
    ``rows`` has all if ``complete``.
    """

    schema: str = "model-auditd/show-stack/1"
    file: File
    architecture: str | None
    architecture_base64: str | None
    declared_blocks: int | None
    tensors: int | None
    complete: bool
    rows: list[OneRow]
    names: int
    repeating: int
    stacks: list[OneStack]
    in_front: Sum | None
    inside: Sum
    between: Sum | None
    behind: Sum | None
    total: Sum
    mixed: Mixed
    ending: Ending | None
