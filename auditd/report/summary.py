"""One file for a person: the verdict and what it means, the account of its bytes, the findings, the limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from auditd.evidence.findings import VERDICT_MEANINGS
from auditd.evidence.record import (
    Accounting,
    Cover,
    Evidence,
    Finding,
    Gguf,
    LayoutBasis,
    Region,
    Safetensors,
    TypeTotal,
)
from auditd.evidence.text import printable
from auditd.report.columns import defused, left, right, width, wrap
from auditd.report.declarations import shown_value
from auditd.report.figures import UNKNOWN, counted, exact, rounded, signed
from auditd.report.paint import Paint, plain
from auditd.report.table import shown_path

_LABEL_COLUMNS: Final = 12
#: Enough to see what kind of damage it is; the record has them all.
_REGIONS_SHOWN: Final = 8
_LAYOUTS_NAMED: Final = 3
_SUBJECTS_SHOWN: Final = 3
_VALUE_CHARACTERS: Final = 200

#: Why a layout's sizes are the ones that the figures are made of.
BASES: Final[dict[LayoutBasis, str]] = {
    "operator": "as asked for",
    "established": "every released layout gives these sizes",
    "default": "today's sizes",
    "derived": "the one that the bytes come out under",
    "strict": "none is believed, as asked for",
}

_STATUSES: Final = {"partial": "in part", "none": "not at all", "not_requested": "not requested"}

#: A label, a text, and what the text is about (see ``paint``). Texts with one label stand below each other.
_Entry = tuple[str, str, str]


def summary(evidence: Evidence, columns: int | None = None, paint: Paint = plain) -> list[str]:
    """The record as lines of at most ``columns`` cells (80 if None)."""
    columns = columns or 80
    verdict = evidence.verdict
    head = wrap(f"{verdict}: {VERDICT_MEANINGS[verdict]}", columns)
    lines = [paint(line, verdict) for line in head]
    lines += ["", *_set(_file(evidence), columns, paint)]
    for finding in evidence.findings:
        lines += ["", *_finding(finding, columns, paint)]
    for section in (_contents(evidence), _account(evidence.accounting), _doubt(evidence)):
        entries = list(section)
        lines += [""] * bool(entries)
        lines += _set(entries, columns, paint)
    return lines


def _set(entries: Iterable[_Entry], columns: int, paint: Paint) -> Iterator[str]:
    """Entries as a column of labels and a column of wrapped text."""
    last = ""
    for label, text, about in entries:
        for line in wrap(text, columns - _LABEL_COLUMNS) if not text.startswith(" ") else [text]:
            shown = left("" if label == last else label, _LABEL_COLUMNS)
            last = label
            yield paint(shown, "label") + paint(line, about) if line else shown.rstrip()


def _file(evidence: Evidence) -> Iterator[_Entry]:
    artifact = evidence.artifact
    yield "file", shown_path(artifact), ""
    if artifact.size is not None:
        yield "size", f"{rounded(artifact.size)} ({exact(artifact.size)} bytes)", ""
    if artifact.sha256:
        yield "sha256", artifact.sha256, ""
    for expected in artifact.expected:
        yield (
            "published",
            f"{printable(expected.algorithm)} {printable(expected.value)} ({printable(expected.source)})",
            "",
        )
    if evidence.error:
        yield evidence.outcome, defused(evidence.error.message), "warning"


def _contents(evidence: Evidence) -> Iterator[_Entry]:
    if evidence.gguf:
        yield from _gguf(evidence.gguf)
    if evidence.safetensors:
        yield from _safetensors(evidence.safetensors)
    if evidence.read.header_sha256:
        yield "header", evidence.read.header_sha256, ""


def _gguf(gguf: Gguf) -> Iterator[_Entry]:
    order = f", {gguf.byte_order}-endian" if gguf.byte_order else ""
    yield "format", f"GGUF {exact(gguf.version)}{order}, alignment {exact(gguf.alignment)}", ""
    entries = counted(gguf.metadata_count, "metadata entry", "metadata entries")
    yield "declares", f"{counted(gguf.tensor_count, 'tensor')}, {entries}", ""
    yield from _headline(gguf.headline)


def _safetensors(safetensors: Safetensors) -> Iterator[_Entry]:
    yield "format", "safetensors", ""
    yield "declares", counted(safetensors.tensor_count, "tensor"), ""
    yield from _headline(safetensors.headline)


def _headline(headline: dict[str, bool | int | float | str]) -> Iterator[_Entry]:
    for key, value in headline.items():
        yield "says", f"{printable(key, _VALUE_CHARACTERS)}: {shown_value(value, _VALUE_CHARACTERS)}", ""


def _account(accounting: Accounting | None) -> Iterator[_Entry]:
    """The sum, one figure under the other, so that a person can add it up."""
    if accounting is None:
        return
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
    yield from _types(accounting.by_type)
    yield from _layout(accounting)
    yield from _regions(accounting)


def _tone(residue: int) -> str:
    return "residue" if residue else "sound"


def _types(by_type: list[TypeTotal]) -> Iterator[_Entry]:
    if by_type:
        shown = (f"{printable(total.type, 40)} {total.tensors:,} ({rounded(total.bytes)})" for total in by_type)
        yield "types", ", ".join(shown), ""


def _layout(accounting: Accounting) -> Iterator[_Entry]:
    layout = accounting.layout
    if layout is None:
        return
    yield "layout", f"{layout.name or 'none'}: {BASES[layout.basis]}", ""
    others = [name for name in accounting.consistent_with if name != layout.name]
    if layout.basis == "established" or not others:
        return
    named = ", ".join(others) if len(others) <= _LAYOUTS_NAMED else f"{len(others)} older or other layouts"
    yield "", f"the sum comes out under {named}, too", ""


def _regions(accounting: Accounting) -> Iterator[_Entry]:
    regions = accounting.regions or []
    for region in regions[:_REGIONS_SHOWN]:
        yield "regions", _region(region), ""
    hidden = (accounting.region_count or len(regions)) - _REGIONS_SHOWN
    if hidden > 0:
        yield "regions", f"and {exact(hidden)} more", ""


def _region(region: Region) -> str:
    neighbours = ""
    if region.after is not None:
        neighbours += f", after tensor {region.after}"
    if region.before is not None:
        neighbours += f", before tensor {region.before}"
    content = "" if region.kind in {"missing", "overlap"} else f", {region.content}"
    kind = region.kind.replace("_", " ")
    return f"{kind}: {counted(region.length, 'byte')} at {exact(region.begin)}{neighbours}{content}"


def _doubt(evidence: Evidence) -> Iterator[_Entry]:
    """What was and was not looked at, and what this record cannot say."""
    settled = _is_settled(evidence)
    alike: dict[Cover, list[str]] = {}
    for name in evidence.coverage.__struct_fields__:
        if settled and name in _ABOUT_SIZES:
            continue
        alike.setdefault(getattr(evidence.coverage, name), []).append(name.replace("_", " "))
    # False sorts first: what was looked at stands before what was not.
    for cover, names in sorted(alike.items(), key=lambda item: item[0].status != "complete"):
        reason = f" ({defused(cover.reason)})" if cover.reason else ""
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


def _finding(finding: Finding, columns: int, paint: Paint) -> Iterator[str]:
    rule = f" ({finding.constraint})" if finding.constraint else ""
    yield paint(f"{finding.severity}: {finding.code}{rule}", finding.severity)
    for text in filter(None, (defused(finding.message), _place(finding), _figures(finding), defused(finding.advice))):
        yield from ("  " + line for line in wrap(text, columns - 2))


def _place(finding: Finding) -> str:
    parts = [
        f"at {defused(finding.subject, _VALUE_CHARACTERS)}" if finding.subject and _is_a_field(finding.subject) else "",
        f"byte {exact(finding.offset)}" if finding.offset is not None else "",
        f"{finding.count:,} times in all" if finding.count > 1 else "",
    ]
    return ", ".join(filter(None, parts))


def _is_a_field(subject: str) -> bool:
    """Whether a person can find the subject in the file; a region is told by its byte."""
    return not subject.startswith("accounting.")


def _figures(finding: Finding) -> str:
    if finding.expected is None and finding.actual is None:
        return ""
    found = f"found {_figure(finding.actual)}"
    return found if finding.expected is None else f"allowed {_figure(finding.expected)}, {found}"


def _figure(figure: int | str | None) -> str:
    if figure is None:
        return UNKNOWN
    if isinstance(figure, int) or figure.isdecimal():
        return exact(int(figure))
    return defused(figure, _VALUE_CHARACTERS)
