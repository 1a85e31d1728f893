"""An account as part of a record: figures that JSON can hold exactly, regions with what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from auditd.accounting.account import Account
from auditd.accounting.candidates import Candidate as Tried
from auditd.accounting.figures import Figures, candidate_figures
from auditd.accounting.regions import REGIONS, Run
from auditd.evidence.exactness import exact_int
from auditd.evidence.observation import Observation, Scanned
from auditd.evidence.record import (
    Accounting,
    Candidate,
    Contiguous,
    Region,
    RegionContent,
    SelectedLayout,
)
from auditd.evidence.totals import type_totals
from auditd.formats.declarations import SafetensorsHeader

if TYPE_CHECKING:
    from collections.abc import Sequence


def accounting_part(observation: Observation) -> Accounting | None:
    """The account of a look; of a header that was not completed, the file size and nothing else."""
    if observation.size is None or observation.header is None:
        return None
    if observation.account is None:
        return _without_account(observation.size, _known_data_offset(observation))
    account, figures = observation.account, observation.account.figures
    regions = regions_of(observation)
    count = region_count(observation)
    return Accounting(
        file_size=exact_int(observation.size),
        data_offset=exact_int(account.data_offset),
        header_padding=exact_int(account.header_padding),
        tensor_bytes=exact_int(figures.tensor_bytes),
        alignment_padding=exact_int(figures.alignment_padding),
        remainder=exact_int(figures.remainder),
        surplus=exact_int(figures.surplus),
        missing=exact_int(figures.missing),
        overlap=exact_int(figures.overlap),
        residue=exact_int(figures.residue),
        tensors_cut=figures.tensors_cut,
        tensors_gone=figures.tensors_gone,
        contiguous=_contiguous(figures),
        regions=regions,
        region_count=count,
        regions_complete=count == len(regions),
        layout=None if account.basis is None else SelectedLayout(name=account.layout, basis=account.basis),
        candidates=[_candidate(tried, account) for tried in account.candidates],
        consistent_with=list(consistent_with(account)),
        by_type=type_totals(account.by_type),
        parameters=None if account.parameters is None else str(account.parameters),
    )


def _known_data_offset(observation: Observation) -> int | None:
    """A refused safetensors header still says where its data starts."""
    return observation.header.data_offset if isinstance(observation.header, SafetensorsHeader) else None


def _without_account(file_size: int, data_offset: int | None) -> Accounting:
    return Accounting(
        file_size=exact_int(file_size),
        data_offset=data_offset,
        header_padding=None,
        tensor_bytes=None,
        alignment_padding=None,
        remainder=None,
        surplus=None,
        missing=None,
        overlap=None,
        residue=None,
        tensors_cut=None,
        tensors_gone=None,
        contiguous=None,
        regions=None,
        region_count=None,
        regions_complete=None,
        layout=None,
        candidates=[],
        consistent_with=[],
        by_type=[],
        parameters=None,
    )


def _contiguous(figures: Figures) -> Contiguous | None:
    if figures.contiguous is None or figures.discontiguous is None:
        return None
    return Contiguous(yes=figures.contiguous, no=figures.discontiguous)


def _candidate(tried: Tried, account: Account) -> Candidate:
    figures = candidate_figures(tried, account.file_size, account.data_offset)
    return Candidate(
        names=list(tried.names),
        applicable=tried.applicable,
        reason=tried.reason,
        tensor_bytes=exact_int(figures.tensor_bytes),
        alignment_padding=exact_int(figures.alignment_padding),
        surplus=exact_int(figures.surplus),
        missing=exact_int(figures.missing),
        overlap=exact_int(figures.overlap),
        residue=exact_int(figures.residue),
        contiguous=_contiguous(figures),
    )


def consistent_with(account: Account) -> Iterator[str]:
    """The names of all layouts under which every byte comes out."""
    if account.data_offset is None:
        return
    for tried in account.candidates:
        if tried.cover is not None and tried.cover.exact:
            yield from tried.names


def published_runs(observation: Observation) -> Sequence[Run]:
    """The runs that a record can name, in the order of its regions; padding that holds something among them."""
    if observation.account is None:
        return ()
    padding = () if observation.scanned is None else observation.scanned.nonzero_padding
    runs = [*observation.account.runs, *(Run("padding", begin, end) for begin, end in padding)]
    representable = [run for run in runs if exact_int(run.end) is not None]
    return sorted(representable, key=lambda run: (run.begin, run.end))[:REGIONS]


def region_count(observation: Observation) -> int:
    """How many regions there are, kept or not."""
    account = observation.account
    return (account.run_count if account is not None else 0) + (
        observation.scanned.nonzero_count if observation.scanned else 0
    )


def regions_of(observation: Observation) -> list[Region]:
    """The regions of a record."""
    return [
        Region(
            kind="padding_nonzero" if run.kind == "padding" else run.kind,
            begin=run.begin,
            length=run.end - run.begin,
            after=run.after,
            before=run.before,
            content="nonzero" if run.kind == "padding" else _content(run, observation.scanned),
        )
        for run in published_runs(observation)
    ]


def _content(run: Run, scanned: Scanned | None) -> RegionContent:
    zero = None if scanned is None else scanned.content.get((run.begin, run.end))
    if zero is None:
        return "unread"
    return "zero" if zero else "nonzero"
