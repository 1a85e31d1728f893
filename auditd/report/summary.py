"""One file for a person: the verdict and what it means, the account of its bytes, the findings, the limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from auditd.evidence.record import (
    Accounting,
    Cover,
    Evidence,
    Gguf,
    GgufTensorRow,
    LayoutBasis,
    Region,
    Safetensors,
    SafetensorsTensorRow,
    TypeTotal,
)
from auditd.evidence.text import printable, quoted
from auditd.report.columns import defused, left, right, width, wrap
from auditd.report.declarations import shown_value
from auditd.report.figures import counted, exact, rounded, signed
from auditd.report.file_entries import Entry, file_entries
from auditd.report.finding_lines import finding_lines
from auditd.report.style import Style, plain
from auditd.rules.findings import VERDICT_MEANINGS, at_least

_LABEL_COLUMNS: Final = 12
#: Enough to see what kind of damage it is; the record has them all.
_REGIONS_SHOWN: Final = 8
_LAYOUTS_NAMED: Final = 3
_VALUE_CHARACTERS: Final = 200
_NAME_CHARACTERS: Final = 80

#: Why a layout's sizes are the ones that the figures are made of.
BASES: Final[dict[LayoutBasis, str]] = {
    "operator": "as asked for",
    "established": "every released layout gives these sizes",
    "default": "today's sizes",
    "derived": "the one that the bytes come out under",
    "strict": "none is believed, as asked for",
}

_STATUSES: Final = {"partial": "in part", "none": "not at all", "not_requested": "not requested"}


def summary(evidence: Evidence, columns: int | None = None, style: Style = plain) -> list[str]:
    """The record as lines of at most ``columns`` cells (80 if None)."""
    columns = columns or 80
    lines = _verdict(evidence, columns, style)
    lines += ["", *_set(file_entries(evidence), columns, style)]
    for finding in evidence.findings:
        lines += ["", *finding_lines(finding, columns, style)]
    for section in (_contents(evidence), _account(evidence), _doubt(evidence)):
        entries = list(section)
        lines += [""] * bool(entries)
        lines += _set(entries, columns, style)
    return lines


def short_head(evidence: Evidence, columns: int | None = None, style: Style = plain) -> list[str]:
    """The verdict and the codes of what speaks against the file, for a page that shows something else of it."""
    columns = columns or 80
    notable = (finding for finding in evidence.findings if at_least(finding.severity, "notice"))
    codes = (style(f"{finding.severity}: {finding.code}", finding.severity) for finding in notable)
    return [*_verdict(evidence, columns, style), *codes]


def _verdict(evidence: Evidence, columns: int, style: Style) -> list[str]:
    verdict = evidence.verdict
    return [style(line, verdict) for line in wrap(f"{verdict}: {VERDICT_MEANINGS[verdict]}", columns)]


def _set(entries: Iterable[Entry], columns: int, style: Style) -> Iterator[str]:
    """Entries as a column of labels and a column of wrapped text."""
    last = ""
    for label, text, about in entries:
        for line in wrap(text, columns - _LABEL_COLUMNS) if not text.startswith(" ") else [text]:
            shown = left("" if label == last else label, _LABEL_COLUMNS)
            last = label
            yield style(shown, "label") + style(line, about) if line else shown.rstrip()


def _contents(evidence: Evidence) -> Iterator[Entry]:
    if evidence.gguf:
        yield from _gguf(evidence.gguf)
    if evidence.safetensors:
        yield from _safetensors(evidence.safetensors)
    if evidence.read.header_sha256:
        yield "header", f"{counted(evidence.read.header_length, 'byte')}, sha256", ""
        yield "header", evidence.read.header_sha256, ""


def _gguf(gguf: Gguf) -> Iterator[Entry]:
    order = f", {gguf.byte_order}-endian" if gguf.byte_order else ""
    yield "format", f"GGUF {exact(gguf.version)}{order}, alignment {exact(gguf.alignment)}", ""
    entries = counted(gguf.metadata_count, "metadata entry", "metadata entries")
    yield "declares", f"{counted(gguf.tensor_count, 'tensor')}, {entries}", ""
    yield from _headline(gguf.headline)


def _safetensors(safetensors: Safetensors) -> Iterator[Entry]:
    yield "format", "safetensors", ""
    yield "declares", counted(safetensors.tensor_count, "tensor"), ""
    yield from _headline(safetensors.headline)


def _headline(headline: dict[str, bool | int | float | str]) -> Iterator[Entry]:
    for key, value in headline.items():
        yield "says", f"{printable(key, _VALUE_CHARACTERS)}: {shown_value(value, _VALUE_CHARACTERS)}", ""


def _account(evidence: Evidence) -> Iterator[Entry]:
    accounting = evidence.accounting
    if accounting is not None:
        yield from _sum(accounting)
        yield from _types(accounting.by_type)
        yield from _layout(accounting)
        yield from _regions(accounting, _tensors(evidence))


def _sum(accounting: Accounting) -> Iterator[Entry]:
    """The sum, one figure under the other, so that a person can add it up."""
    known = [accounting.data_offset, accounting.tensor_bytes, accounting.alignment_padding]
    owned = None if None in known else sum(figure or 0 for figure in known)
    header = accounting.data_offset
    if header is not None and accounting.header_padding is not None:
        header -= accounting.header_padding
    figures = [
        ("header", exact(header)),
        ("padding before the data", exact(accounting.header_padding)),
        ("tensors", exact(accounting.tensor_bytes)),
        ("padding between tensors", exact(accounting.alignment_padding)),
        ("owned", exact(owned)),
        ("file size", exact(accounting.file_size)),
        ("residue", signed(accounting.residue)),
    ]
    columns = max(width(figure) for _, figure in figures)
    for name, figure in figures:
        about = "" if name != "residue" or accounting.residue is None else _tone(accounting.residue)
        yield "bytes", f"{left(name, 24)} {right(figure, columns)}", about
    if accounting.residue is not None:
        parts = (accounting.surplus, accounting.missing, accounting.overlap)
        yield "", "= surplus {} - missing {} - overlap {}".format(*map(exact, parts)), ""


def _tone(residue: int) -> str:
    return "residue" if residue else "sound"


def _types(by_type: list[TypeTotal]) -> Iterator[Entry]:
    if by_type:
        shown = (f"{printable(total.type, 40)} {total.tensors:,} ({rounded(total.bytes)})" for total in by_type)
        yield "types", ", ".join(shown), ""


def _layout(accounting: Accounting) -> Iterator[Entry]:
    layout = accounting.layout
    if layout is None:
        return
    yield "layout", f"{layout.name or 'none'}: {BASES[layout.basis]}", ""
    others = [name for name in accounting.consistent_with if name != layout.name]
    if layout.basis == "established" or not others:
        return
    named = ", ".join(others) if len(others) <= _LAYOUTS_NAMED else f"{len(others)} older or other layouts"
    yield "", f"the sum comes out under {named}, too", ""


_Rows: TypeAlias = Sequence[GgufTensorRow | SafetensorsTensorRow]


def _tensors(evidence: Evidence) -> _Rows:
    """The rows of the tensors that the record keeps, in the order of their indices from 0 on."""
    part = evidence.gguf or evidence.safetensors
    return () if part is None else part.tensors or ()


def _regions(accounting: Accounting, tensors: _Rows) -> Iterator[Entry]:
    regions = accounting.regions or []
    for region in regions[:_REGIONS_SHOWN]:
        yield "regions", _region(region, tensors), ""
    hidden = (accounting.region_count or len(regions)) - _REGIONS_SHOWN
    if hidden > 0:
        yield "regions", f"and {exact(hidden)} more", ""


def _region(region: Region, tensors: _Rows) -> str:
    neighbours = ""
    if region.after is not None:
        neighbours += f", after tensor {_tensor(region.after, tensors)}"
    if region.before is not None:
        neighbours += f", before tensor {_tensor(region.before, tensors)}"
    content = "" if region.kind in {"missing", "overlap"} else f", {region.content}"
    kind = region.kind.replace("_", " ")
    return f"{kind}: {counted(region.length, 'byte')} at {exact(region.begin)}{neighbours}{content}"


def _tensor(index: int, tensors: _Rows) -> str:
    """Its index, and its name where the record has it."""
    known = index < len(tensors) and tensors[index].index == index
    return f"{exact(index)} ({quoted(tensors[index].name, _NAME_CHARACTERS)})" if known else exact(index)


def _doubt(evidence: Evidence) -> Iterator[Entry]:
    """What was and was not looked at, and what this record cannot say."""
    settled = _is_settled(evidence)
    alike: dict[Cover, list[str]] = {}
    for name in evidence.coverage.__struct_fields__:
        if settled and name in _ABOUT_SIZES:
            continue
        alike.setdefault(getattr(evidence.coverage, name), []).append(name.replace("_", " "))
    # False sorts first: what was looked at stands before what was not.
    for cover, names in sorted(alike.items(), key=lambda item: item[0].status != "complete"):
        reason = f" ({_reason(evidence, defused(cover.reason))})" if cover.reason else ""
        label, status = ("looked at", "") if cover.status == "complete" else ("but", f": {_STATUSES[cover.status]}")
        yield label, f"{', '.join(names)}{status}{reason}", ""
    old = sum(limitation.count for limitation in evidence.limitations if limitation.code in _OLD_SIZES)
    if settled and old:
        yield "sizes", f"{counted(old, 'tensor')} would have another size in some builds of before 2024-06", ""
    for limitation in evidence.limitations:
        if settled and limitation.code in _OLD_SIZES:
            continue
        more = f" ({counted(limitation.count, 'subject')})" if limitation.count > 1 else ""
        yield "cannot say", f"{defused(limitation.message)}{more}", ""


def _reason(evidence: Evidence, reason: str) -> str:
    """Why something was not looked at; a sentence that stands above already is referred to."""
    messages = [finding.message for finding in evidence.findings]
    messages += [evidence.error.message] if evidence.error else []
    told = next((message for message in map(defused, messages) if message and reason.endswith(message)), None)
    return reason if told is None else f"{reason.removesuffix(told)}see above"


_ABOUT_SIZES: Final = frozenset({"storage_sizes", "ranges"})
_OLD_SIZES: Final = frozenset({"ambiguous_size", "ambiguous_type"})


def _is_settled(evidence: Evidence) -> bool:
    """Whether the only doubt about sizes is that very old builds wrote others, while all comes out with today's.

    True of most models there are; the record says it of each type, a person needs it once.
    """
    accounting = evidence.accounting
    if accounting is None or accounting.residue != 0 or evidence.verdict not in {"sound", "notice"}:
        return False
    return accounting.layout is not None and accounting.layout.basis == "default"
