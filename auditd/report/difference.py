"""Two models compared, for a person: the conclusion first, then what it is made of."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

from auditd.comparison.difference import ByteDifference, Difference, FindingNote, Side, TensorDifference, TensorGroup
from auditd.evidence.text import printable
from auditd.report.columns import defused, width, wrap
from auditd.report.difference_metadata import Fact, metadata_facts, metadata_head
from auditd.report.figures import UNKNOWN, counted, exact, rounded, signed
from auditd.report.show.layout import Align, facts, grid, section, sentence, within_columns
from auditd.report.style import Style, plain

_COLUMNS: Final = 80
#: Of a line of 80 cells so many are left for a value beside its key; wider lines leave more.
_VALUE_CELLS: Final = 48
_KEY_CHARACTERS: Final = 80
_RANGES_SHOWN: Final = 8
#: What 80 cells leave for the word for some bytes, two of them a line.
_CLASS_CHARACTERS: Final = 18
_SOURCES: Final = {"file": "", "dump": "a dumped header: ", "record": "a record: "}
_TRAITS: Final = {
    "added": "added",
    "removed": "removed",
    "reshaped": "another shape",
    "requantized": "another type",
    "rewritten": "other bytes",
    "moved": "moved",
}
#: Names of fields in words.
_FIELDS: Final = {"byte_order": "byte order", "header_length": "header length", "data_offset": "data start"}


def lines(difference: Difference, columns: int | None = None, style: Style = plain) -> Iterator[str]:
    """The comparison as lines of at most ``columns`` cells (80 if None)."""
    return _lines(difference, columns or _COLUMNS, style)


@within_columns
def _lines(difference: Difference, columns: int, style: Style) -> Iterator[str]:
    room = _VALUE_CELLS + max(0, columns - _COLUMNS)
    told = wrap(defused(difference.conclusion.message), columns)
    yield from (style(line, _tone(difference)) for line in told)
    yield ""
    yield from facts(list(_files(difference)), columns)
    yield from _part(
        "metadata", metadata_head(difference.metadata), metadata_facts(difference.metadata, room), columns, style
    )
    yield from _part("tensors", _tensors_head(difference.tensors), _tensors(difference), columns, style)
    yield from _types(difference.tensors, columns, style)
    yield from _bytes(difference, columns, style)
    yield from _part("findings", "", _findings(difference), columns, style)


def _tone(difference: Difference) -> str:
    return {True: "sound", False: "warning", None: "undetermined"}[difference.same]


def _part(name: str, head: str, rows: Iterator[Fact], columns: int, style: Style) -> Iterator[str]:
    """A section, if there is anything to say."""
    told = list(rows)
    if head or told:
        yield ""
        yield from (style(line, "heading") for line in wrap(name + (f": {head}" if head else ""), columns))
        yield from facts(told, columns)


# -- the files --------------------------------------------------------------------------------------


def _files(difference: Difference) -> Iterator[Fact]:
    for name, side in (("A", difference.a), ("B", difference.b)):
        yield name, _SOURCES[side.source] + _path(side)
        yield name, _side(side)
    file = difference.file
    if file.size_change:
        yield "size", f"{signed(file.size_change)} bytes in B"
    yield "header", _digest(file.header_sha256, "the same digest", "differs")
    yield "sha256", _digest(file.sha256, "the same digest", "differs")
    if file.tensor_data != "unknown":
        yield "weights", _digest(file.tensor_data, "the same digest", "differs")
    for change in file.fields:
        yield _FIELDS.get(change.name, change.name), f"{_field(change.a)} -> {_field(change.b)}"


def _path(side: Side) -> str:
    """The path for the eye, from its exact bytes where it is not text."""
    return printable(base64.b64decode(side.path_base64) if side.path_base64 else side.path)


def _side(side: Side) -> str:
    size = f"{rounded(side.size)} ({exact(side.size)} bytes)"
    parts = [size, side.format or "no model", side.verdict, f"residue {signed(side.residue)}"]
    return ", ".join(parts) + (f", {printable(side.evidence_id)}" if side.evidence_id else "")


def _digest(compared: str, same: str, differs: str) -> str:
    return {"same": same, "differs": differs}.get(compared, "not compared: not known of both")


def _field(value: int | str | None) -> str:
    if value is None:
        return UNKNOWN
    return exact(value) if isinstance(value, int) else printable(value, _KEY_CHARACTERS)


# -- tensors ----------------------------------------------------------------------------------------


def _tensors_head(tensors: TensorDifference) -> str:
    counts = (
        ("added", tensors.added),
        ("removed", tensors.removed),
        ("of another shape", tensors.reshaped),
        ("of another type", tensors.requantized),
        ("with other bytes", tensors.rewritten),
        ("moved", tensors.moved),
        ("unchanged", tensors.unchanged),
        ("not compared", tensors.not_compared),
    )
    told = [f"{count:,} {word}" for word, count in counts if count]
    return ", ".join([f"{exact(tensors.a_count)} in A, {exact(tensors.b_count)} in B", *told])


def _tensors(difference: Difference) -> Iterator[Fact]:
    tensors = difference.tensors
    if tensors.reason:
        yield "in part", defused(tensors.reason)
    if tensors.order_changed:
        yield "order", "the tensors that both have stand in another order"
    for group in tensors.groups:
        yield _TRAITS[group.trait], _group(group)
    if tensors.group_count > len(tensors.groups):
        yield "and", f"{exact(tensors.group_count - len(tensors.groups))} more groups"
    if tensors.moved:
        yield "moved", _moved(tensors)


def _group(group: TensorGroup) -> str:
    told = dict.fromkeys(text for text in (group.a, group.b) if text is not None)
    change = " -> ".join(printable(text, _KEY_CHARACTERS) for text in told)
    where = f" in {_blocks(group)}" if group.blocks else ""
    parts = [f"{printable(group.pattern, _KEY_CHARACTERS)}: {change}{where}"]
    if group.count > max(1, _number(group)):
        parts.append(counted(group.count, "tensor"))
    sizes = [exact(size) for text, size in ((group.a, group.a_bytes), (group.b, group.b_bytes)) if text is not None]
    size = sizes[0] if len(set(sizes)) == 1 else " -> ".join(sizes)
    return ", ".join([*parts, f"{size} bytes"])


def _number(group: TensorGroup) -> int:
    """How many blocks it is about."""
    return sum(last - first + 1 for first, last in group.blocks)


def _blocks(group: TensorGroup) -> str:
    told = [str(first) if first == last else f"{first}-{last}" for first, last in group.blocks[:_RANGES_SHOWN]]
    more = ", …" if len(group.blocks) > _RANGES_SHOWN else ""
    return f"{counted(_number(group), 'block')}: {', '.join(told)}{more}"


def _moved(tensors: TensorDifference) -> str:
    moved = counted(tensors.moved, "tensor")
    if tensors.shift is not None:
        return f"{moved} by {signed(tensors.shift)} bytes from the data start"
    return f"{moved}; the first is {_first_moved(tensors)}"


def _first_moved(tensors: TensorDifference) -> str:
    for change in tensors.first:
        if "moved" in change.traits and change.a and change.b:
            name = printable(change.name, _KEY_CHARACTERS)
            return f"{name}, {exact(change.a.offset)} -> {exact(change.b.offset)} from the data start"
    return UNKNOWN


def _types(tensors: TensorDifference, columns: int, style: Style) -> Iterator[str]:
    """Tensors and bytes by type, where they are not the same."""
    if all((t.a_tensors, t.a_bytes) == (t.b_tensors, t.b_bytes) for t in tensors.by_type):
        return
    yield ""
    titles: tuple[str, ...] = ("type", "tensors A", "tensors B", "bytes A", "bytes B", "change")
    aligns: tuple[Align, ...] = ("left", *("right",) * 5)
    rows: list[tuple[str, ...]] = [
        (
            printable(total.type, 24),
            exact(total.a_tensors),
            exact(total.b_tensors),
            exact(total.a_bytes),
            exact(total.b_bytes),
            signed(None if total.a_bytes is None or total.b_bytes is None else total.b_bytes - total.a_bytes),
        )
        for total in tensors.by_type
    ]
    told = list(grid(titles, rows, aligns, plain))
    if max(map(width, told)) > columns:  # the change can be done without
        titles, rows, aligns = titles[:-1], [row[:-1] for row in rows], aligns[:-1]
    yield from grid(titles, rows, aligns, style)


# -- bytes and findings -----------------------------------------------------------------------------


def _bytes(difference: Difference, columns: int, style: Style) -> Iterator[str]:
    classes = difference.bytes
    if classes is None:
        yield from section("bytes", style)
        yield from facts([("not told", defused(difference.bytes_reason or UNKNOWN))], columns)
        return
    rows = list(_classes(classes, columns))
    yield from section("bytes, by what they are for", style)
    same = f"{exact(classes.same_class)} have the same use in both (their content was not compared)"
    yield from sentence(same, columns)
    if rows:
        aligns: tuple[Align, ...] = ("right", "right", "right", "left", "left")
        yield from grid(("bytes", "runs", "first at", "in A", "in B"), rows, aligns, style)


def _classes(classes: ByteDifference, columns: int) -> Iterator[tuple[str, str, str, str, str]]:

    def word(text: str) -> str:
        return printable(text, _CLASS_CHARACTERS + max(0, columns - _COLUMNS) // 2)

    for change in classes.changed:
        yield (*_run(change.bytes, change.runs, change.first_offset), word(change.a), word(change.b))
    for total in classes.only_a:
        yield (*_run(total.bytes, total.runs, total.first_offset), word(total.kind), "past the end")
    for total in classes.only_b:
        yield (*_run(total.bytes, total.runs, total.first_offset), "past the end", word(total.kind))


def _run(size: int, runs: int, first: int) -> tuple[str, str, str]:
    return exact(size), exact(runs), exact(first)


def _findings(difference: Difference) -> Iterator[Fact]:
    for name, notes in (("only A", difference.findings_only_a), ("only B", difference.findings_only_b)):
        yield from ((name, _finding(note)) for note in notes)


def _finding(note: FindingNote) -> str:
    rule = f" ({printable(note.constraint, _KEY_CHARACTERS)})" if note.constraint else ""
    return f"{note.severity}: {printable(note.code, _KEY_CHARACTERS)}{rule}: {defused(note.message)}"
