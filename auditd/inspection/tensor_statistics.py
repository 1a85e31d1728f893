"""The numbers of one tensor, streamed from its file: what is the smallest, the largest, the mean, what is no number.

Blocking, in pieces of 1 MiB, without anything being kept but the sums; only for types whose elements are numbers by
themselves (:data:`auditd.evidence.statistics.PLAIN_TYPES`).
"""

from __future__ import annotations

import math
import os
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from struct import unpack
from types import MappingProxyType
from typing import Final, TypeAlias

from auditd.errors import InspectionStopped
from auditd.evidence.observation import Observation, Stop
from auditd.evidence.record import FileIdentity, IdentityStatus
from auditd.evidence.statistics import FIRST, PLAIN_TYPES, PLAUSIBLE, Number, Numbers, PlainType
from auditd.formats.declarations import ByteOrder, GgufHeader
from auditd.inspection.descriptor import Descriptor, Unreadable
from auditd.inspection.identity import compare, observe
from auditd.inspection.request import Checkpoint, Progress, carry_on, unwatched
from auditd.model.tensors import TensorFact

#: A multiple of every element size. Fast enough, and a stop is never far.
_PIECE_BYTES: Final = 1024 * 1024

#: Doubles are summed in units of this where their plain sum would pass the largest double: 2**53 of them fit.
_SCALE: Final = 2.0**64

#: As a double, whose comparison takes integers, too.
_LIMIT: Final = float(PLAUSIBLE)

_Decoder: TypeAlias = Callable[[bytes, ByteOrder], Sequence[Number]]


def summarise(
    observation: Observation,
    tensor: TensorFact,
    *,
    ignore_alignment: bool = False,
    checkpoint: Checkpoint = carry_on,
    progress: Progress = unwatched,
) -> Numbers:
    """Read the numbers of ``tensor`` from the file of ``look``. Raises nothing for any file or stop.

    ``ignore_alignment`` measures the tensor's offset from the end of the header instead of from the data start: what
    then comes out is not the tensor. The caller asks :func:`auditd.evidence.statistics.refusal` first, and
    :func:`read_from`; a tensor without plain numbers or without a place is a ``ValueError``.
    """
    plain = PLAIN_TYPES.get(tensor.type)
    begin = read_from(observation, tensor, ignore_alignment=ignore_alignment)
    if plain is None or begin is None or tensor.byte_length is None:
        message = "only a plain tensor with a place and a size has numbers to be read"
        raise ValueError(message)
    summary = _Summary(begin, tensor.byte_length // plain.size, plain, byte_order_of(observation))
    try:
        descriptor = Descriptor(observation.path)
    except Unreadable as refused:
        return summary.numbers("unverified", refused.stop)
    try:
        return _read(descriptor, observation.before, summary, checkpoint, progress)
    finally:
        descriptor.close()


def read_from(observation: Observation, tensor: TensorFact, *, ignore_alignment: bool = False) -> int | None:
    """The file offset of the tensor's first byte, or of what the mistake takes for it; None if it is not known."""
    if not ignore_alignment:
        return tensor.file_offset
    end = None if observation.header is None else observation.header.header_end
    return None if end is None else end + tensor.offset


def byte_order_of(observation: Observation) -> ByteOrder:
    """The byte order of the numbers: a GGUF file's own, else little."""
    order = observation.header.byte_order if isinstance(observation.header, GgufHeader) else None
    return order or "little"


def _read(
    descriptor: Descriptor,
    expected: FileIdentity | None,
    summary: _Summary,
    checkpoint: Checkpoint,
    progress: Progress,
) -> Numbers:
    stop: Stop | None = None
    identity: IdentityStatus = "unverified"
    try:
        checkpoint()
        before = descriptor.status()
        stop = _stream(descriptor, before.st_size, summary, checkpoint, progress)
        identity = _identity(expected, before, descriptor)
    except Unreadable as failed:
        stop = failed.stop
    except InspectionStopped as stopped:
        stop = Stop("cancelled", "cancelled", stopped.reason, offset=descriptor.offset)
    return summary.numbers(identity, stop)


def _stream(
    descriptor: Descriptor, size: int, summary: _Summary, checkpoint: Checkpoint, progress: Progress
) -> Stop | None:
    """Feed the tensor's bytes; a stop if the file ends before they do."""
    descriptor.offset = summary.begin
    wanted = summary.declared * summary.plain.size
    held = b""
    while summary.bytes_read + len(held) < wanted:
        checkpoint()
        missing = wanted - summary.bytes_read - len(held)
        data = descriptor.read(min(_PIECE_BYTES, missing)) if descriptor.offset < size else b""
        if not data:
            message = f"the file ends at byte {size:,}, and {missing:,} bytes of the tensor are not there"
            return Stop("file_format_rejected", "content", message, offset=size)
        data = held + data
        whole = len(data) - len(data) % summary.plain.size
        held = data[whole:]
        summary.take(data[:whole])
        progress(summary.bytes_read, wanted)
    return None


def _identity(expected: FileIdentity | None, before: os.stat_result, descriptor: Descriptor) -> IdentityStatus:
    """Whether this is the file whose header was read, and whether it held still."""
    if expected is not None:
        seen = observe(before)
        if (seen.device, seen.inode) != (expected.device, expected.inode):
            return "replaced"
        if (seen.size, seen.mtime_ns, seen.ctime_ns) != (expected.size, expected.mtime_ns, expected.ctime_ns):
            return "modified"
    return compare(before, descriptor.status(), descriptor.path_status())


# -- decoding ---------------------------------------------------------------------------------------


def _typed(code: str) -> _Decoder:
    def decode(data: bytes, order: ByteOrder) -> array[int] | array[float]:
        numbers: array[int] | array[float] = array(code)
        numbers.frombytes(data)
        if order != sys.byteorder and numbers.itemsize > 1:
            numbers.byteswap()
        return numbers

    return decode


def _half(data: bytes, order: ByteOrder) -> tuple[float, ...]:
    mark = "<" if order == "little" else ">"
    return unpack(f"{mark}{len(data) // 2}e", data)


def _bfloat(data: bytes, order: ByteOrder) -> Sequence[Number]:
    """The upper halves of 32-bit floats, with zeros for the lower ones."""
    wide = bytearray(2 * len(data))
    first = 2 if order == "little" else 0
    wide[first::4] = data[::2]
    wide[first + 1 :: 4] = data[1::2]
    return _FLOAT(bytes(wide), order)


_FLOAT: Final = _typed("f")

_DECODERS: Final[Mapping[PlainType, _Decoder]] = MappingProxyType(
    {
        PlainType(1, "unsigned"): _typed("B"),
        PlainType(1, "signed"): _typed("b"),
        PlainType(2, "unsigned"): _typed("H"),
        PlainType(2, "signed"): _typed("h"),
        PlainType(4, "unsigned"): _typed("I"),
        PlainType(4, "signed"): _typed("i"),
        PlainType(8, "unsigned"): _typed("Q"),
        PlainType(8, "signed"): _typed("q"),
        PlainType(2, "float"): _half,
        PlainType(2, "bfloat"): _bfloat,
        PlainType(4, "float"): _FLOAT,
        PlainType(8, "float"): _typed("d"),
    }
)


# -- summing ----------------------------------------------------------------------------------------


class _Summary:
    """What is known of the numbers so far."""

    def __init__(self, begin: int, declared: int, plain: PlainType, order: ByteOrder) -> None:
        self.begin = begin
        self.declared = declared
        self.plain = plain
        self._order = order
        self._decode = _DECODERS[plain]
        self._count = self._finite = self._plausible = 0
        self._first: tuple[Number, ...] = ()
        self._smallest: Number | None = None
        self._largest: Number | None = None
        self._total = _Total()

    @property
    def bytes_read(self) -> int:
        """Bytes of whole numbers that were taken."""
        return self._count * self.plain.size

    def take(self, data: bytes) -> None:
        """Take the next bytes, which are whole numbers."""
        numbers = self._decode(data, self._order)
        self._count += len(numbers)
        if len(self._first) < FIRST:
            self._first += tuple(numbers[: FIRST - len(self._first)])
        finite = self._total.add(numbers)
        if not finite:
            return
        self._finite += len(finite)
        low, high = min(finite), max(finite)
        self._smallest = low if self._smallest is None else min(self._smallest, low)
        self._largest = high if self._largest is None else max(self._largest, high)
        within = max(-low, high) < PLAUSIBLE
        self._plausible += len(finite) if within else sum(map(_LIMIT.__gt__, map(abs, finite)))

    def numbers(self, identity: IdentityStatus, stop: Stop | None) -> Numbers:
        """The result."""
        return Numbers(
            begin=self.begin,
            declared=self.declared,
            count=self._count,
            ended_at=self.begin + self.bytes_read,
            first=self._first,
            smallest=self._smallest,
            largest=self._largest,
            mean=self._total.mean(self._finite),
            not_finite=self._count - self._finite,
            plausible=self._plausible,
            identity=identity,
            stop=stop,
        )


class _Total:
    """A sum that is exact for integers, and for floats as exact as a double holds the sum of each piece."""

    def __init__(self) -> None:
        self._integers = 0
        self._sums: list[float] = []
        #: The sums, in units of ``_SCALE``, of pieces whose own sum is past the largest double.
        self._scaled: list[float] = []

    def add(self, numbers: Sequence[Number]) -> Sequence[Number]:
        """Add the finite numbers, and return them."""
        if isinstance(numbers, array) and numbers.typecode not in "fd":
            self._integers += int(sum(numbers))
            return numbers
        try:
            total = math.fsum(numbers)
            if math.isfinite(total):
                self._sums.append(total)
                return numbers
        except (OverflowError, ValueError):  # past the largest double, or infinities of both signs
            pass
        finite = list(filter(math.isfinite, numbers))
        try:
            self._sums.append(math.fsum(finite))
        except OverflowError:
            self._scaled.append(math.fsum(number / _SCALE for number in finite))
        return finite

    def mean(self, count: int) -> float | None:
        """The mean of ``count`` numbers; None of none."""
        if not count:
            return None
        if not self._sums and not self._scaled:
            return self._integers / count
        if not self._scaled:
            try:
                return math.fsum(self._sums) / count
            except OverflowError:
                pass
        scaled = math.fsum([*(part / _SCALE for part in self._sums), *self._scaled])
        # Rounding may carry a mean at the very end of the doubles past it.
        return max(-sys.float_info.max, min(scaled / count * _SCALE, sys.float_info.max))
