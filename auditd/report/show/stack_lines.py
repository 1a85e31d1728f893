"""The listing of a stack for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from auditd.report.columns import cut_left, width
from auditd.report.figures import UNKNOWN, counted, exact, percent
from auditd.report.show.layout import facts, grid, section, sentence, title, within_columns
from auditd.report.show.outcome import ending_lines
from auditd.report.show.stack_sheet import OneRow, OneStack, OneType, StackSheet, Sum
from auditd.report.show.tables import blocks_shown, listed, name_shown, shape_shown, share_of, type_shown
from auditd.report.style import Style

_TITLES: Final = ("COUNT", "NAME", "SHAPE", "TYPE", "BYTES")
#: The columns that give way where a line is too long: name, shape, type.
_SOFT: Final = (1, 2, 3)


_PLACE_COLUMNS: Final = len("in front of the stack")
_ARCHITECTURE_COLUMNS: Final = 48
#: Stacks and rows of several types that are told one by one; the sheet has them all.
_TOLD: Final = 16


@within_columns
def lines(sheet: StackSheet, columns: int, style: Style) -> Iterator[str]:
    """The listing for a terminal."""
    yield title("stack of", sheet.file, columns, style)
    yield from sentence(_declared(sheet), columns)
    if sheet.rows:
        yield ""
        yield from listed(_TITLES, [_cells(row) for row in sheet.rows], _SOFT, columns, style)
        yield from sentence(_names(sheet), columns)
        yield from section("where the bytes are", style)
        yield from _places(sheet, columns)
    for stack in sheet.stacks[:_TOLD]:
        yield from _stack_lines(stack, columns, style)
    if len(sheet.stacks) > _TOLD:
        yield from sentence(f"and {exact(len(sheet.stacks) - _TOLD)} more stacks", columns)
    yield from _mixed_lines(sheet, columns, style)
    yield from ending_lines(sheet.ending, columns, style)


def _declared(sheet: StackSheet) -> str:
    name = "no architecture named" if sheet.architecture is None else f"architecture {_architecture(sheet)}"
    blocks = [] if sheet.declared_blocks is None else [f"{counted(sheet.declared_blocks, 'block')} declared"]
    tensors = f"{counted(sheet.tensors, 'tensor')} in the file"
    seen = [] if sheet.complete or not sheet.tensors else [f"{exact(sheet.total.tensors)} of them shown"]
    return ", ".join((name, *blocks, tensors, *seen))


def _architecture(sheet: StackSheet) -> str:
    return cut_left(name_shown(sheet.architecture or "", sheet.architecture_base64), _ARCHITECTURE_COLUMNS)


def _cells(row: OneRow) -> tuple[str | tuple[str, ...], ...]:
    shape = f"{row.shapes:,} shapes" if row.shape is None else shape_shown(row.shape)
    types = tuple(_type_shown(one, row) for one in row.types)
    return exact(row.tensors), name_shown(row.name, row.name_base64), shape, types, exact(row.bytes)


def _type_shown(one: OneType, row: OneRow) -> str:
    name = type_shown(one.type)
    return name if len(row.types) == 1 else f"{name} x{one.tensors}"


def _names(sheet: StackSheet) -> str:
    repeat = "is the one that repeats" if sheet.repeating == 1 else "are the ones that repeat"
    return f"{counted(sheet.names, 'name')}, and {exact(sheet.repeating)} of them {repeat}"


def _places(sheet: StackSheet, columns: int) -> Iterator[str]:
    rows: list[tuple[str, Sum | None, str]] = [
        ("in front of the stack", sheet.in_front, ""),
        ("the stack itself", sheet.inside if sheet.stacks else None, f", {_over(sheet.stacks)}"),
        ("between its blocks", sheet.between if sheet.between and sheet.between.tensors else None, ""),
        ("behind it", sheet.behind, ""),
        ("all together", sheet.total, ""),
    ]
    shown = [(words, exact(part.bytes), more) for words, part, more in rows if part is not None]
    figures = max(len(figure) for _, figure, _ in shown)
    for label, figure, more in shown:
        line = f"  {label.ljust(_PLACE_COLUMNS)}  {figure.rjust(figures)} bytes"
        yield line + more if width(line + more) <= columns else line


def _over(stacks: Sequence[OneStack]) -> str:
    blocks = f"over {counted(sum(stack.blocks for stack in stacks), 'block')}"
    return blocks if len(stacks) == 1 else f"{blocks} in {exact(len(stacks))} stacks"


def _stack_lines(stack: OneStack, columns: int, style: Style) -> Iterator[str]:
    yield from section("a stack, and what its tensors are for", style)
    name = name_shown(stack.name, stack.name_base64)
    rows = [("name", name), ("blocks", f"{exact(stack.blocks)}, {_spread(stack)}")]
    for label, block in (("smallest block", stack.smallest), ("largest block", stack.largest)):
        rows.append((label, UNKNOWN if block is None else f"{exact(block.bytes)} bytes, block {block.block}"))
    yield from facts(rows, columns)
    cells = [(one.kind, exact(one.tensors), exact(one.bytes), percent(one.share)) for one in stack.kinds]
    cells.append(("all", exact(stack.tensors), exact(stack.bytes), percent(share_of(stack.bytes, stack.bytes))))
    yield from grid(("KIND", "TENSORS", "BYTES", "SHARE"), cells, ("left", "right", "right", "right"), style)
    matrices = stack.attention_matrices
    if matrices is not None:
        told = f"{counted(matrices.tensors, 'tensor')}, {exact(matrices.bytes)} bytes, {percent(matrices.share)}"
        yield from sentence(f"attention weight matrices alone, without biases: {told}", columns)


def _spread(stack: OneStack) -> str:
    if stack.first_block == stack.last_block:
        return f"numbered {stack.first_block}"
    return f"numbered {stack.first_block} to {stack.last_block}"


def _mixed_lines(sheet: StackSheet, columns: int, style: Style) -> Iterator[str]:
    mixed = sheet.mixed
    if not mixed.rows:
        return
    yield from section("held in more than one type", style)
    rows = [row for row in sheet.rows if len(row.types) > 1]
    for row in rows[:_TOLD]:
        yield from sentence(name_shown(row.name, row.name_base64), columns)
        held = [(type_shown(one.type), _type_told(one)) for one in row.types]
        yield from ("  " + line for line in facts(held, columns - 2))
    if len(rows) > _TOLD:
        yield from sentence(f"and {exact(len(rows) - _TOLD)} more names", columns)
    together = (
        f"{counted(mixed.rows, 'name')}: {exact(mixed.bytes)} bytes, {percent(mixed.share_of_tensors)} of the tensors"
    )
    yield from sentence(together, columns)
    share = (
        f"{percent(mixed.wider_share_of_tensors)} of the tensors and {percent(mixed.wider_share_of_file)} of the file"
    )
    yield from sentence(f"in the wider types alone: {exact(mixed.wider_bytes)} bytes, {share}", columns)


def _type_told(one: OneType) -> str:
    where = f", blocks {blocks_shown(one.blocks)}" if one.blocks else ""
    return f"{counted(one.tensors, 'tensor')}, {exact(one.bytes)} bytes{where}"
