"""Text fitted into cells."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.evidence.text import printable
from auditd.report.columns import cut_left, defused, fold, left, right, width, wrap
from tests.support.lines import harmless

LINES = st.text().map(printable)


@pytest.mark.parametrize(("text", "cells"), [("", 0), ("abc", 3), ("模型", 4), ("e\u0301", 1), ("…", 1), ("ﾊ", 1)])
def test_width(text: str, cells: int) -> None:
    assert width(text) == cells


def test_the_end_of_a_name_stays() -> None:
    assert cut_left("/srv/models/llama-Q4_K.gguf", 13) == "…ma-Q4_K.gguf"
    assert cut_left("/srv/模型/x.gguf", 10) == "…型/x.gguf"
    assert cut_left("short", 5) == "short"


def test_a_mark_is_not_left_without_its_character() -> None:
    assert cut_left("abce\u0301xyz", 4) == "…xyz"


@given(LINES, st.integers(1, 30))
def test_a_cut_text_fits_and_ends_alike(text: str, cells: int) -> None:
    cut = cut_left(text, cells)
    assert width(cut) <= cells
    assert text.endswith(cut.removeprefix("…"))


@given(LINES, st.integers(2, 40))
def test_wrapped_text_fits_and_loses_nothing(text: str, cells: int) -> None:
    lines = wrap(text, cells)
    assert all(width(line) <= cells for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_filled_up() -> None:
    assert left("模", 4) + "|" == "模  |"
    assert right("模", 4) == "  模"


@given(st.text())
def test_defused_text_is_printable_and_stays_when_it_was(text: str) -> None:
    once = printable(text)
    assert defused(once) == once
    assert harmless(defused(text))


def test_a_line_is_folded_and_nothing_is_lost() -> None:
    assert list(fold("  NAME   SHAPE  BYTES", 16)) == ["  NAME   SHAPE", "    BYTES"]
    assert list(fold("  " + "x" * 20, 12)) == ["  " + "x" * 10, "    " + "x" * 8, "    xx"]
    assert list(fold("\x1b[1mshort\x1b[0m", 5)) == ["\x1b[1mshort\x1b[0m"]
    assert list(fold("\x1b[1mtoo long\x1b[0m", 6)) == ["too", "    lo", "    ng"]


def test_a_space_that_does_not_break_is_not_lost() -> None:
    assert list(fold("0\xa0", 1)) == ["0", "\xa0"]


@given(LINES, st.integers(6, 40))
def test_folded_lines_fit(line: str, cells: int) -> None:
    folded = list(fold(line, cells))
    assert all(width(each) <= cells for each in folded) or folded == [line]
    assert "".join(folded).replace(" ", "") == line.replace(" ", "")


ESCAPES = printable("\x08\u202e\U000e0001\\")


@pytest.mark.parametrize("cells", [14, 15, 21])
def test_an_escape_is_never_broken(cells: int) -> None:
    whole = [r"\x08", r"\u202e", r"\U000e0001", r"\\"]
    for lines in (wrap(ESCAPES * 5, cells), list(fold(ESCAPES * 5, cells)), [cut_left(ESCAPES * 5, cells)]):
        left_over = "".join(lines).replace(" ", "").removeprefix("…")
        for line in lines:
            assert width(line) <= cells
            assert re.sub("|".join(map(re.escape, whole)), "", line).strip(" …") == ""
        assert (ESCAPES * 5).endswith(left_over)


def test_a_word_that_is_broken_gains_no_space() -> None:
    name = printable("ab\u202e" * 6)
    lines = wrap(f'tensor "{name}" is there', 10)
    assert all(width(line) <= 10 for line in lines)
    begin = next(at for at, line in enumerate(lines) if line.startswith('"'))
    end = next(at for at, line in enumerate(lines) if '"' in line[1:] or (at > begin and '"' in line))
    assert "".join(lines[begin : end + 1]).partition(" ")[0] == f'"{name}"'


def test_an_escape_that_is_longer_than_a_line_is_broken_all_the_same() -> None:
    assert wrap(r"\u202e", 4) == [r"\u20", "2e"]


@given(LINES, st.integers(1, 12))
def test_the_narrowest_terminal_comes_to_an_end(line: str, cells: int) -> None:
    assert "".join(fold(line, cells)).replace(" ", "") == line.replace(" ", "")


def test_a_long_line_is_folded_in_linear_time() -> None:
    assert sum(1 for _ in fold("x" * 2_000_000, 80)) == 1 + -(-(2_000_000 - 80) // 76)
