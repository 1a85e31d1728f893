"""``show account``: the sum of a file, piece by piece, so that a person can add it up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from auditd.accounting.account import Account
from auditd.evidence.accounts import accounting_part
from auditd.evidence.exactness import exact_int
from auditd.evidence.observation import Observation
from auditd.evidence.record import Accounting, Candidate, DeclaredTotals, Region, TypeTotal
from auditd.evidence.text import exact as exact_text
from auditd.evidence.text import printable, quoted
from auditd.evidence.totals import declared, type_totals
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.gguf.wire import HEAD_BYTES
from auditd.report.figures import UNKNOWN, counted, exact, signed
from auditd.report.show.layout import File, facts, figures, file_of, grid, section, sentence, title, within_columns
from auditd.report.show.outcome import Ending, ending, ending_lines
from auditd.report.style import Style
from auditd.report.summary import BASES

_PREFIX_BYTES: Final = 8
#: Enough to see what kind of damage it is; the sheet has the first thousand.
_REGIONS_SHOWN: Final = 12
#: So many names of layouts are said at 80 columns, and more where there is room.
_COLUMNS_A_NAME: Final = 20
_TYPE_CHARACTERS: Final = 24
_NAME_CHARACTERS: Final = 64


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the header: ``count`` is how many entries it has (null: none to count), ``bytes`` its length."""

    piece: Literal["head", "metadata", "directory", "padding", "length", "json"]
    count: int | None
    bytes: int | None


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor beside a region; ``name_base64`` has its bytes where they are not UTF-8."""

    index: int
    name: str
    name_base64: str | None


class AccountSheet(msgspec.Struct, frozen=True, kw_only=True):
    """The account of one file; sizes and offsets in bytes, null where unknown or past 2**53 - 1.

    ``totals`` are sized under the layout of ``accounting``; ``unknown`` says in words why the residue is null.
    """

    schema: str = "model-auditd/show-account/1"
    file: File
    format: Literal["gguf", "safetensors"] | None
    alignment: int | None
    alignment_declared: bool | None
    pieces: list[Piece]
    data_offset: int | None
    totals: DeclaredTotals | None
    accounting: Accounting | None
    neighbours: list[Neighbour]
    unknown: str | None
    ending: Ending | None


def sheet(observation: Observation) -> AccountSheet:
    """The figures of ``look``."""
    header, account = observation.header, observation.account
    gguf = header if isinstance(header, GgufHeader) else None
    accounting = accounting_part(observation)
    return AccountSheet(
        file=file_of(observation),
        format=None if header is None else "safetensors" if gguf is None else "gguf",
        alignment=None if gguf is None else gguf.alignment,
        alignment_declared=None if gguf is None else gguf.alignment_declared,
        pieces=list(_pieces(header)),
        data_offset=None if header is None else exact_int(header.data_offset),
        totals=None if account is None else declared(type_totals(account.by_type)),
        accounting=accounting,
        neighbours=[] if accounting is None else list(_neighbours(header, accounting.regions or [])),
        unknown=_why_unknown(observation, account),
        ending=ending(observation),
    )


def _pieces(header: GgufHeader | SafetensorsHeader | None) -> Iterator[Piece]:
    if isinstance(header, SafetensorsHeader):
        length = header.header_length
        yield Piece(piece="length", count=None, bytes=None if length is None else _PREFIX_BYTES)
        yield Piece(piece="json", count=header.tensor_count, bytes=_between(_PREFIX_BYTES, length))
    elif header is not None:
        head = None if header.metadata_count is None else HEAD_BYTES
        yield Piece(piece="head", count=None, bytes=head)
        metadata = _between(HEAD_BYTES, header.metadata_end)
        yield Piece(piece="metadata", count=exact_int(header.metadata_count), bytes=metadata)
        directory = _between(header.metadata_end, header.directory_end)
        yield Piece(piece="directory", count=exact_int(header.tensor_count), bytes=directory)
        yield Piece(piece="padding", count=None, bytes=_between(header.directory_end, header.data_offset))


def _between(begin: int | None, end: int | None) -> int | None:
    return None if begin is None or end is None else exact_int(end - begin)


def _neighbours(header: GgufHeader | SafetensorsHeader | None, regions: list[Region]) -> Iterator[Neighbour]:
    """The tensors on either side of a region, in the order of the header; those whose rows were kept."""
    wanted = {index for region in regions for index in (region.after, region.before) if index is not None}
    rows = () if header is None else header.tensors
    for index in sorted(wanted):
        if index < len(rows):
            name = rows[index].name
            text, base64 = (name, None) if isinstance(name, str) else exact_text(name)
            yield Neighbour(index=index, name=text, name_base64=base64)


def _why_unknown(observation: Observation, account: Account | None) -> str | None:
    """Why there is no residue, in one sentence; None if there is one."""
    if account is None:
        return "the header was not read to its end, so nothing can be added up"
    if account.figures.residue is not None:
        return None
    if account.data_offset is None:
        return "nobody can say where the tensor data starts, so no tensor has a place in the file"
    if account.unsized is not None:
        sized = counted(account.unsized.count, "tensor")
        return f"{sized} of an unestablished size; the first is {_named(observation, account.unsized.first)}"
    if account.basis == "strict":
        return "no layout is believed, as asked for, and those that apply give different sums"
    return "a tensor has a shape that gives no size"


def _named(observation: Observation, index: int) -> str:
    rows = () if observation.header is None else observation.header.tensors
    return quoted(rows[index].name, _NAME_CHARACTERS) if index < len(rows) else f"tensor {index}"


# -- lines ------------------------------------------------------------------------------------------


@within_columns
def lines(sheet: AccountSheet, columns: int, style: Style) -> Iterator[str]:
    """The account for a terminal."""
    yield title("account of", sheet.file, columns, style)
    if sheet.pieces:
        yield from _header(sheet, style)
    if sheet.totals is not None and sheet.totals.tensors:
        yield from section("the tensors, by type", style)
        yield from grid(_TYPE_TITLES, [*map(_type, sheet.totals.by_type), _all(sheet.totals)], _TYPE_ALIGNS, style)
    if sheet.accounting is not None:
        yield from _sum(sheet, sheet.accounting, columns, style)
        yield from _regions(sheet, sheet.accounting, columns, style)
        yield from _layouts(sheet.accounting, columns, style)
    yield from ending_lines(sheet.ending, columns, style)


_WORDS: Final = {
    "head": "the four numbers at the front",
    "metadata": "the metadata",
    "directory": "the tensor entries",
    "length": "the length at the front",
    "json": "the JSON text",
}
_COUNTED: Final = {"metadata": ("metadata entry", "metadata entries"), "directory": ("tensor entry", "tensor entries")}


def _header(sheet: AccountSheet, style: Style) -> Iterator[str]:
    words = "four" if sheet.format == "gguf" else "two"
    yield from section(f"the header, in the {words} pieces that it is made of", style)
    rows = [(_piece(piece, sheet), exact(piece.bytes)) for piece in sheet.pieces]
    yield from figures([*rows, ("tensor data starts at", exact(sheet.data_offset))])


def _piece(piece: Piece, sheet: AccountSheet) -> str:
    if piece.piece == "padding":
        return f"padding to alignment {exact(sheet.alignment)}"
    if piece.piece in _COUNTED and piece.count is not None:
        return counted(piece.count, *_COUNTED[piece.piece])
    return _WORDS[piece.piece]


_TYPE_TITLES: Final = ("TYPE", "TENSORS", "WEIGHTS", "BYTES")
_TYPE_ALIGNS: Final = ("left", "right", "right", "right")


def _type(total: TypeTotal) -> tuple[str, ...]:
    return printable(total.type, _TYPE_CHARACTERS), exact(total.tensors), _elements(total.elements), exact(total.bytes)


def _all(totals: DeclaredTotals) -> tuple[str, ...]:
    return "all", exact(totals.tensors), _elements(totals.elements), exact(totals.bytes)


def _elements(text: str | None) -> str:
    return UNKNOWN if text is None else exact(int(text))


def _sum(sheet: AccountSheet, accounting: Accounting, columns: int, style: Style) -> Iterator[str]:
    yield from section("the sum", style)
    known = (accounting.data_offset, accounting.tensor_bytes, accounting.alignment_padding)
    owned = None if None in known else sum(part or 0 for part in known)
    rows = [
        ("header and padding", exact(accounting.data_offset)),
        ("every tensor's bytes", exact(accounting.tensor_bytes)),
        ("padding between tensors", exact(accounting.alignment_padding)),
        ("the three added together", exact(owned)),
        ("the file", exact(accounting.file_size)),
        ("left over", signed(accounting.residue)),
    ]
    *most, last = figures(rows)
    yield from most
    yield style(last, "undetermined" if accounting.residue is None else "residue" if accounting.residue else "sound")
    for text in (_parts(accounting), sheet.unknown and f"{UNKNOWN}: {sheet.unknown}", *_follow(sheet, accounting)):
        if text:
            yield from sentence(text, columns)


def _parts(accounting: Accounting) -> str:
    """The residue in its parts, where one of them is not zero: they can cancel out."""
    parts = (accounting.surplus, accounting.missing, accounting.overlap)
    if not any(parts):
        return ""
    return "= surplus {} - missing {} - overlap {}".format(*map(exact, parts))


def _follow(sheet: AccountSheet, accounting: Accounting) -> Iterator[str]:
    """Whether sizes and offsets agree, tensor by tensor; and how much of the file is header."""
    contiguous = accounting.contiguous
    if contiguous is not None:
        yes = "1 tensor starts" if contiguous.yes == 1 else f"{exact(contiguous.yes)} tensors start"
        before = "it" if contiguous.yes == 1 else "them"
        no = "1 does not" if contiguous.no == 1 else f"{exact(contiguous.no)} do not"
        yield f"{yes} where the one before {before} ended, and {no}"
        empty = (sheet.totals.tensors if sheet.totals else 0) - contiguous.yes - contiguous.no
        if empty > 0:
            yield f"{counted(empty, 'tensor')} without a weight, which take no byte"
    for count, words in ((accounting.tensors_cut, "cut by"), (accounting.tensors_gone, "wholly past")):
        if count:
            yield f"{counted(count, 'tensor')} {words} the end of the file"
    if accounting.data_offset and accounting.file_size and accounting.data_offset <= accounting.file_size:
        share = f"{accounting.data_offset / accounting.file_size:.2%}".replace("%", " %")
        yield f"{share} of the file is header and its padding"


def _regions(sheet: AccountSheet, accounting: Accounting, columns: int, style: Style) -> Iterator[str]:
    regions = accounting.regions or []
    if not regions:
        return
    yield from section("what is not plain, by region", style)
    names = {neighbour.index: neighbour.name for neighbour in sheet.neighbours}
    shown = [(_kind(region), _place(region, names)) for region in regions[:_REGIONS_SHOWN]]
    hidden = (accounting.region_count or len(regions)) - len(shown)
    yield from facts([*shown, *[("", f"and {exact(hidden)} more")] * (hidden > 0)], columns)


def _kind(region: Region) -> str:
    return region.kind.replace("_", " ")


def _place(region: Region, names: dict[int, str]) -> str:
    content = "" if region.kind in {"missing", "overlap"} else f", {region.content}"
    after = "" if region.after is None else f", after {_tensor(region.after, names)}"
    before = "" if region.before is None else f", before {_tensor(region.before, names)}"
    return f"{counted(region.length, 'byte')} at {exact(region.begin)}{content}{after}{before}"


def _tensor(index: int, names: dict[int, str]) -> str:
    return quoted(names[index], _NAME_CHARACTERS) if index in names else f"tensor {index}"


# -- layouts ----------------------------------------------------------------------------------------


def _layouts(accounting: Accounting, columns: int, style: Style) -> Iterator[str]:
    layout = accounting.layout
    if layout is None:
        return
    yield from section("the layout that gives the sizes", style)
    yield from sentence(f"{layout.name or 'none'}: {BASES[layout.basis]}", columns)
    if layout.basis == "established":  # all candidates are one
        return
    folded: dict[tuple[str, str], list[str]] = {}
    for candidate in accounting.candidates:
        reason = f": {candidate.reason}" if candidate.reason else ""
        folded.setdefault((_result(candidate), reason), []).extend(candidate.names)
    yield from facts([(result, _names(names, columns) + reason) for (result, reason), names in folded.items()], columns)


def _result(candidate: Candidate) -> str:
    """What the bytes do under a layout, short enough to stand before its names."""
    if not candidate.applicable:
        return "not applicable"
    parts = (candidate.surplus, candidate.missing, candidate.overlap)
    if None in parts:
        return "no residue under"
    if not any(parts):
        return "comes out under"
    return f"residue {signed(candidate.residue)} under"


def _names(names: list[str], columns: int) -> str:
    kept = max(1, columns // _COLUMNS_A_NAME - 1)
    more = len(names) - kept
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:kept])} and {more} more"
