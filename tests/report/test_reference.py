"""The published tables are the program's own."""

from __future__ import annotations

from pathlib import Path

from auditd.formats.faults import Constraint
from auditd.report.reference import page
from auditd.rules.findings import CONSTRAINTS, FINDINGS, VERDICT_MEANINGS, VERDICT_ORDER

ROOT = Path(__file__).parents[2]


def test_the_page_is_the_programs_own() -> None:
    assert (ROOT / "config" / "findings.md").read_text(encoding="utf-8") == page()


def test_every_code_and_constraint_is_explained() -> None:
    assert set(CONSTRAINTS) == set(Constraint)
    assert {kind.verdict for kind in FINDINGS.values()} <= {*VERDICT_ORDER, "in_progress"}
    assert set(VERDICT_MEANINGS) == {*VERDICT_ORDER, "in_progress"}


def test_the_readme_names_every_verdict() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"`{verdict}`" in readme for verdict in VERDICT_MEANINGS)
