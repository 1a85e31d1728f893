"""Whether the bytes that no tensor owns are zero, seen while a file streams by."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from auditd.accounting.account import Account
from auditd.evidence.observation import Scanned

#: Padding runs with something in them that are kept; their number is always exact.
_KEPT: Final = 1000

#: As long as the largest piece that is ever compared.
_ZEROS: Final = bytes(1 << 20)

Kind: TypeAlias = Literal["padding", "region"]


class _Range(NamedTuple):
    begin: int
    end: int
    kind: Kind


def ranges_of(account: Account | None, header_end: int | None, file_size: int) -> Iterator[_Range]:
    """What to look into, in file order: padding in front of the data and between tensors, gaps, the tail."""
    if account is None or account.data_offset is None or header_end is None:
        return iter(())
    padding = (_Range(begin, end, "padding") for begin, end in account.padding_runs)
    kinds = ("gap", "trailing", "padding_partial")
    regions = (_Range(run.begin, run.end, "region") for run in account.runs if run.kind in kinds)
    front = _Range(header_end, min(account.data_offset, file_size), "padding")
    return heapq.merge((front,) if front.begin < front.end else (), padding, regions)


class UnownedScan:
    """Fed a file's bytes in order from any position before the first range on."""

    def __init__(self, ranges: Iterator[_Range]) -> None:
        self._ranges = ranges
        self._span = next(ranges, None)
        self._zero = True
        self._content: dict[tuple[int, int], bool] = {}
        self._nonzero: list[tuple[int, int]] = []
        self._nonzero_count = 0

    def feed(self, begin: int, data: bytes | bytearray, size: int) -> None:
        """The file's bytes from ``begin`` on: the first ``size`` of ``data``."""
        end = begin + size
        while (span := self._span) is not None and span.begin < end:
            low, high = max(span.begin, begin), min(span.end, end)
            if self._zero and low < high:
                self._zero = _is_zero(data, low - begin, high - begin)
            if span.end > end:
                return
            self._close(span)

    def _close(self, span: _Range) -> None:
        if span.kind == "region":
            self._content[span.begin, span.end] = self._zero
        elif not self._zero:
            self._nonzero_count += 1
            if len(self._nonzero) < _KEPT:
                self._nonzero.append((span.begin, span.end))
        self._zero = True
        self._span = next(self._ranges, None)

    def result(self) -> Scanned:
        """What is known so far."""
        return Scanned(self._content, tuple(self._nonzero), self._nonzero_count, complete=self._span is None)


def _is_zero(data: bytes | bytearray, begin: int, end: int) -> bool:
    for at in range(begin, end, len(_ZEROS)):
        piece = data[at : min(end, at + len(_ZEROS))]
        if piece != _ZEROS[: len(piece)]:
            return False
    return True
