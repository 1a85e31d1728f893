"""``show stack``: every tensor with the block number taken out of its name, and what each part takes of the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from auditd.evidence.look import Look
from auditd.evidence.text import exact as exact_text
from auditd.evidence.text import printable
from auditd.model.architecture import architecture
from auditd.model.stack import BlockSize, Listing, Row, Stack, Total, TypeShare, listing, placed_tensors, total_of
from auditd.model.tensors import tensor_facts
from auditd.report.figures import UNKNOWN, counted, exact
from auditd.report.paint import Paint
from auditd.report.show.listed import (
    blocks_shown,
    listed,
    name_shown,
    shape_of,
    shape_shown,
    share_of,
    share_shown,
    size_of,
)
from auditd.report.show.setting import File, facts, file_of, grid, section, sentence, title
from auditd.report.show.stopped import Ending, ending, ending_lines

_TYPE_CHARACTERS: Final = 64
#: Stacks and rows of several types that are told one by one; the sheet has them all.
_TOLD: Final = 16


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


# -- lines ------------------------------------------------------------------------------------------

_TITLES: Final = ("COUNT", "NAME", "SHAPE", "TYPE", "BYTES")
#: The columns that give way where a line is too long: name, shape, type.
_SOFT: Final = (1, 2, 3)


def lines(sheet: StackSheet, columns: int, paint: Paint) -> Iterator[str]:
    """The listing for a terminal."""
    yield title("stack of", sheet.file, columns, paint)
    yield from sentence(_declared(sheet), columns)
    if sheet.rows:
        yield ""
        yield from listed(_TITLES, [_cells(row) for row in sheet.rows], _SOFT, columns, paint)
        yield from sentence(_names(sheet), columns)
        yield from section("where the bytes are", paint)
        yield from _places(sheet)
    for stack in sheet.stacks[:_TOLD]:
        yield from _stack_lines(stack, columns, paint)
    if len(sheet.stacks) > _TOLD:
        yield from sentence(f"and {exact(len(sheet.stacks) - _TOLD)} more stacks", columns)
    yield from _mixed_lines(sheet, columns, paint)
    yield from ending_lines(sheet.ending, columns, paint)


def _declared(sheet: StackSheet) -> str:
    name = "no architecture named" if sheet.architecture is None else f"architecture {_architecture(sheet)}"
    blocks = [] if sheet.declared_blocks is None else [f"{counted(sheet.declared_blocks, 'block')} declared"]
    tensors = f"{counted(sheet.tensors, 'tensor')} in the file"
    seen = [] if sheet.complete or not sheet.tensors else [f"{exact(sheet.total.tensors)} of them shown"]
    return ", ".join((name, *blocks, tensors, *seen))


def _architecture(sheet: StackSheet) -> str:
    return printable(name_shown(sheet.architecture or "", sheet.architecture_base64), _TYPE_CHARACTERS)


def _cells(row: OneRow) -> tuple[str | tuple[str, ...], ...]:
    shape = f"{row.shapes:,} shapes" if row.shape is None else shape_shown(row.shape)
    types = tuple(_type_shown(one, row) for one in row.types)
    return exact(row.tensors), name_shown(row.name, row.name_base64), shape, types, exact(row.bytes)


def _type_shown(one: OneType, row: OneRow) -> str:
    name = printable(one.type, _TYPE_CHARACTERS)
    return name if len(row.types) == 1 else f"{name} x{one.tensors}"


def _names(sheet: StackSheet) -> str:
    repeat = "is the one that repeats" if sheet.repeating == 1 else "are the ones that repeat"
    return f"{counted(sheet.names, 'name')}, and {exact(sheet.repeating)} of them {repeat}"


def _places(sheet: StackSheet) -> Iterator[str]:
    blocks = sum(stack.blocks for stack in sheet.stacks)
    inside = "the stack itself" if len(sheet.stacks) == 1 else f"the {exact(len(sheet.stacks))} stacks themselves"
    rows: list[tuple[str, Sum | None, str]] = [
        ("in front of the stack", sheet.in_front, ""),
        (inside, sheet.inside if sheet.stacks else None, f"over {counted(blocks, 'block')}"),
        ("between its blocks", sheet.between if sheet.between and sheet.between.tensors else None, ""),
        ("behind it", sheet.behind, ""),
        ("all together", sheet.total, ""),
    ]
    shown = [(words, exact(part.bytes), more) for words, part, more in rows if part is not None]
    words, figures = (max(len(row[at]) for row in shown) for at in (0, 1))
    for label, figure, more in shown:
        yield f"  {label.ljust(words)}  {figure.rjust(figures)} bytes" + (f", {more}" if more else "")


def _stack_lines(stack: OneStack, columns: int, paint: Paint) -> Iterator[str]:
    yield from section("a stack, and what its tensors are for", paint)
    name = name_shown(stack.name, stack.name_base64)
    rows = [("name", name), ("blocks", f"{exact(stack.blocks)}, {_spread(stack)}")]
    for label, block in (("smallest block", stack.smallest), ("largest block", stack.largest)):
        rows.append((label, UNKNOWN if block is None else f"{exact(block.bytes)} bytes, block {block.block}"))
    yield from facts(rows, columns)
    cells = [(one.kind, exact(one.tensors), exact(one.bytes), share_shown(one.share)) for one in stack.kinds]
    cells.append(("all", exact(stack.tensors), exact(stack.bytes), share_shown(share_of(stack.bytes, stack.bytes))))
    yield from grid(("KIND", "TENSORS", "BYTES", "SHARE"), cells, ("left", "right", "right", "right"), paint)


def _spread(stack: OneStack) -> str:
    if stack.first_block == stack.last_block:
        return f"numbered {stack.first_block}"
    return f"numbered {stack.first_block} to {stack.last_block}"


def _mixed_lines(sheet: StackSheet, columns: int, paint: Paint) -> Iterator[str]:
    mixed = sheet.mixed
    if not mixed.rows:
        return
    yield from section("held in more than one type", paint)
    rows = [row for row in sheet.rows if len(row.types) > 1]
    for row in rows[:_TOLD]:
        yield from sentence(name_shown(row.name, row.name_base64), columns)
        held = [(printable(one.type, _TYPE_CHARACTERS), _type_told(one)) for one in row.types]
        yield from ("  " + line for line in facts(held, columns - 2))
    if len(rows) > _TOLD:
        yield from sentence(f"and {exact(len(rows) - _TOLD)} more names", columns)
    together = f"{counted(mixed.rows, 'name')}: {exact(mixed.bytes)} bytes, {share_shown(mixed.share_of_tensors)} of the tensors"
    yield from sentence(together, columns)
    share = f"{share_shown(mixed.wider_share_of_tensors)} of the tensors and {share_shown(mixed.wider_share_of_file)} of the file"
    yield from sentence(f"in the wider types alone: {exact(mixed.wider_bytes)} bytes, {share}", columns)


def _type_told(one: OneType) -> str:
    where = f", blocks {blocks_shown(one.blocks)}" if one.blocks else ""
    return f"{counted(one.tensors, 'tensor')}, {exact(one.bytes)} bytes{where}"
