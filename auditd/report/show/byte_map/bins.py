"""Segments counted into equal steps of a window, so that a picture costs the same whatever a file holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """``[begin, end, of]``: file offsets, ``end`` excluded, and the index of the class that has most of each step."""

    begin: int
    end: int
    of: int


class Bins:
    """The window [begin, end) in at most ``steps`` steps of a whole number of bytes; the last one may be shorter."""

    def __init__(self, begin: int, end: int, steps: int) -> None:
        self.begin = begin
        self.end = end
        self.step = max(1, -(-(end - begin) // steps))
        #: For each step the bytes of each class in it.
        self._steps: list[dict[int, int]] = [{} for _ in range(-(-(end - begin) // self.step))]

    def take(self, begin: int, end: int, of: int) -> None:
        """Count the bytes of [begin, end) that are in the window as class ``of``."""
        begin, end = max(begin, self.begin) - self.begin, min(end, self.end) - self.begin
        while begin < end:
            number = begin // self.step
            until = min(end, (number + 1) * self.step)
            step = self._steps[number]
            step[of] = step.get(of, 0) + until - begin
            begin = until

    def stretches(self) -> Iterator[Stretch]:
        """The class that has most of each step; steps of one class together, those without any byte left out."""
        last: Stretch | None = None
        for number, step in enumerate(self._steps):
            begin = self.begin + number * self.step
            end = min(begin + self.step, self.end)
            of = max(step, key=step.__getitem__) if step else None
            if last is not None and of == last.of and last.end == begin:
                last = Stretch(last.begin, end, last.of)
                continue
            if last is not None:
                yield last
            last = None if of is None else Stretch(begin, end, of)
        if last is not None:
            yield last


def cells(stretches: Sequence[Stretch], begin: int, cell: int, count: int) -> list[int | None]:
    """The class that has most of each of ``count`` cells of ``cell`` bytes from ``begin`` on; None where none has any."""
    bins = Bins(begin, begin + cell * count, count)
    for stretch in stretches:
        bins.take(*msgspec.structs.astuple(stretch))
    found: list[int | None] = [None] * count
    for stretch in bins.stretches():
        first, end = (stretch.begin - begin) // cell, -(-(stretch.end - begin) // cell)
        found[first:end] = [stretch.of] * (end - first)
    return found
