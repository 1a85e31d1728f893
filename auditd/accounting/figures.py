"""The figures of an account: what may be said of a cover, and what several covers agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from auditd.accounting.candidates import Candidate, Place
from auditd.accounting.cover import Cover


@dataclass(frozen=True, slots=True)
class Figures:
    """The sums, in bytes, and the counts; each is None where it needs something unknown."""

    tensor_bytes: int | None = None
    alignment_padding: int | None = None
    remainder: int | None = None
    surplus: int | None = None
    missing: int | None = None
    overlap: int | None = None
    residue: int | None = None
    tensors_cut: int | None = None
    tensors_gone: int | None = None
    contiguous: int | None = None
    discontiguous: int | None = None


def figures_of(cover: Cover, place: Place) -> Figures:
    """What may be said: everything, or what needs neither the unknown data start nor the unknown sizes."""
    if not place.known:
        return Figures(tensor_bytes=cover.tensor_bytes if cover.sized else None, overlap=cover.overlap)
    known = Figures(missing=cover.missing, overlap=cover.overlap, tensors_cut=cover.cut, tensors_gone=cover.gone)
    if not cover.sized:
        return known
    return Figures(
        tensor_bytes=cover.tensor_bytes,
        alignment_padding=cover.padding,
        remainder=place.file_size - place.data_offset - cover.tensor_bytes,
        surplus=cover.surplus,
        missing=known.missing,
        overlap=known.overlap,
        residue=cover.residue,
        tensors_cut=known.tensors_cut,
        tensors_gone=known.tensors_gone,
        contiguous=cover.contiguous,
        discontiguous=cover.discontiguous,
    )


def candidate_figures(candidate: Candidate, file_size: int, data_offset: int | None) -> Figures:
    """The figures of one candidate, all None if it is not applicable."""
    if candidate.cover is None:
        return Figures()
    known = data_offset is not None
    return figures_of(candidate.cover, Place(file_size, data_offset or 0, 1, known=known))


def or_known(agreed: Figures, known: Figures) -> Figures:
    """What is not agreed on, as far as the known extents say it: a lower bound, and enough to raise a finding."""
    names = ("missing", "overlap", "tensors_cut", "tensors_gone")
    return replace(agreed, **{name: getattr(known, name) for name in names if getattr(agreed, name) is None})


def agreement(all_figures: Sequence[Figures]) -> Figures:
    """Each figure on which all of them agree."""
    if not all_figures:
        return Figures()
    first = all_figures[0]
    names = [field.name for field in fields(Figures)]
    agreed = {
        name: getattr(first, name)
        for name in names
        if all(getattr(figures, name) == getattr(first, name) for figures in all_figures)
    }
    return Figures(**agreed)
