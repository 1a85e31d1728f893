"""The head of a file for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from auditd.evidence.record import Figure, Finding, TypeTotal
from auditd.evidence.text import printable, quoted
from auditd.model.architecture import NOT_DECLARED
from auditd.report.columns import defused, wrap
from auditd.report.figures import UNKNOWN, counted, exact, rounded
from auditd.report.show.head_sheet import Fact, HeadSheet, Json, Model, Stops
from auditd.report.show.layout import facts, figures, grid, section, sentence, title, within_columns
from auditd.report.show.outcome import Ending, ending_lines
from auditd.report.style import Style

_VALUE_CHARACTERS: Final = 160
_NAMES_SHOWN: Final = 4
_METADATA_SHOWN: Final = 12
_FINDINGS_SHOWN: Final = 8
#: Smaller sizes are said once.
_ROUNDED_FROM: Final = 1024

_LABELS: Final[Mapping[str, str]] = {
    "blocks": "blocks in the stack",
    "embedding_width": "embedding width",
    "heads": "attention heads",
    "kv_heads": "key and value heads",
    "feed_forward_width": "feed-forward width",
    "trained_context": "trained context",
    "vocabulary": "vocabulary",
    "merges": "merges",
    "experts": "experts",
    "experts_used": "experts used",
}
#: What is counted, where the label does not say it.
_UNITS: Final[Mapping[str, str]] = {"trained_context": " tokens", "vocabulary": " tokens"}


@within_columns
def lines(sheet: HeadSheet, columns: int, style: Style) -> Iterator[str]:
    """The head for a terminal of so many columns."""
    yield title("head of", sheet.file, columns, style)
    yield from facts(list(_file(sheet)), columns)
    if sheet.numbers is not None:
        yield from section("the four numbers at the front", style)
        yield from facts(list(_numbers(sheet)), columns)
    if sheet.json is not None:
        yield from _json(sheet.json, columns, style)
    if sheet.model is not None:
        yield from section("what the metadata says the model is", style)
        yield from facts(list(_model(sheet.model)), columns)
        yield from _derived(sheet.model, columns, style)
    if sheet.stops is not None:
        yield from section("where the header stops", style)
        yield from _stops(sheet.stops, columns)
    yield from _findings(sheet.findings, sheet.ending, columns, style)
    yield from ending_lines(sheet.ending, columns, style)


def _file(sheet: HeadSheet) -> Iterator[tuple[str, str]]:
    size = sheet.file.size
    for name in sheet.names[:_NAMES_SHOWN]:
        yield "known as", printable(name, _VALUE_CHARACTERS)
    if len(sheet.names) > _NAMES_SHOWN:
        yield "known as", f"and {exact(len(sheet.names) - _NAMES_SHOWN)} more"
    for one in sheet.published[:_NAMES_SHOWN]:
        value = f"{printable(one.algorithm)} {printable(one.value, _VALUE_CHARACTERS)}"
        yield "published", f"{value} ({printable(one.source, _VALUE_CHARACTERS)})"
    small = size is None or size < _ROUNDED_FROM
    yield "size", counted(size, "byte") if small else f"{rounded(size)} ({exact(size)} bytes)"


def _numbers(sheet: HeadSheet) -> Iterator[tuple[str, str]]:
    numbers = sheet.numbers
    if numbers is None:
        return
    order = f", {numbers.byte_order}-endian" if numbers.byte_order else ""
    yield "magic", numbers.magic
    yield "version", f"{exact(numbers.version)}{order}"
    yield "tensors", _number(numbers.tensors)
    yield "metadata entries", _number(numbers.metadata_entries)


def _number(value: Figure) -> str:
    return UNKNOWN if value is None else exact(int(value))


# -- the model --------------------------------------------------------------------------------------


def _model(model: Model) -> Iterator[tuple[str, str]]:
    yield "architecture", UNKNOWN if model.architecture is None else printable(model.architecture, _VALUE_CHARACTERS)
    if model.name is not None:
        yield "name", printable(model.name, _VALUE_CHARACTERS)
    for fact in model.facts:
        if fact.figure in _LABELS and _is_told(fact, model):
            yield _LABELS[fact.figure], _value(fact) + (_UNITS.get(fact.figure, "") if fact.value is not None else "")
    if model.parameters not in (None, "0"):
        yield "parameters", _number(model.parameters)


def _is_told(fact: Fact, model: Model) -> bool:
    """What a file of this architecture need not declare is not missed; without an architecture nothing is."""
    if fact.reason is None:
        return True
    return model.architecture is not None and (fact.key is not None or fact.figure == "blocks")


def _value(fact: Fact) -> str:
    if fact.value is not None:
        return _number(fact.value)
    if fact.layers is None:
        return f"{UNKNOWN}: {defused(fact.reason or NOT_DECLARED)}"
    more = ", ..." if fact.layers.count > len(fact.layers.first) else ""
    return f"{', '.join(map(_number, fact.layers.first))}{more} ({exact(fact.layers.count)} values, one a layer)"


def _derived(model: Model, columns: int, style: Style) -> Iterator[str]:
    """What nobody has to declare, because it follows."""
    sentences = [text for text in (_head_width(model), _sharing(model), _kv_width(model)) if text]
    if sentences:
        yield from section("and what falls out of it", style)
        for text in sentences:
            yield from sentence(text, columns)


def _of(model: Model, figure: str) -> int | None:
    """The figure if it is one positive number."""
    value = next((fact.value for fact in model.facts if fact.figure == figure), None)
    return None if value is None or int(value) <= 0 else int(value)


def _head_width(model: Model) -> str:
    width, embedding, heads = (_of(model, name) for name in ("head_width", "embedding_width", "heads"))
    declared = any(fact.figure == "head_width" and fact.key is not None for fact in model.facts)
    if width is None:
        return ""
    if declared:
        return f"one head is {exact(width)} wide, as the file declares"
    return f"one head is {exact(width)} wide, because {exact(embedding)} divided by {exact(heads)} is {exact(width)}"


def _sharing(model: Model) -> str:
    heads, shared = _of(model, "heads"), _of(model, "kv_heads")
    if heads is None or shared is None or heads <= shared or heads % shared:
        return ""
    each = exact(heads // shared)
    return f"{each} heads share each key and value head, because {exact(heads)} divided by {exact(shared)} is {each}"


def _kv_width(model: Model) -> str:
    width, shared = _of(model, "head_width"), _of(model, "kv_heads")
    if width is None or shared is None or width != _of(model, "value_width"):
        return ""
    total = exact(width * shared)
    return f"all keys are {total} wide, and all values, because {exact(shared)} times {exact(width)} is {total}"


# -- where it stops ---------------------------------------------------------------------------------


def _stops(stops: Stops, columns: int) -> Iterator[str]:
    declared = {
        True: "which the file declares",
        False: "which the file does not declare and so is the format's own",
        None: "not known before the metadata was read to its end",
    }[stops.alignment_declared]
    rows = [
        ("metadata ends at", exact(stops.metadata_end)),
        ("last tensor entry ends at", exact(stops.directory_end)),
        ("padding", exact(stops.padding)),
        ("tensor data starts at", exact(stops.data_offset)),
    ]
    yield from sentence(f"alignment {exact(stops.alignment)}, {declared}", columns)
    yield from figures(rows)


def _json(json: Json, columns: int, style: Style) -> Iterator[str]:
    yield from section("the front", style)
    rows = [
        ("length of the JSON text", exact(json.length)),
        ("tensors", exact(json.tensors)),
        ("tensor data starts at", exact(json.data_offset)),
    ]
    yield from figures(rows)
    if json.metadata:
        yield from section("what the metadata says", style)
        shown = sorted(json.metadata.items())[:_METADATA_SHOWN]
        yield from facts([(_key(key), quoted(value, _VALUE_CHARACTERS)) for key, value in shown], columns)
        more = len(json.metadata) - len(shown)
        if more:
            yield from sentence(f"and {exact(more)} more", columns)
    if json.types:
        yield from section("the tensors, by dtype", style)
        yield from grid(("DTYPE", "TENSORS", "WEIGHTS", "BYTES"), list(map(_type, json.types)), _TYPE_ALIGNS, style)


_TYPE_ALIGNS: Final = ("left", "right", "right", "right")
#: A label leaves at least half of the narrowest line to the text.
_KEY_CHARACTERS: Final = 20
_DTYPE_CHARACTERS: Final = 24


def _key(key: str) -> str:
    return printable(key, _KEY_CHARACTERS)


def _type(total: TypeTotal) -> tuple[str, ...]:
    dtype = printable(total.type, _DTYPE_CHARACTERS)
    return dtype, exact(total.tensors), _number(total.elements), exact(total.bytes)


# -- findings ---------------------------------------------------------------------------------------


def _findings(found: list[Finding], end: Ending | None, columns: int, style: Style) -> Iterator[str]:
    """What inspect would say, shortly; the one that is the ending stands there."""
    told = [finding for finding in found if end is None or finding.message != end.message]
    if not told:
        return
    yield from section("what is to be said of it", style)
    for finding in told[:_FINDINGS_SHOWN]:
        yield from (
            "  " + style(line, finding.severity) for line in wrap(f"{finding.severity}: {finding.code}", columns - 2)
        )
        yield from ("    " + line for line in wrap(defused(finding.message), columns - 4))
    if len(told) > _FINDINGS_SHOWN:
        yield from sentence(f"and {exact(len(told) - _FINDINGS_SHOWN)} more, which inspect shows", columns)
