"""Numbers in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.report.figures import counted, duration, exact, percent, rounded, signed


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "?"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (102_348, "99.9 KiB"),
        (102_400, "100 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (4_404_019_200, "4.1 GiB"),
        (2**63, "8.0 EiB"),
    ],
)
def test_rounded(size: int | None, text: str) -> None:
    assert rounded(size) == text


@given(st.integers(0, 2**64))
def test_rounded_takes_eight_cells(size: int) -> None:
    assert len(rounded(size)) <= 8


def test_exact_and_signed() -> None:
    assert (exact(None), exact(4_404_019_200)) == ("?", "4,404,019,200")
    assert [signed(count) for count in (None, 0, 96, -1_048_576)] == ["?", "0", "+96", "-1,048,576"]
    assert [counted(count, "file") for count in (0, 1, 2_000)] == ["0 files", "1 file", "2,000 files"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7_500, "2 h 5 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "?"),
        (0.0, "0 %"),
        (0.00001, "<0.1 %"),
        (0.001, "0.1 %"),
        (0.2889, "28.9 %"),
        (0.99999, "100.0 %"),
        (1.0, "100 %"),
    ],
)
def test_percent(share: float | None, text: str) -> None:
    assert percent(share) == text
