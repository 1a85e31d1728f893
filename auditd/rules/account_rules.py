"""Findings from an account: bytes that belong to nothing, are missing or claimed twice, and sizes that are not known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from auditd.accounting.account import Account, Slip
from auditd.accounting.cover import RunKind
from auditd.accounting.regions import Run
from auditd.evidence.accounts import published_runs
from auditd.evidence.observation import Observation
from auditd.evidence.record import Verdict
from auditd.formats.bounds import EXACT_INTEGER
from auditd.formats.declarations import GgufHeader, GgufTensor, SafetensorsHeader
from auditd.formats.faults import Constraint
from auditd.formats.quoting import counted, shown
from auditd.rules.draft import FindingDraft


def of_account(observation: Observation) -> Iterator[FindingDraft]:
    """Every finding of the account of a look."""
    account = observation.account
    if account is None:
        return
    if account.nothing_fits:
        yield _nothing_fits(observation, account)
    else:
        yield from _of_regions(observation, account)
    yield from _of_padding(observation)
    yield from _of_range(observation, account)
    if isinstance(observation.header, GgufHeader):
        yield from _of_sizes(observation.header, account)


def _of_regions(observation: Observation, account: Account) -> Iterator[FindingDraft]:
    is_gguf = isinstance(observation.header, GgufHeader)
    for rule in _REGION_RULES if is_gguf else _RANGE_RULES:
        count = sum(account.run_counts.get(kind, 0) for kind in rule.kinds)
        gone = account.unsized_gone if rule.code == "tensor_bytes_missing" else None
        if not count and gone is None:
            continue
        first = next((run for run in account.runs if run.kind in rule.kinds), None)
        subject, offset = _place(observation, first, gone)
        expected, actual = rule.figures(account)
        yield FindingDraft(
            rule.code,
            rule.message(observation, account, first),
            subject=subject,
            offset=offset,
            constraint=rule.constraint,
            expected=expected,
            actual=actual,
            count=count or (gone.count if gone is not None else 1),
            refuses=not is_gguf,
        )


def _place(observation: Observation, run: Run | None, gone: Slip | None) -> tuple[str | None, int | None]:
    """The region of a run; where a record cannot name it, the tensor."""
    if run is not None:
        for index, published in enumerate(published_runs(observation)):
            if (published.kind, published.begin, published.end) == (run.kind, run.begin, run.end):
                return f"accounting.regions[{index}]", run.begin
    slip = gone or (observation.account.out_of_range if observation.account is not None else None)
    return (None if slip is None else f"tensors[{slip.first}].offset"), None


def _unowned_message(observation: Observation, account: Account, run: Run | None) -> str:
    if run is None:
        return "bytes that belong to nothing"
    where = f"after {tensor_name(observation, run.after)}" if run.after is not None else "at the data start"
    total = account.figures.surplus or run.end - run.begin
    first = "" if total == run.end - run.begin else f", the first {run.end - run.begin:,}"
    return (
        f"{counted(total, 'byte')} {_belong(total)} to nothing{first} at byte {run.begin:,} {where} ({_KIND_WORDS[run.kind]})"
        f"{_appended(observation)}"
    )


def _appended(observation: Observation) -> str:
    return f"; {observation.appended.words}" if observation.appended is not None else ""


def _missing_message(observation: Observation, account: Account, run: Run | None) -> str:
    figures = account.figures
    lost = f"{_are(figures.missing, 'byte')} missing" if figures.missing else "tensors begin past the end of the file"
    return f"{lost}{_touched(figures.tensors_cut, figures.tensors_gone)}{_first_cut(observation, run)}"


def _touched(cut: int | None, gone: int | None) -> str:
    """How many tensors are cut and how many are not there at all, without what is none."""
    parts = [(cut, "cut"), (gone, "gone altogether")]
    told = [f"{_are(count, 'tensor')} {how}" for count, how in parts if count]
    return f": {' and '.join(told)}" if told else ""


def _are(count: int, noun: str) -> str:
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"


def _belong(count: int) -> str:
    return "belongs" if count == 1 else "belong"


def _first_cut(observation: Observation, run: Run | None) -> str:
    if run is None or run.after is None:
        return ""
    return f"; {tensor_name(observation, run.after)} is the first"


def _overlap_message(_look: Observation, account: Account, run: Run | None) -> str:
    where = "" if run is None else f", the first {run.end - run.begin:,} at byte {run.begin:,}"
    overlap = account.figures.overlap
    claimed = "bytes are" if overlap is None else _are(overlap, "byte")
    return f"{claimed} claimed more than once{where}"


_KIND_WORDS: Final[Mapping[RunKind, str]] = {
    "gap": "a gap between tensors",
    "trailing": "behind the last tensor",
    "padding_partial": "padding that stops half way",
    "missing": "past the end of the file",
    "overlap": "claimed twice",
    "padding": "padding",
}


def _unowned_figures(account: Account) -> tuple[int | None, int | None]:
    return 0, account.figures.surplus


def _missing_figures(account: Account) -> tuple[int | None, int | None]:
    last = max((run.end for run in account.runs if run.kind == "missing"), default=None)
    return last, account.file_size


def _overlap_figures(account: Account) -> tuple[int | None, int | None]:
    return 0, account.figures.overlap


@dataclass(frozen=True, slots=True)
class _RegionRule:
    code: str
    constraint: Constraint | None
    kinds: frozenset[RunKind]
    message: Callable[[Observation, Account, Run | None], str]
    figures: Callable[[Account], tuple[int | None, int | None]]


_MISSING: Final[frozenset[RunKind]] = frozenset({"missing"})
_OVERLAP: Final[frozenset[RunKind]] = frozenset({"overlap"})
_UNOWNED: Final[frozenset[RunKind]] = frozenset({"gap", "trailing", "padding_partial"})

_REGION_RULES: Final = (
    _RegionRule("tensor_bytes_missing", None, _MISSING, _missing_message, _missing_figures),
    _RegionRule("tensor_overlap", None, _OVERLAP, _overlap_message, _overlap_figures),
    _RegionRule("unowned_bytes", None, _UNOWNED, _unowned_message, _unowned_figures),
)

#: In safetensors the ranges are declared, so a range that does not fit breaks a rule of the format.
_RANGE_RULES: Final = (
    _RegionRule("tensor_bytes_missing", Constraint.RANGE_PAST_END, _MISSING, _missing_message, _missing_figures),
    _RegionRule("tensor_overlap", Constraint.RANGE_OVERLAP, _OVERLAP, _overlap_message, _overlap_figures),
    _RegionRule("unowned_bytes", Constraint.RANGE_GAP, frozenset({"gap"}), _unowned_message, _unowned_figures),
    _RegionRule(
        "unowned_bytes", Constraint.RANGE_TRAILING, frozenset({"trailing"}), _unowned_message, _unowned_figures
    ),
)


def _nothing_fits(observation: Observation, account: Account) -> FindingDraft:
    figures = account.figures
    verdict: Verdict = "malformed" if figures.overlap else "truncated" if figures.missing else "residue"
    first = account.runs[0] if account.runs else None
    subject, offset = _place(observation, first, None)
    applicable = sum(tried.applicable for tried in account.candidates)
    message = (
        f"the residue is {figures.residue:+,} under the layout {account.layout}, it is 0 under none of the "
        f"{applicable} candidates that apply, and the offsets do not follow {account.layout} either: bytes that belong "
        f"to nothing {figures.surplus:,}, missing {figures.missing:,}, claimed more than once {figures.overlap:,}"
    )
    return FindingDraft(
        "residue_under_every_layout",
        message,
        subject=subject,
        offset=offset,
        expected=0,
        actual=figures.residue,
        count=account.run_count,
        verdict_override=verdict,
    )


def _of_padding(observation: Observation) -> Iterator[FindingDraft]:
    if observation.scanned is None or not observation.scanned.nonzero_padding:
        return
    begin, end = observation.scanned.nonzero_padding[0]
    subject, offset = _place(observation, Run("padding", begin, end), None)
    message = f"the padding of {counted(end - begin, 'byte')} at byte {begin:,} is not all zero"
    yield FindingDraft(
        "padding_nonzero", message, subject=subject, offset=offset, count=observation.scanned.nonzero_count
    )


def _of_range(observation: Observation, account: Account) -> Iterator[FindingDraft]:
    slip = account.out_of_range
    if slip is None:
        return
    message = f"{tensor_name(observation, slip.first)} reaches past byte {EXACT_INTEGER:,}, which no file has"
    yield FindingDraft(
        "extent_out_of_range",
        message,
        subject=f"tensors[{slip.first}].{'offset' if isinstance(observation.header, GgufHeader) else 'data_offsets'}",
        offset=_offset_field(observation, slip.first),
        expected=EXACT_INTEGER,
        actual=slip.position,
        count=slip.count,
        refuses=isinstance(observation.header, SafetensorsHeader),
    )


def _of_sizes(header: GgufHeader, account: Account) -> Iterator[FindingDraft]:
    if account.basis == "derived":
        message = (
            f"the sizes come out under the layout {account.layout}, not under today's: "
            "tensor types have changed their sizes or numbers since this file was written"
        )
        yield FindingDraft("layout_derived", message, expected="ggml-current", actual=account.layout)
    if account.partial_blocks is not None:
        yield _partial_blocks(header, account.partial_blocks)
    if account.unsized is not None:
        tensor = _row(header, account.unsized.first)
        type_text = "" if tensor is None else f" (type {tensor.type_id})"
        name = _name_or_number(tensor, account.unsized.first)
        have = f"{counted(account.unsized.count, 'tensor')} {'has' if account.unsized.count == 1 else 'have'}"
        message = f"{have} no established size, the first is {name}{type_text}"
        yield FindingDraft(
            "size_unestablished",
            message,
            subject=f"tensors[{account.unsized.first}].type",
            offset=None if tensor is None else tensor.end - 12,
            actual=None if tensor is None else tensor.type_id,
            count=account.unsized.count,
        )
    if account.empty_offsets is not None:
        tensor = _row(header, account.empty_offsets.first)
        name = _name_or_number(tensor, account.empty_offsets.first)
        message = f"{name} is empty and its offset is not the padded sum of the sizes before it"
        yield FindingDraft(
            "empty_tensor_offset",
            message,
            subject=f"tensors[{account.empty_offsets.first}].offset",
            offset=None if tensor is None else tensor.end - 8,
            actual=None if tensor is None else tensor.offset,
            count=account.empty_offsets.count,
        )


def _partial_blocks(header: GgufHeader, slip: Slip) -> FindingDraft:
    tensor = _row(header, slip.first)
    name = _name_or_number(tensor, slip.first)
    row = None if tensor is None else (tensor.shape[0] if tensor.shape else 1)
    message = (
        f"{name} has rows of {row:,} elements, which are no whole blocks of its type today, and no older layout fits"
    )
    return FindingDraft(
        "header_malformed",
        message,
        subject=f"tensors[{slip.first}].dims",
        offset=None if tensor is None else tensor.end - 12 - 8 * len(tensor.shape),
        constraint=Constraint.ROW_BLOCKS,
        actual=row,
        count=slip.count,
        refuses=True,
    )


def _row(header: GgufHeader, index: int) -> GgufTensor | None:
    return header.tensors[index] if index < len(header.tensors) else None


def _name_or_number(tensor: GgufTensor | None, index: int) -> str:
    return f"tensor {index + 1}" if tensor is None else shown(tensor.name)


def tensor_name(observation: Observation, index: int | None) -> str:
    """A tensor's name for a message, its number where its row is not kept."""
    header = observation.header
    if header is None or index is None:
        return "no tensor"
    if index >= len(header.tensors):
        return f"tensor {index + 1}"
    return shown(header.tensors[index].name)


def _offset_field(observation: Observation, index: int) -> int | None:
    header = observation.header
    if header is None or index >= len(header.tensors):
        return None
    return header.tensors[index].end - 8 if isinstance(header, GgufHeader) else header.tensors[index].at
