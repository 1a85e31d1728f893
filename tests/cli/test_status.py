"""Exit statuses, one record at a time and over many."""

from __future__ import annotations

from typing import Any

import pytest

from auditd.cli.status import Status, status_of, worst
from tests.support.records import error, evidence, finding

CASES = {
    "sound": ({}, 0),
    "notice": ({"verdict": "notice", "findings": [finding("big_endian")]}, 0),
    "undetermined": ({"verdict": "undetermined", "findings": [finding("size_unestablished")]}, 0),
    "in progress": ({"verdict": "in_progress", "outcome": "skipped", "findings": [finding("unfinished")]}, 0),
    "padding": ({"verdict": "notice", "findings": [finding("padding_nonzero")]}, 1),
    "residue": ({"verdict": "residue", "findings": [finding("unowned_bytes")]}, 1),
    "refused": ({"verdict": "malformed", "outcome": "refused", "findings": [finding("header_malformed")]}, 1),
    "refused, mildly": ({"outcome": "refused", "findings": [finding("header_malformed", severity="info")]}, 1),
    "foreign": ({"verdict": "foreign", "outcome": "refused", "findings": [finding("not_a_model")]}, 1),
    "bound": ({"verdict": "undetermined", "outcome": "refused", "findings": [finding("resource_limit")]}, 1),
    "changed meanwhile": ({"verdict": "unknown", "findings": [finding("identity_changed")]}, 1),
    "unavailable": ({"outcome": "unavailable", "error": error()}, 3),
    "failed": ({"outcome": "failed", "error": error("execution_failure", "host")}, 3),
    "cancelled": ({"outcome": "partial", "error": error("cancelled", "cancelled")}, 3),
    "cancelled, truncated": ({"outcome": "partial", "findings": [finding("tensor_bytes_missing")]}, 3),
}


@pytest.mark.parametrize(("changes", "status"), CASES.values(), ids=CASES)
def test_status_of_a_record(changes: dict[str, Any], status: int) -> None:
    assert status_of(evidence(**changes)) == status


def test_threshold_can_be_another() -> None:
    assert status_of(evidence(findings=[finding("big_endian")]), "notice") == Status.FINDINGS
    assert status_of(evidence(findings=[finding("padding_nonzero")]), "critical") == Status.CLEAR


def test_not_seen_wins_over_findings() -> None:
    assert worst([]) == Status.CLEAR
    assert worst([Status.FINDINGS, Status.NOT_SEEN, Status.CLEAR]) == Status.NOT_SEEN
