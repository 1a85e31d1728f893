"""The account of a small file, taken by writing an owner beside every single byte.

Slow, obvious, and made from the written rules alone; the property tests hold the package against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.builders import round_up


@dataclass(frozen=True)
class Extent:
    """A sized tensor: its index in the directory, its offset from the data start, its length."""

    index: int
    offset: int
    length: int


@dataclass(frozen=True)
class Run:
    """A region: ``after`` may be any of these (several may end last), ``before`` is one index or None."""

    kind: str
    begin: int
    length: int
    after: frozenset[int | None]
    before: int | None


@dataclass(frozen=True)
class Account:
    """What :func:`count` finds."""

    tensor_bytes: int
    alignment_padding: int
    surplus: int
    missing: int
    overlap: int
    residue: int
    remainder: int
    contiguous: int
    broken: int
    cut: int
    gone: int
    runs: tuple[Run, ...]
    padding_runs: tuple[tuple[int, int], ...]


def _runs(marks: Sequence[bool]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for position, mark in enumerate(marks):
        if not mark:
            continue
        if found and found[-1][1] == position:
            found[-1] = (found[-1][0], position + 1)
        else:
            found.append((position, position + 1))
    return found


def count(file_size: int, data_offset: int, alignment: int, extents: Sequence[Extent]) -> Account:
    """Own every byte of the file, and every byte that a tensor claims past it."""
    placed = [
        (data_offset + extent.offset, data_offset + extent.offset + extent.length, extent.index)
        for extent in extents
        if extent.length
    ]
    last = max((end for _, end, _ in placed), default=data_offset)
    length = max(file_size, last, data_offset) + 1
    claims = [0] * length
    for begin, end, _ in placed:
        for position in range(begin, end):
            claims[position] += 1

    follows_end = [False] * (length + alignment)
    for _, end, _ in placed:
        for position in range(end, round_up(end, alignment)):
            follows_end[position] = True
    whole_end_run = round_up(last, alignment) <= file_size

    padding = [False] * length
    surplus = [False] * length
    for position in range(data_offset, file_size):
        if claims[position]:
            continue
        padding[position] = follows_end[position] and (position < last or whole_end_run)
        surplus[position] = not padding[position]
    lost = [position >= file_size and (claims[position] > 0 or position < data_offset) for position in range(length)]
    twice = [claim > 1 for claim in claims]

    def run(kind: str, begin: int, end: int) -> Run:
        earlier = [(stop, index) for start, stop, index in placed if start < begin]
        furthest = max((stop for stop, _ in earlier), default=None)
        later = sorted((start, index) for start, _, index in placed if start >= end)
        return Run(
            kind,
            begin,
            end - begin,
            frozenset(index for stop, index in earlier if stop == furthest) or frozenset({None}),
            later[0][1] if later else None,
        )

    def surplus_kind(begin: int) -> str:
        if begin < last:
            return "gap"
        return "padding_partial" if begin < round_up(last, alignment) else "trailing"

    runs = [run(surplus_kind(begin), begin, end) for begin, end in _runs(surplus)]
    runs += [run("missing", begin, end) for begin, end in _runs(lost)]
    runs += [run("overlap", begin, end) for begin, end in _runs(twice)]

    in_order = sorted(placed, key=lambda item: (item[0], item[2]))
    expected = data_offset
    contiguous = 0
    for begin, end, _ in in_order:
        contiguous += begin == expected
        expected = round_up(end, alignment)

    tensor_bytes = sum(extent.length for extent in extents)
    claimed = sum(1 for claim in claims if claim)
    account = Account(
        tensor_bytes=tensor_bytes,
        alignment_padding=sum(padding),
        surplus=sum(surplus),
        missing=max(0, data_offset - file_size) + sum(1 for position in range(file_size, length) if claims[position]),
        overlap=tensor_bytes - claimed,
        residue=file_size - data_offset - tensor_bytes - sum(padding),
        remainder=file_size - data_offset - tensor_bytes,
        contiguous=contiguous,
        broken=len(in_order) - contiguous,
        cut=sum(1 for begin, end, _ in placed if begin < file_size < end),
        gone=sum(1 for begin, _, _ in placed if begin >= file_size),
        runs=tuple(sorted(runs, key=lambda item: (item.begin, item.kind))),
        padding_runs=tuple(_runs(padding)),
    )
    assert account.residue == account.surplus - account.missing - account.overlap
    return account
