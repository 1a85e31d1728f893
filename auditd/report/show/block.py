"""``show block``: one block, tensor by tensor, and the other blocks of its stack held against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from auditd.errors import UsageError
from auditd.evidence.observation import Observation
from auditd.evidence.text import exact as exact_text
from auditd.evidence.text import quoted
from auditd.model.blocks import Part, block_of, stacks_of
from auditd.model.stack import placed_tensors
from auditd.model.tensors import tensor_facts
from auditd.report.figures import counted, exact
from auditd.report.show.layout import File, facts, file_of, section, sentence, title, within_columns
from auditd.report.show.outcome import Ending, ending, ending_lines
from auditd.report.show.tables import (
    Storage,
    blocks_shown,
    listed,
    name_shown,
    shape_of,
    shape_shown,
    size_of,
    storage_of,
    type_shown,
)
from auditd.report.style import Style

_STACKS_NAMED: Final = 8


class OnePart(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor; ``name`` is what stands behind the block's number.

    ``offset`` is in bytes from the start of the tensor data, ``file_offset`` from that of the file. ``storage`` is null
    unless the type is quantized.
    """

    name: str
    name_base64: str | None
    index: int
    shape: list[str]
    type: str
    offset: int | None
    file_offset: int | None
    bytes: int | None
    storage: Storage | None


class Others(msgspec.Struct, frozen=True, kw_only=True):
    """The other blocks of the stack, each in exactly one list, ascending.

    ``same``: the same names, shapes and types. ``other_types``: the same names and shapes. ``other_shapes``: the same
    names. ``other_names``: the rest.
    """

    same: list[int]
    other_types: list[int]
    other_shapes: list[int]
    other_names: list[int]


class BlockSheet(msgspec.Struct, frozen=True, kw_only=True):
    """One block: its tensors sorted by name. Sizes in bytes, null where unknown or past 2**53 - 1.

    ``complete`` says that the header was read to its end and every tensor's row was kept.
    """

    schema: str = "model-auditd/show-block/1"
    file: File
    stack: str
    stack_base64: str | None
    block: int
    tensors: list[OnePart]
    bytes: int | None
    others: Others
    complete: bool
    ending: Ending | None


def sheet(observation: Observation, number: int, stack: str | None = None) -> BlockSheet:
    """Block ``number``, of the only stack or of the one of that name.

    Raises ``UsageError`` where there is no such block or several stacks to choose from; it says what is there.
    """
    tensors = placed_tensors(tensor_facts(observation.header, observation.account))
    stacks = stacks_of(tensors)
    name = _chosen(stacks, None if stack is None else stack.encode("utf-8", "surrogateescape"))
    block = block_of(tensors, name, number)
    if block is None:
        raise UsageError(f"{quoted(name)} has no block {number}; there are {blocks_shown(stacks[name])}")
    text, text_base64 = exact_text(name)
    alike = block.comparison
    return BlockSheet(
        file=file_of(observation),
        stack=text,
        stack_base64=text_base64,
        block=number,
        tensors=[_part(part) for part in block.parts],
        bytes=size_of(block.bytes),
        others=Others(
            same=list(alike.same),
            other_types=list(alike.other_types),
            other_shapes=list(alike.other_shapes),
            other_names=list(alike.other_names),
        ),
        complete=observation.header is not None and observation.header.complete and observation.header.rows_complete,
        ending=ending(observation),
    )


def _chosen(stacks: Mapping[bytes, Sequence[int]], name: bytes | None) -> bytes:
    if not stacks:
        raise UsageError("there is no block: no tensor's name has a block number in it")
    if name is None and len(stacks) == 1:
        return next(iter(stacks))
    if name is None:
        raise UsageError(f"there are several stacks; name one with --stack: {_named(stacks)}")
    if name not in stacks:
        raise UsageError(f"no stack is called {quoted(name)}; there are {_named(stacks)}")
    return name


def _named(stacks: Mapping[bytes, Sequence[int]]) -> str:
    shown = [f"{quoted(name)} ({blocks_shown(numbers)})" for name, numbers in list(stacks.items())[:_STACKS_NAMED]]
    more = len(stacks) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _part(part: Part) -> OnePart:
    name, name_base64 = exact_text(part.name)
    fact = part.fact
    return OnePart(
        name=name,
        name_base64=name_base64,
        index=fact.index,
        shape=shape_of(fact.shape),
        type=fact.type,
        offset=size_of(fact.offset),
        file_offset=size_of(fact.file_offset),
        bytes=size_of(fact.byte_length),
        storage=storage_of(fact.storage),
    )


# -- lines ------------------------------------------------------------------------------------------

_TITLES: Final = ("NAME", "SHAPE", "TYPE", "OFFSET", "BYTES")
#: The columns that give way where a line is too long: name, shape, type.
_SOFT: Final = (0, 1, 2)


#: Narrower lines have no room for the blocks of a quantized type.
_STORAGE_COLUMNS: Final = 100


@within_columns
def lines(sheet: BlockSheet, columns: int, style: Style) -> Iterator[str]:
    """The block for a terminal."""
    stack = name_shown(sheet.stack, sheet.stack_base64)
    yield title(f"block {sheet.block} of", sheet.file, columns, style)
    yield from sentence(f"stack {stack}; offsets count from the start of the tensor data", columns)
    yield ""
    if columns >= _STORAGE_COLUMNS and any(part.storage for part in sheet.tensors):
        rows = [(*_cells(part), _storage(part)) for part in sheet.tensors]
        yield from listed((*_TITLES, "QUANTIZED AS"), rows, _SOFT, columns, style)
    else:
        yield from listed(_TITLES, [_cells(part) for part in sheet.tensors], _SOFT, columns, style)
    yield from sentence(f"{counted(len(sheet.tensors), 'tensor')}, {exact(sheet.bytes)} bytes", columns)
    yield from _compared(sheet, columns, style)
    yield from ending_lines(sheet.ending, columns, style)


def _cells(part: OnePart) -> tuple[str, ...]:
    name, shape = name_shown(part.name, part.name_base64), shape_shown(part.shape)
    return name, shape, type_shown(part.type), exact(part.offset), exact(part.bytes)


def _storage(part: OnePart) -> str:
    """``2,128,896 x 144``: blocks, and bytes of each."""
    return "" if part.storage is None else f"{exact(part.storage.blocks)} x {part.storage.bytes}"


def _compared(sheet: BlockSheet, columns: int, style: Style) -> Iterator[str]:
    others = sheet.others
    alike = sorted((*others.same, *others.other_types))
    count = len(alike) + len(others.other_shapes) + len(others.other_names)
    if not count:
        yield from sentence("no other block to hold it against", columns)
        return
    yield from section(
        f"against the other {counted(count, 'block')}" if count > 1 else "against the other block", style
    )
    rows = [
        ("same names and shapes", alike),
        ("and the same types, too", others.same),
        ("same shapes, some type elsewhere", others.other_types),
        ("same names, some other shape", others.other_shapes),
        ("other names", others.other_names),
    ]
    # The first three are said even when there are none: a claim that blocks are alike is what nobody checks.
    yield from facts(
        [(label, _counted(found)) for at, (label, found) in enumerate(rows) if found or at < _ALWAYS], columns
    )


_ALWAYS: Final = 3


def _counted(found: Sequence[int]) -> str:
    return f"{exact(len(found))}: {blocks_shown(found)}" if found else "0"
