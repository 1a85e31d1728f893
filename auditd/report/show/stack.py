"""``show stack``: every tensor with the block number taken out of its name, and what each part takes of the file."""

from __future__ import annotations

from auditd.evidence.observation import Observation
from auditd.evidence.text import exact as exact_text
from auditd.model.architecture import architecture
from auditd.model.kinds import ATTENTION
from auditd.model.stack import BlockSize, Listing, Row, Stack, Total, TypeShare, listing, placed_tensors, total_of
from auditd.model.tensors import tensor_facts
from auditd.report.show.layout import file_of
from auditd.report.show.outcome import ending
from auditd.report.show.stack_lines import lines
from auditd.report.show.stack_sheet import Mixed, OneBlock, OneKind, OneRow, OneStack, OneType, StackSheet, Sum
from auditd.report.show.tables import shape_of, share_of, size_of, storage_of

__all__ = ["StackSheet", "lines", "sheet"]


def sheet(observation: Observation) -> StackSheet:
    """The listing of ``look``, as far as its header was read."""
    header = observation.header
    said = architecture(header, observation.account)
    name, name_base64 = (None, None) if said.name is None else exact_text(said.name)
    found = listing(placed_tensors(tensor_facts(header, observation.account)))
    return StackSheet(
        file=file_of(observation),
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
        mixed=_mixed(found, observation.size),
        ending=ending(observation),
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
        storage=storage_of(share.storage),
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
        attention_matrices=_matrices(stack) if stack.matrices.tensors else None,
    )


def _matrices(stack: Stack) -> OneKind:
    return OneKind(
        kind=f"{ATTENTION} matrices",
        tensors=stack.matrices.tensors,
        bytes=size_of(stack.matrices.bytes),
        share=share_of(stack.matrices.bytes, stack.bytes),
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
