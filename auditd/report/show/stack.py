"""``show stack``: every tensor with the block number taken out of its name, and what each part takes of the file."""

from __future__ import annotations

import msgspec

from auditd.evidence.look import Look
from auditd.evidence.text import exact as exact_text
from auditd.model.architecture import architecture
from auditd.model.stack import BlockSize, Listing, Row, Stack, Total, TypeShare, listing, placed_tensors, total_of
from auditd.model.tensors import tensor_facts
from auditd.report.show.listed import shape_of, share_of, size_of
from auditd.report.show.setting import File, file_of
from auditd.report.show.stack_lines import lines
from auditd.report.show.stopped import Ending, ending

__all__ = ["StackSheet", "lines", "sheet"]


class OneType(msgspec.Struct, frozen=True, kw_only=True):
    """The tensors of one row that are held in one type, and the numbers of their blocks, ascending.

    ``share_of_tensors`` is their part of the bytes of all tensors, from 0 to 1.
    """

    type: str
    tensors: int
    bytes: int | None
    share_of_tensors: float | None
    blocks: list[int]


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
    """A run of numbered blocks; ``smallest`` and ``largest`` are null unless the size of every block is known."""

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


def sheet(look: Look) -> StackSheet:
    """The listing of ``look``, as far as its header was read."""
    header = look.header
    said = architecture(header, look.account)
    name, name_base64 = (None, None) if said.name is None else exact_text(said.name)
    found = listing(placed_tensors(tensor_facts(header, look.account)))
    return StackSheet(
        file=file_of(look),
        architecture=name,
        architecture_base64=name_base64,
        declared_blocks=size_of(said.blocks.value),
        tensors=None if header is None else size_of(header.tensor_count),
        complete=header is not None and header.complete and header.rows_complete,
        rows=[_row(row, found.total.bytes) for row in found.rows],
        names=found.names,
        repeating=found.repeating,
        stacks=[_stack(stack) for stack in found.stacks],
        in_front=_sum(found.in_front),
        inside=Sum(tensors=found.inside.tensors, bytes=size_of(found.inside.bytes)),
        between=_sum(found.between),
        behind=_sum(found.behind),
        total=Sum(tensors=found.total.tensors, bytes=size_of(found.total.bytes)),
        mixed=_mixed(found, look.size),
        ending=ending(look),
    )


def _row(row: Row, total: int | None) -> OneRow:
    name, name_base64 = exact_text(row.pattern)
    return OneRow(
        name=name,
        name_base64=name_base64,
        stack=None if row.stack is None else exact_text(row.stack)[0],
        tensors=row.tensors,
        blocks=row.blocks,
        shape=None if row.shape is None else shape_of(row.shape),
        shapes=row.shapes,
        types=[_type(share, total) for share in row.types],
        bytes=size_of(row.bytes),
    )


def _type(share: TypeShare, total: int | None) -> OneType:
    return OneType(
        type=share.type,
        tensors=share.tensors,
        bytes=size_of(share.bytes),
        share_of_tensors=share_of(share.bytes, total),
        blocks=list(share.blocks),
    )


def _stack(stack: Stack) -> OneStack:
    name, name_base64 = exact_text(stack.name)
    kinds = [
        OneKind(
            kind=share.kind,
            tensors=share.tensors,
            bytes=size_of(share.bytes),
            share=share_of(share.bytes, stack.bytes),
        )
        for share in stack.shares
    ]
    return OneStack(
        name=name,
        name_base64=name_base64,
        blocks=len(stack.blocks),
        first_block=stack.blocks[0].block,
        last_block=stack.blocks[-1].block,
        tensors=stack.tensors,
        bytes=size_of(stack.bytes),
        smallest=_block(stack.smallest),
        largest=_block(stack.largest),
        kinds=kinds,
    )


def _block(block: BlockSize | None) -> OneBlock | None:
    return None if block is None else OneBlock(block=block.block, tensors=block.tensors, bytes=size_of(block.bytes))


def _sum(total: Total | None) -> Sum | None:
    return None if total is None else Sum(tensors=total.tensors, bytes=size_of(total.bytes))


def _mixed(found: Listing, file_size: int | None) -> Mixed:
    rows = [row for row in found.rows if len(row.types) > 1]
    size = total_of(row.bytes for row in rows)
    wider = None if size is None else total_of(share.bytes for row in rows for share in row.types[1:])
    return Mixed(
        rows=len(rows),
        bytes=size_of(size),
        share_of_tensors=share_of(size, found.total.bytes),
        wider_bytes=size_of(wider),
        wider_share_of_tensors=share_of(wider, found.total.bytes),
        wider_share_of_file=share_of(wider, file_size),
    )
