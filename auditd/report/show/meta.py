"""``show meta``: every metadata entry in the order of the file, or one value whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal

import msgspec

from auditd.evidence.exactness import exact_int
from auditd.evidence.observation import Observation
from auditd.evidence.record import ArrayPreview, MetadataRow, Scalar
from auditd.evidence.rows import metadata_row, scalar_form
from auditd.evidence.text import exact as exact_text
from auditd.evidence.text import harmless_json, printable, quoted
from auditd.formats.declarations import ArrayValue, GgufHeader, MetadataEntry, SafetensorsHeader
from auditd.formats.gguf.elements import Element, is_whole, kept_elements
from auditd.model.architecture import architecture
from auditd.report.columns import fold, wrap
from auditd.report.declarations import shown_value
from auditd.report.figures import counted, exact
from auditd.report.show.layout import File, file_of, title, within_columns
from auditd.report.show.meta_table import raw_text, table
from auditd.report.show.outcome import Ending, ending, ending_lines
from auditd.report.show.suggestions import absent
from auditd.report.style import Style

_ARCHITECTURE_CHARACTERS: Final = 24
#: Elements that are put into JSON at a time.
_BATCH: Final = 1024


class GroupCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many entries begin with the architecture's name, ``tokenizer.``, ``general.``, or otherwise."""

    architecture: int
    tokenizer: int
    general: int
    other: int


class MetaSheet(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that were read, as an evidence record has them; ``declared`` is how many the file says it has.

    ``groups`` is null unless all entries are known, ``architecture`` where the file does not name it.
    """

    schema: str = "model-auditd/show-meta/1"
    file: File
    format: Literal["gguf", "safetensors"] | None
    declared: int | None
    entries: list[MetadataRow]
    architecture: str | None
    groups: GroupCounts | None
    ending: Ending | None


class ValueSheet(msgspec.Struct, frozen=True, kw_only=True):
    """One value. ``offset`` and ``length`` are of the value's bytes in the file, null in safetensors.

    ``elements`` are all of an array's, in the forms of values in a record; text that is not UTF-8 is ``{"base64":
    ...}``, and an element of an array inside it ``[[its index in each array], value]``. ``elements_from`` is where all
    of them come from: the header keeps them, the file was read again; null where only the beginning is known, and for
    what is no array.
    """

    schema: str = "model-auditd/show-value/1"
    file: File
    entry: MetadataRow
    offset: int | None
    length: int | None
    elements_from: Literal["header", "file"] | None
    elements: msgspec.Raw | None
    ending: Ending | None


# -- sheets -----------------------------------------------------------------------------------------


def sheet(observation: Observation) -> MetaSheet:
    """Every entry of ``look``."""
    header = observation.header
    said = architecture(header, observation.account)
    return MetaSheet(
        file=file_of(observation),
        format=None if header is None else "gguf" if isinstance(header, GgufHeader) else "safetensors",
        declared=_declared(header),
        entries=list(_rows(header)),
        architecture=None if said.name is None else exact_text(said.name)[0],
        groups=None
        if said.groups is None
        else GroupCounts(
            architecture=said.groups.architecture,
            tokenizer=said.groups.tokenizer,
            general=said.groups.general,
            other=said.groups.other,
        ),
        ending=ending(observation),
    )


def _declared(header: GgufHeader | SafetensorsHeader | None) -> int | None:
    if isinstance(header, GgufHeader):
        return exact_int(header.metadata_count)
    if header is None or not header.complete or not header.metadata_kept:
        return None
    return len(header.metadata or {})


def _rows(header: GgufHeader | SafetensorsHeader | None) -> Iterator[MetadataRow]:
    if isinstance(header, GgufHeader):
        yield from map(metadata_row, header.metadata)
    elif header is not None:
        for index, (key, value) in enumerate((header.metadata or {}).items()):
            yield MetadataRow(index=index, key=key, type="string", value=value)


def long_array(observation: Observation, key: bytes) -> MetadataEntry | None:
    """The entry of ``key`` if the header has only the beginning of its array, so that its file must be read again."""
    header = observation.header
    if not isinstance(header, GgufHeader):
        return None
    found = next((entry for entry in header.metadata if entry.key == key), None)
    return None if found is None or is_whole(found.value) else found


def value_sheet(
    observation: Observation, key: bytes, elements: Iterable[Element] | None = None, *, following: bool = False
) -> ValueSheet:
    """The value of ``key``, the first one if several entries have it; raises ``UsageError`` if none has.

    ``elements`` are all elements of a long array where its file was read again for the sheet; ``following`` says that
    it is read behind it, for :func:`element_lines`.
    """
    header = observation.header
    rows = list(_rows(header))
    keys = [raw_text(row.key, row.key_base64) for row in rows]
    if key not in keys:
        raise absent("metadata key", key, keys, printable(observation.path))
    index = keys.index(key)
    entry = header.metadata[index] if isinstance(header, GgufHeader) else None
    return ValueSheet(
        file=file_of(observation),
        entry=rows[index],
        offset=None if entry is None else entry.value_begin,
        length=None if entry is None else entry.end - entry.value_begin,
        elements_from=_source(entry, read_again=following or elements is not None),
        elements=_elements_json(entry, elements),
        ending=ending(observation),
    )


def _source(entry: MetadataEntry | None, *, read_again: bool) -> Literal["header", "file"] | None:
    if entry is None or not isinstance(entry.value, ArrayValue):
        return None
    if is_whole(entry.value):
        return "header"
    return "file" if read_again else None


def _elements_json(entry: MetadataEntry | None, elements: Iterable[Element] | None) -> msgspec.Raw | None:
    """All elements as JSON, put together in pieces so that none of them stays in memory as a value."""
    if entry is None or not isinstance(entry.value, ArrayValue):
        return None
    if elements is None and not is_whole(entry.value):
        return None
    out = bytearray()
    forms = map(_element_form, kept_elements(entry.value) if elements is None else elements)
    while batch := list(islice(forms, _BATCH)):
        out += b"," if out else b""
        out += harmless_json(msgspec.json.encode(batch))[1:-1]
    return msgspec.Raw(b"[%b]" % bytes(out))


def _element_form(element: Element) -> object:
    shown, raw_base64 = scalar_form(element.value, element.type_id)
    value = shown if raw_base64 is None else {"base64": raw_base64}
    return value if len(element.path) == 1 else [element.path, value]


# -- lines ------------------------------------------------------------------------------------------


def lines(sheet: MetaSheet | ValueSheet, columns: int, style: Style) -> Iterator[str]:
    """The sheet for a terminal. Of a long array only the heading: its elements are for :func:`element_lines`."""
    return _value_lines(sheet, columns, style) if isinstance(sheet, ValueSheet) else _meta_lines(sheet, columns, style)


@within_columns
def _meta_lines(sheet: MetaSheet, columns: int, style: Style) -> Iterator[str]:
    yield title("metadata of", sheet.file, columns, style)
    if sheet.entries:
        yield ""
        yield from table(sheet.entries, columns, style)
    yield ""
    yield from wrap(_total(sheet), columns)
    if sheet.ending is not None:
        yield from ending_lines(sheet.ending, columns, style)


def _total(sheet: MetaSheet) -> str:
    count = len(sheet.entries)
    text = counted(count, "entry", "entries")
    if sheet.declared != count:
        text += f" of {exact(sheet.declared)}"
    groups = sheet.groups
    if groups is None or not count:
        return text
    own = printable(sheet.architecture or "", _ARCHITECTURE_CHARACTERS) + "." if sheet.architecture else ""
    parts = (
        *(((groups.architecture, own),) if own else ()),
        (groups.tokenizer, "tokenizer."),
        (groups.general, "general."),
    )
    told = [f"{number:,} {beginning}" for number, beginning in parts]
    return f"{text}; by how the key begins: {', '.join(told)}, {groups.other:,} other"


# -- one value --------------------------------------------------------------------------------------


def _value_lines(sheet: ValueSheet, columns: int, style: Style) -> Iterator[str]:
    row = sheet.entry
    yield from fold(title(f"{printable(raw_text(row.key, row.key_base64))} in", sheet.file, columns, style), columns)
    yield from wrap(_what(sheet), columns)
    yield ""
    if row.element_type is None:
        yield from _text_lines(row)
    elif sheet.elements_from != "file":
        yield from _preview_lines(row.preview or [], "")
        if sheet.elements_from is None:
            yield _left_out(row)
    if sheet.ending is not None:
        yield from ending_lines(sheet.ending, columns, style)


def _what(sheet: ValueSheet) -> str:
    row = sheet.entry
    what = row.type if row.element_type is None else f"array, {exact(row.count)} of {row.element_type}"
    place = f", {counted(sheet.length, 'byte')} at {exact(sheet.offset)}" if sheet.offset is not None else ""
    return f"entry {exact(row.index)}: {what}{place}"


def _text_lines(row: MetadataRow) -> Iterator[str]:
    """A text line by line as it stands, what is not printable as escapes; other values as they are."""
    if row.type != "string":
        yield shown_value(row.value)
        return
    for line in raw_text(str(row.value), row.value_base64).split(b"\n"):
        yield printable(line)


def _preview_lines(items: Sequence[Scalar | ArrayPreview], path: str) -> Iterator[str]:
    """Bounded by what a record keeps of arrays in arrays."""
    cells = _path_cells(len(items)) + len(path)
    for index, item in enumerate(items):
        at = f"{path}[{index}]"
        if isinstance(item, ArrayPreview):
            yield f"{at.ljust(cells)}  {exact(item.count)} of {item.element_type}"
            yield from _preview_lines(item.preview, at)
        else:
            yield f"{at.ljust(cells)}  {_shown_element(item)}"


def _path_cells(count: int) -> int:
    """What ``[index]`` of the last of ``count`` elements takes, so that the elements stand below each other."""
    return len(f"[{max(0, count - 1)}]")


def _shown_element(item: Scalar) -> str:
    return quoted(item, len(item) + 1) if isinstance(item, str) else shown_value(item)


def element_lines(elements: Iterable[Element], count: int = 0) -> Iterator[str]:
    """Each element of a long array of ``count`` on a line of its own."""
    cells = _path_cells(count)
    for element in elements:
        path = "".join(f"[{index}]" for index in element.path).ljust(cells)
        if isinstance(element.value, bytes):
            yield f"{path}  {quoted(element.value, len(element.value) + 1)}"
        else:
            yield f"{path}  {shown_value(scalar_form(element.value, element.type_id)[0])}"


def _left_out(row: MetadataRow) -> str:
    """What a dumped header does not have of a long array."""
    shown = len(row.preview or ())
    rest = None if row.count is None else row.count - shown
    return f"and {exact(rest)} more, which a dumped header does not have"
