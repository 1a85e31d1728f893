"""Every finding code of a set, once: its severity, the verdict it makes, what it means and what to do.

The codes of single files stand in ``auditd.rules.findings``. A set has four verdicts of its own, because its
members keep theirs: a set of sound files can be incomplete, and a whole set can hold a file that is not sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from auditd.evidence.record import Severity

SetVerdict: TypeAlias = Literal["sound", "notice", "incomplete", "in_progress"]

#: Worst first. ``in_progress`` stands alone, as it does for a file.
SET_VERDICT_ORDER: Final[tuple[SetVerdict, ...]] = ("incomplete", "notice", "sound")

SET_VERDICT_MEANINGS: Final[dict[SetVerdict, str]] = {
    "sound": "every member is there, and they agree with each other",
    "notice": "whole, with something that a person should know",
    "incomplete": "something that belongs to the set is not there",
    "in_progress": "files of the set are still being written",
}


@dataclass(frozen=True, slots=True)
class SetFindingKind:
    """One row: ``verdict`` is what the set is called when nothing worse is found."""

    severity: Severity
    verdict: SetVerdict
    meaning: str
    advice: str


SET_FINDINGS: Final[dict[str, SetFindingKind]] = {
    "set_incomplete": SetFindingKind(
        "warning",
        "incomplete",
        "members or tensors that the set names are not there",
        "Fetch what is missing from where the others come from; those that are there need not be fetched again.",
    ),
    "missing_target": SetFindingKind(
        "warning",
        "incomplete",
        "a member's name is a link that leads to nothing",
        "Mount or restore what the link leads to, or fetch the file again.",
    ),
    "set_index_unusable": SetFindingKind(
        "warning",
        "incomplete",
        "the index of the set cannot be read, or is not an index",
        "Fetch the index again; it is a small file. Programs that need it do not load the model.",
    ),
    "set_contradictory": SetFindingKind(
        "warning",
        "notice",
        "members contradict each other, or their own names",
        "Loaders refuse it, or take files of different models for one. Check which files belong together.",
    ),
    "set_stale": SetFindingKind(
        "notice",
        "notice",
        "an index, a key or a file speaks of an earlier state of the set",
        "Nothing is missing. Write the index or the key anew where a loader stumbles over it.",
    ),
    "set_stray": SetFindingKind(
        "notice",
        "notice",
        "files beside the set that nothing names",
        "Loaders that go by the index do not read them. Remove them if you do not know what they are for.",
    ),
    "set_not_indexed": SetFindingKind(
        "notice",
        "notice",
        "members hold tensors that the index does not give to them",
        "Loaders that go by the index do not read them.",
    ),
    "set_tensor_repeated": SetFindingKind(
        "notice",
        "notice",
        "a tensor stands in two members",
        "llama.cpp refuses this; others take one of the two without a word. Check which file is right.",
    ),
    "set_total_differs": SetFindingKind(
        "notice",
        "notice",
        "the index gives another total than the tensors have",
        "Loaders do not mind. It can mean that a file was replaced: compare digests with the publisher's.",
    ),
    "set_raw_pieces": SetFindingKind(
        "notice",
        "notice",
        "byte pieces of one file, which are no model before they are joined",
        "Join them in the order of their numbers (cat FIRST SECOND ... > MODEL.gguf) and inspect the result.",
    ),
    "set_index_absent": SetFindingKind(
        "notice",
        "notice",
        "numbered safetensors files without an index",
        "Programs that load by the index need it: fetch model.safetensors.index.json, too.",
    ),
    "set_architecture_absent": SetFindingKind(
        "notice",
        "notice",
        "the first member has no general.architecture",
        "llama.cpp reads it from the first file alone, and refuses a model without it.",
    ),
    "set_member_unsound": SetFindingKind(
        "notice",
        "notice",
        "a member is not sound by itself",
        "See the record of that file.",
    ),
    "set_unfinished": SetFindingKind(
        "info",
        "in_progress",
        "files of the set are still being written",
        "It is judged when nothing in it has moved for a while.",
    ),
}


def worst_set_verdict(codes: Iterable[str]) -> SetVerdict:
    """The verdict that decides; ``sound`` if there is no code, ``in_progress`` whenever it is among them."""
    found = {SET_FINDINGS[code].verdict for code in codes}
    if "in_progress" in found:
        return "in_progress"
    return next((verdict for verdict in SET_VERDICT_ORDER if verdict in found), "sound")


def set_severity_of(code: str, overrides: Mapping[str, Severity]) -> Severity:
    """The configured severity of a set's finding code, else its own."""
    return overrides.get(code, SET_FINDINGS[code].severity)
