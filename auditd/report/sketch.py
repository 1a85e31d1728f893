"""``sketch``: what went into the small known file, where the writer put it, and what the reader found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from auditd.evidence.observation import Observation
from auditd.evidence.record import Scalar
from auditd.evidence.rows import scalar_form
from auditd.evidence.statistics import Numbers
from auditd.evidence.text import quoted
from auditd.formats import writer
from auditd.formats.declarations import ArrayValue, GgufHeader, MetadataEntry
from auditd.formats.gguf.wire import VALUE_TYPES
from auditd.formats.writer import Span, Written
from auditd.model.tensors import TensorFact, tensor_facts
from auditd.report.columns import defused, wrap
from auditd.report.figures import UNKNOWN, counted, exact
from auditd.report.show.field_list import fields
from auditd.report.show.layout import File, figures, file_of, grid, section, sentence, title, within_columns
from auditd.report.show.outcome import Ending, ending, ending_lines
from auditd.report.style import Style
from auditd.rules.evaluate import evaluate

_DIGEST_SHOWN: Final = 16
_MISTAKE: Final = (
    "This is the mistake, not the tensor: offsets count from the data start, and the header ends before it. Nothing in "
    "what was read gives that away."
)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One fact of the file: ``written`` is what went in, ``found`` what the reader says, null if it does not."""

    what: str
    written: int | str
    found: int | str | None

    @property
    def same(self) -> bool:
        """Whether the reader found what was written."""
        return self.written == self.found


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A field by the writer's own counter, in bytes; ``found`` says that the reader has a field just there."""

    offset: int
    length: int
    field: str
    found: bool


class SketchSheet(msgspec.Struct, frozen=True, kw_only=True):
    """A sketch that was written and read back. ``sum`` is header, padding and data; sizes and offsets in bytes.

    ``numbers_read_from`` is the data start, or with ``ignore_alignment`` the place where the header ends, where they
    are not. ``same`` says that the reader found all that was written, and ``matching`` how many of the numbers.
    """

    schema: str = "model-auditd/sketch/1"
    file: File
    sha256: str
    alignment: int
    spans: list[Place]
    checks: list[Check]
    sum: list[int | None]
    ignore_alignment: bool
    numbers_read_from: int | None
    numbers_written: list[Scalar]
    numbers_read: list[Scalar]
    matching: int
    notices: list[str]
    same: bool
    ending: Ending | None


def the_tensor(observation: Observation) -> TensorFact | None:
    """The tensor of a sketch, as the reader has it; None if it does not have one of plain numbers with a place."""
    found = next(tensor_facts(observation.header, observation.account), None)
    sized = found is not None and found.type == "F32" and found.file_offset is not None and found.byte_length
    return found if sized else None


def sheet(
    observation: Observation,
    written: Written,
    alignment: int,
    sha256: str,
    numbers: Numbers | None,
    *,
    ignore_alignment: bool,
) -> SketchSheet:
    """The file that ``written`` made against the ``look`` at it; ``numbers`` are those that were read from it."""
    header = observation.header if isinstance(observation.header, GgufHeader) else None
    spans = list(_places(observation, written.spans))
    checks = list(_checks(observation, header, written, alignment))
    read = [] if numbers is None else list(numbers.first)
    matching = sum(_same_number(a, b) for a, b in zip(writer.SKETCH_VALUES, read, strict=False))
    pieces = (*_pieces(header), None if observation.account is None else observation.account.figures.tensor_bytes)
    whole = matching == len(writer.SKETCH_VALUES) == len(read)
    return SketchSheet(
        file=file_of(observation),
        sha256=sha256,
        alignment=alignment,
        spans=spans,
        checks=checks,
        sum=list(pieces),
        ignore_alignment=ignore_alignment,
        numbers_read_from=None if numbers is None else numbers.begin,
        numbers_written=[_number(value) for value in writer.SKETCH_VALUES],
        numbers_read=[_number(value) for value in read],
        matching=matching,
        notices=[f"{found.code}: {found.message}" for found in evaluate(observation)],
        same=whole and all(check.same for check in checks) and all(place.found for place in spans),
        ending=ending(observation),
    )


def _number(value: float) -> Scalar:
    return scalar_form(value, VALUE_TYPES.index("f64"))[0]


def _same_number(a: float, b: float) -> bool:
    return a == b


def _places(observation: Observation, spans: Sequence[Span]) -> Iterator[Place]:
    """The writer's spans; one that is empty at this alignment is no field."""
    found = {(field.begin, field.end) for field in fields(observation, fine=False)}
    for span in spans:
        if span.length:
            there = (span.begin, span.begin + span.length) in found
            yield Place(offset=span.begin, length=span.length, field=span.field, found=there)


def _pieces(header: GgufHeader | None) -> tuple[int | None, int | None]:
    if header is None or header.directory_end is None or header.data_offset is None:
        return None, None
    return header.directory_end, header.data_offset - header.directory_end


def _checks(observation: Observation, header: GgufHeader | None, written: Written, alignment: int) -> Iterator[Check]:
    """One check a line of what went in, in the order in which it stands in the file."""
    found = _figures(header)
    data, begin = written.spans[-1], written.spans[-2].begin
    yield Check(what="bytes of the file", written=len(written.data), found=observation.size)
    for what, number in (
        ("version", writer.SKETCH_VERSION),
        ("tensors", 1),
        ("metadata entries", len(writer.sketch_metadata(alignment))),
        ("alignment", alignment),
        ("last tensor entry ends at", begin),
        ("padding", data.begin - begin),
        ("tensor data starts at", data.begin),
    ):
        yield Check(what=what, written=number, found=found.get(what))
    rows = () if header is None else header.metadata
    for index, entry in enumerate(writer.sketch_metadata(alignment)):
        yield Check(
            what=f"entry {index}", written=_entry(entry), found=_told(rows[index]) if index < len(rows) else None
        )
    yield from _tensor_checks(next(tensor_facts(header, observation.account), None), data)


def _figures(header: GgufHeader | None) -> dict[str, int | None]:
    if header is None:
        return {}
    end, padding = _pieces(header)
    return {
        "version": header.version,
        "tensors": header.tensor_count,
        "metadata entries": header.metadata_count,
        "alignment": header.alignment,
        "last tensor entry ends at": end,
        "padding": padding,
        "tensor data starts at": header.data_offset,
    }


def _tensor_checks(fact: TensorFact | None, data: Span) -> Iterator[Check]:
    found: dict[str, int | str | None] = {}
    if fact is not None:
        found = {
            "tensor": fact.name.decode("utf-8", "backslashreplace"),
            "its shape": " x ".join(map(str, fact.shape)),
            "its type": fact.type,
            "its numbers": fact.elements,
            "its bytes": fact.byte_length,
            "its offset": fact.offset,
        }
    for what, value in (
        ("tensor", writer.SKETCH_TENSOR),
        ("its shape", " x ".join(map(str, writer.SKETCH_SHAPE))),
        ("its type", "F32"),
        ("its numbers", len(writer.SKETCH_VALUES)),
        ("its bytes", data.length),
        ("its offset", 0),
    ):
        yield Check(what=what, written=value, found=found.get(what))


def _entry(entry: writer.Entry) -> str:
    """An entry that went in, in one line."""
    return f"{entry.key!s} ({entry.type}) = {_value(entry.value, entry.element_type)}"


def _told(entry: MetadataEntry) -> str:
    """The same of an entry that was read."""
    key = entry.key.decode("utf-8", "backslashreplace")
    value: object = entry.value
    element_type = ""
    if isinstance(entry.value, ArrayValue):
        # a preview that is not all of the array must not look like the array
        value = [*entry.value.preview, *([] if entry.value.preview_complete else [...])]
        element_type = VALUE_TYPES[entry.value.element_type]
    return f"{key} ({VALUE_TYPES[entry.type_id]}) = {_value(value, element_type)}"


def _value(value: object, element_type: str) -> str:
    if isinstance(value, list):
        return f"{len(value)} of {element_type}: {', '.join(_value(item, '') for item in value)}"
    return quoted(value) if isinstance(value, str | bytes) else str(value)


# -- lines ------------------------------------------------------------------------------------------


@within_columns
def lines(sheet: SketchSheet, columns: int, style: Style) -> Iterator[str]:
    """The sheet for a terminal: the spans, what was found, the sum, the numbers, the outcome last."""
    yield title("a sketch, written and read back:", sheet.file, columns, style)
    yield from section("where every field went", style)
    rows = [(exact(place.offset), exact(place.length), place.field) for place in sheet.spans]
    yield from grid(("at", "bytes", "field"), rows, ("right", "right", "left"), style)
    yield f"  {counted(sheet.file.size, 'byte')}, sha256 {sheet.sha256[:_DIGEST_SHOWN]}"
    yield from section("what went in, and what the reader found", style)
    yield from figures([(check.what, _both(check)) for check in sheet.checks if isinstance(check.written, int)])
    yield from _texts(sheet, columns)
    yield ""
    yield f"  {' + '.join(map(exact, sheet.sum))} = {exact(_total(sheet))}, and the file is {exact(sheet.file.size)}"
    yield from section(_numbers_title(sheet), style)
    yield from figures([("written", _list(sheet.numbers_written)), ("read", _list(sheet.numbers_read))])
    yield from sentence(f"{sheet.matching} of {len(sheet.numbers_written)} came back the number that went in", columns)
    if sheet.numbers_read_from not in (None, sheet.spans[-1].offset):
        yield from sentence(_MISTAKE, columns)
    for notice in sheet.notices:
        yield from wrap(defused(notice), columns)
    if sheet.ending is not None:
        yield from ending_lines(sheet.ending, columns, style)
    yield ""
    yield from (style(line, "sound" if sheet.same else "warning") for line in wrap(_outcome(sheet), columns))


def _both(check: Check) -> str:
    found = exact(check.found) if isinstance(check.found, int | None) else str(check.found)
    return found if check.same else f"{found}, and {check.written:,} was written"


def _texts(sheet: SketchSheet, columns: int) -> Iterator[str]:
    """Texts that came back are one line; a text that did not is told twice."""
    for check in sheet.checks:
        if isinstance(check.written, str):
            found = UNKNOWN if check.found is None else defused(str(check.found))
            told = f"{check.what}: {found}" + ("" if check.same else f" (written: {check.written})")
            yield from sentence(told, columns)


def _total(sheet: SketchSheet) -> int | None:
    known = [piece for piece in sheet.sum if piece is not None]
    return sum(known) if len(known) == len(sheet.sum) else None


def _numbers_title(sheet: SketchSheet) -> str:
    place = f"from byte {exact(sheet.numbers_read_from)}"
    if sheet.ignore_alignment:
        return f"the numbers, read {place}, with the alignment ignored"
    return f"the numbers, read {place}, at the declared alignment"


def _list(numbers: Sequence[Scalar]) -> str:
    return f"[{' '.join(map(str, numbers))}]"


def _outcome(sheet: SketchSheet) -> str:
    if sheet.same:
        return "the reader found everything that was written, where it was written"
    fields = sum(not place.found for place in sheet.spans)
    wrong = [check.what for check in sheet.checks if not check.same]
    parts = [f"{counted(fields, 'field')} not where it was written"] if fields else []
    parts += [f"not found as written: {', '.join(wrong)}"] if wrong else []
    numbers = len(sheet.numbers_written) - sheet.matching
    parts += [f"{counted(numbers, 'number')} read that never went in"] if numbers else []
    return "; ".join(parts)
