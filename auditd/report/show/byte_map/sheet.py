"""What every byte of a file is for, as a picture to scale, with a lens for what is too small to be seen: the figures."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from auditd.accounting.account import no_pulse
from auditd.accounting.regions import Run
from auditd.accounting.segments import Segment, SegmentKind, segments
from auditd.evidence.exactness import exact_int
from auditd.evidence.observation import Observation
from auditd.evidence.record import Verdict
from auditd.evidence.text import exact as exact_text
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.report.show.byte_map.bins import Bins, Stretch
from auditd.report.show.layout import File, file_of
from auditd.report.show.outcome import Ending, ending
from auditd.rules.evaluate import evaluate
from auditd.rules.findings import worst_verdict

#: Steps of the whole picture: finer than any terminal, and than the SVG's pixels.
_STEPS: Final = 4096
#: Steps of a lens.
_LENS_STEPS: Final = 512
#: What is missing behind the file is drawn up to this many times the file's size: the file must stay to be seen.
_MOST_TIMES: Final = 8
#: A piece smaller than one part in so many is put under a lens.
_SMALL: Final = 256
#: Lenses for regions: enough to see what kind of damage it is.
_REGIONS: Final = 8
#: Metadata entries that take one part in so many of the header stand alone, those between them together.
_LARGE_ENTRY: Final = 40
#: Types with a class of their own; a hostile file may name a new one for each of its tensors.
_TYPES: Final = 30
OTHER_TYPES: Final = "other types"

#: The classes in the order of a legend: what a sound file has, then what it has not.
_ORDER: Final[tuple[SegmentKind, ...]] = (
    "head",
    "json",
    "metadata",
    "directory",
    "header_padding",
    "tensor",
    "padding",
    "gap",
    "trailing",
    "padding_partial",
    "overlap",
    "missing",
    "unknown",
    "unread",
)


class ByteClass(msgspec.Struct, frozen=True, kw_only=True):
    """All bytes of one kind, for tensors of one type; ``missing`` ones are behind the end of the file.

    ``pieces`` counts metadata entries, tensors or runs, ``first_at`` is the first one's file offset. Numbers are null
    past 2**53 - 1.
    """

    kind: SegmentKind
    type: str | None
    bytes: int | None
    pieces: int
    first_at: int | None


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the header: a large metadata entry by its key, or ``entries`` small ones (or tensor records) together."""

    kind: SegmentKind
    begin: int
    length: int
    entries: int | None = None
    key: str | None = None
    key_base64: str | None = None


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """The tensor beside a region; ``name`` is null if its row was not kept."""

    index: int
    name: str | None = None
    name_base64: str | None = None


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """A run of bytes that is not plain, between its neighbours."""

    kind: SegmentKind
    begin: int | None
    length: int | None
    after: Neighbour | None
    before: Neighbour | None


class Lens(msgspec.Struct, frozen=True, kw_only=True):
    """A window [begin, end) of the file around a region, or around the padding in front of the data, magnified."""

    begin: int
    end: int
    region: Region
    stretches: list[Stretch]


class MapSheet(msgspec.Struct, frozen=True, kw_only=True):
    """The picture. Offsets in the file and lengths in bytes.

    ``stretches`` show [0, ``drawn``) in steps of ``step`` bytes, each as the class (an index into ``classes``) that has
    most of it; the picture goes past ``file.size`` where bytes are missing, to ``drawn``, and not always to ``reach``,
    where the last tensor ends. ``header`` is exact; ``regions`` are the first of ``region_count``. ``verdict`` is null
    where the file was not looked at to an end, ``residue`` in bytes where it is not known.
    """

    schema: str = "model-auditd/show-map/1"
    file: File
    drawn: int
    reach: int | None
    step: int
    classes: list[ByteClass]
    stretches: list[Stretch]
    header_length: int | None
    header: list[Piece]
    regions: list[Region]
    region_count: int | None
    lenses: list[Lens]
    verdict: Verdict | None
    residue: int | None
    ending: Ending | None


def sheet(observation: Observation, pulse: Callable[[], None] = no_pulse) -> MapSheet:
    """The picture of ``look``; ``pulse`` is called now and then and may raise to end it."""
    size = observation.size or 0
    reach = _reach(observation, size)
    drawn = min(reach, max(size * _MOST_TIMES, _STEPS))
    regions = list(_regions(observation))
    windows = list(_windows(observation, regions, drawn, size))
    whole = Bins(0, drawn, _STEPS)
    count = _Count(whole, [bins for bins, _ in windows], _followed(observation.header))
    for segment in segments(observation.header, observation.account, size, pulse):
        count.take(segment)
    order = sorted(range(len(count.classes)), key=count.rank)
    place = {of: number for number, of in enumerate(order)}
    return MapSheet(
        file=file_of(observation),
        drawn=drawn,
        reach=exact_int(reach),
        step=whole.step,
        classes=[count.result(of) for of in order],
        stretches=_placed(whole, place),
        header_length=_header_length(observation.header),
        header=count.pieces(observation.header),
        regions=regions,
        region_count=None if observation.account is None else observation.account.run_count,
        lenses=[
            Lens(begin=bins.begin, end=bins.end, region=region, stretches=_placed(bins, place))
            for bins, region in windows
        ],
        verdict=None
        if observation.stop is not None
        else worst_verdict(drafts.verdict for drafts in evaluate(observation)),
        residue=None if observation.account is None else exact_int(observation.account.figures.residue),
        ending=ending(observation),
    )


def _placed(bins: Bins, place: dict[int, int]) -> list[Stretch]:
    return [Stretch(begin, end, place[of]) for begin, end, of in map(msgspec.structs.astuple, bins.stretches())]


def _reach(observation: Observation, size: int) -> int:
    """Where the file ends, or the last byte that the header promises."""
    account = observation.account
    runs = () if account is None else account.runs
    return max([size, *(run.end for run in runs if run.kind == "missing")])


def _header_length(header: GgufHeader | SafetensorsHeader | None) -> int | None:
    """Up to the data start: the padding in front of it is the header's."""
    if header is None or header.data_offset is None:
        return None if header is None else header.header_end
    return header.data_offset


def _followed(header: GgufHeader | SafetensorsHeader | None) -> int:
    """The same, or the end of what is known of a header that could not be followed to its end."""
    if isinstance(header, GgufHeader) and header.metadata and header.data_offset is None:
        return header.directory_end or header.metadata[-1].end
    return _header_length(header) or 0


# -- counting ---------------------------------------------------------------------------------------


class _Count:
    """Classes, and the pieces of the header, while the segments go by."""

    def __init__(self, whole: Bins, windows: list[Bins], header_length: int) -> None:
        self._whole = whole
        #: Those that segments are still to come for.
        self._windows = deque(sorted(windows, key=lambda bins: bins.begin))
        self._large = header_length // _LARGE_ENTRY
        self._ids: dict[tuple[SegmentKind, str | None], int] = {}
        #: Kind, type, bytes, pieces, first offset.
        self.classes: list[list[int]] = []
        self._keys: list[tuple[SegmentKind, str | None]] = []
        self._types = 0
        self._header: list[Piece] = []

    def take(self, segment: Segment) -> None:
        """One more segment."""
        begin, end, kind = segment[:3]
        of = self._class(segment)
        total = self.classes[of]
        total[0] += end - begin
        total[1] += 1
        self._whole.take(begin, end, of)
        while self._windows and self._windows[0].end <= begin:
            self._windows.popleft()
        for bins in self._windows:
            if end <= bins.begin:
                break
            bins.take(begin, end, of)
        if kind in _HEADER:
            self._take_header(segment)

    def _class(self, segment: Segment) -> int:
        key = (segment.kind, segment.type if segment.kind == "tensor" else None)
        of = self._ids.get(key)
        if of is not None:
            return of
        if segment.kind == "tensor":
            self._types += 1
            if self._types > _TYPES:
                key = ("tensor", OTHER_TYPES)
        if key not in self._ids:
            self._ids[key] = len(self.classes)
            self._keys.append(key)
            self.classes.append([0, 0, segment.begin])
        return self._ids[key]

    def _take_header(self, segment: Segment) -> None:
        """Small metadata entries that follow each other are one piece."""
        begin, length = segment.begin, segment.length
        small = segment.kind == "metadata" and (segment.owner is None or length < self._large)
        last = self._header[-1] if self._header else None
        if small and last is not None and last.kind == "metadata" and last.key is None:
            entries = None if last.entries is None or segment.owner is None else last.entries + 1
            self._header[-1] = msgspec.structs.replace(last, length=last.length + length, entries=entries)
        elif small or segment.owner is None:
            entries = 1 if segment.owner is not None else None
            self._header.append(Piece(kind=segment.kind, begin=begin, length=length, entries=entries))
        else:
            key, key_base64 = exact_text(segment.label)
            self._header.append(
                Piece(kind=segment.kind, begin=begin, length=length, entries=1, key=key, key_base64=key_base64)
            )

    def rank(self, of: int) -> tuple[int, int]:
        """The place of a class in the legend: types of tensors by their bytes."""
        return _ORDER.index(self._keys[of][0]), -self.classes[of][0]

    def result(self, of: int) -> ByteClass:
        """The class as a sheet has it."""
        kind, type_ = self._keys[of]
        total, pieces, first = self.classes[of]
        return ByteClass(kind=kind, type=type_, bytes=exact_int(total), pieces=pieces, first_at=exact_int(first))

    def pieces(self, header: GgufHeader | SafetensorsHeader | None) -> list[Piece]:
        """The header's pieces in file order, with the number of records in the directory."""
        records = None if header is None else header.tensor_count
        holders = ("directory", "json")
        return [
            msgspec.structs.replace(piece, entries=exact_int(records)) if piece.kind in holders else piece
            for piece in self._header
        ]


_HEADER: Final[frozenset[SegmentKind]] = frozenset({"head", "json", "metadata", "directory", "header_padding"})


# -- lenses -----------------------------------------------------------------------------------------


def _regions(observation: Observation) -> Iterator[Region]:
    runs: Iterable[Run] = () if observation.account is None else observation.account.runs[:_REGIONS]
    for run in runs:
        yield Region(
            kind=run.kind,
            begin=exact_int(run.begin),
            length=exact_int(run.end - run.begin),
            after=_neighbour(observation, run.after),
            before=_neighbour(observation, run.before),
        )


def _neighbour(observation: Observation, index: int | None) -> Neighbour | None:
    if index is None:
        return None
    rows = () if observation.header is None else observation.header.tensors
    if index >= len(rows):
        return Neighbour(index=index)
    name = rows[index].name
    text, base64 = (name, None) if isinstance(name, str) else exact_text(name)
    return Neighbour(index=index, name=text, name_base64=base64)


def _windows(observation: Observation, regions: list[Region], drawn: int, size: int) -> Iterator[tuple[Bins, Region]]:
    """A window around each small piece, with as much on either side as it has itself."""
    padding = _header_padding(observation)
    for region in [padding, *regions] if padding else regions:
        begin, length = region.begin, region.length
        if begin is None or length is None or length * _SMALL >= drawn:
            continue
        end = begin + length
        yield Bins(max(0, begin - length), min(end + length, max(size, end)), _LENS_STEPS), region


def _header_padding(observation: Observation) -> Region | None:
    header = observation.header
    if not isinstance(header, GgufHeader) or header.directory_end is None or header.data_offset is None:
        return None
    length = header.data_offset - header.directory_end
    if not length:
        return None
    return Region(kind="header_padding", begin=header.directory_end, length=length, after=None, before=None)
