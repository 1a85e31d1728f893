"""The page of promises names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "config" / "evidence.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_is_there(file: str, name: str) -> None:
    assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8")


def test_every_promise_is_shown_or_does_not_apply() -> None:
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 30
    for expectation, how, shown in rows:
        assert "`" in shown or "does not apply" in how, expectation
