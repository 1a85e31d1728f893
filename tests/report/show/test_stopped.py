"""Where a reading ended: one case for every way, its place taken from the bytes and not from the reader."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.expectation import Expectation, Remark
from auditd.evidence.observation import Observation
from auditd.inspection.inspector import observe_artifact
from auditd.inspection.request import Request
from auditd.report.columns import width
from auditd.report.show.outcome import Ending, ending, ending_lines
from auditd.report.style import plain
from tests.builders import PRODUCER, Entry, Tensor, gguf, safetensors, simple, sketch, st_entry
from tests.support.looks import looked, looked_at


def ended(observation: Observation) -> Ending:
    end = ending(observation)
    assert end is not None
    return end


def text_of(end: Ending) -> str:
    return " ".join(" ".join(ending_lines(end)).split())


def test_a_sound_file_has_no_ending(tmp_path: Path) -> None:
    assert ending(looked_at(tmp_path, sketch().data)) is None
    assert list(ending_lines(None)) == []


def with_length(length: int) -> bytes:
    """The known file with another length of its first key, which stands at byte 24."""
    data = bytearray(sketch().data)
    struct.pack_into("<Q", data, 24, length)
    return bytes(data)


@pytest.mark.parametrize(
    ("length", "constraint", "offset", "actual"),
    [(21, "value_type", 24 + 8 + 21, 100_663_296), (64, "string_length", 101, "7449358543090511616")],
)
def test_a_broken_length_is_met_where_it_cannot_be_followed(
    tmp_path: Path, length: int, constraint: str, offset: int, actual: int | str
) -> None:
    end = ended(looked_at(tmp_path, with_length(length)))
    assert (end.outcome, end.stopped) == ("refused", True)
    assert (end.constraint, end.offset, end.actual) == (constraint, offset, actual)
    shown = text_of(end)
    assert f"byte {offset}" in shown
    assert f"found {int(actual):,}" in shown
    assert "nothing behind it was read" in shown


def test_a_length_past_the_end_is_a_file_that_was_cut(tmp_path: Path) -> None:
    end = ended(looked_at(tmp_path, sketch().data[:200]))
    assert end.outcome == "truncated"
    assert (end.field, end.offset) == ("metadata[4].key.length", 192)
    assert "metadata entry 5 of 5" in end.message


def test_a_version_that_is_not_read(tmp_path: Path) -> None:
    end = ended(looked_at(tmp_path, gguf(version=9).data))
    assert (end.outcome, end.field, end.offset) == ("unsupported", "header.version", 4)


def test_a_broken_rule_that_stops_nothing(tmp_path: Path) -> None:
    twice = [Entry("a", "u32", 1), Entry("a", "u32", 2), Entry("b", "u32", 2), Entry("b", "u32", 2)]
    end = ended(looked_at(tmp_path, gguf(twice, [Tensor("w", [8])]).data))
    assert (end.outcome, end.stopped, end.constraint) == ("refused", False, "duplicate_key")
    assert (end.field, end.others) == ("metadata[1].key", 1)
    assert "nothing behind it" not in text_of(end)
    assert "one more broken rule" in text_of(end)


@pytest.mark.parametrize(
    ("data", "outcome", "verdict", "code", "others"),
    [
        (simple(Tensor("w", [8]), data_length=40).data, "complete", "residue", "unowned_bytes", 0),
        (simple(Tensor("w", [8]), data_length=30).data, "truncated", "truncated", "tensor_bytes_missing", 0),
        (
            simple(Tensor("a", [8]), Tensor("b", [8], offset=16), data_length=80).data,
            "complete",
            "malformed",
            "tensor_overlap",
            2,
        ),
    ],
)
def test_what_speaks_against_a_file_that_was_read_to_its_end(
    tmp_path: Path, data: bytes, outcome: str, verdict: str, code: str, others: int
) -> None:
    end = ended(looked_at(tmp_path, data))
    assert (end.outcome, end.stopped, end.verdict, end.code) == (outcome, False, verdict, code)
    assert end.severity == "critical"
    assert end.others == others
    first, *rest = list(ending_lines(end))[1:]
    assert first.startswith(f"{verdict}: ")
    assert rest[0].strip() == f"critical: {code}"
    assert "-> " in text_of(end)
    assert "nothing behind it" not in text_of(end)


def test_what_is_only_notable_is_no_ending(tmp_path: Path) -> None:
    assert ending(looked_at(tmp_path, gguf([], [Tensor("w" * 64, [8])]).data)) is None


def test_the_verdict_is_that_of_the_whole_file(tmp_path: Path) -> None:
    expectation = Expectation("store", size=7)
    end = ended(replace(looked_at(tmp_path, safetensors(b'{"a":{}')), expectation=expectation))
    assert (end.code, end.verdict) == ("header_malformed", "mismatch")


def test_a_foreign_file(tmp_path: Path) -> None:
    end = ended(looked_at(tmp_path, b"<!DOCTYPE html><html>"))
    assert (end.outcome, end.stopped, end.actual) == ("foreign", True, "html_page")
    assert '"<!DO"' in end.message


def test_a_part_of_a_store_that_is_no_model(tmp_path: Path) -> None:
    remark = Remark("leftover", "the text of a link")
    seen = Observation(
        b"/store/blob", "header", size=76, expectation=Expectation("huggingface", role="other", remarks=(remark,))
    )
    end = ended(seen)
    assert (end.outcome, end.stopped) == ("no_model", True)
    assert "the text of a link" in text_of(end)
    assert ended(replace(seen, expectation=Expectation("ollama", role="other"))).outcome == "no_model"


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    end = ended(looked(tmp_path / "none.gguf"))
    assert (end.outcome, end.stopped, end.constraint, end.offset) == ("unavailable", True, None, None)
    assert "No such file" in end.message


def test_a_download_that_is_not_finished(tmp_path: Path) -> None:
    end = ended(looked_at(tmp_path, sketch().data, "m.gguf.part"))
    assert end.outcome == "unfinished"
    assert "--unfinished" in end.advice
    assert ending(looked_at(tmp_path, sketch().data, "m.gguf.part", unfinished=True)) is None


def test_a_reading_that_was_stopped(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(sketch().data)

    def stop() -> None:
        raise InspectionStopped("stopped by SIGINT")

    end = ended(observe_artifact(Request(bytes(tmp_path / "m.gguf"), PRODUCER), stop))
    assert (end.outcome, end.message) == ("cancelled", "stopped by SIGINT")


def test_a_file_that_changed_meanwhile(tmp_path: Path) -> None:
    end = ended(replace(looked_at(tmp_path, sketch().data), identity="modified"))
    assert (end.outcome, end.stopped) == ("changed", False)


@pytest.mark.parametrize(
    ("data", "constraint"),
    [
        (safetensors(b'{"a":{}'), "entry_fields"),
        (safetensors({"w": st_entry("F32", [2], 0, 8)}, bytes(4)), "range_past_end"),
    ],
)
def test_safetensors(tmp_path: Path, data: bytes, constraint: str) -> None:
    end = ended(looked_at(tmp_path, data, "m.safetensors"))
    assert end.constraint == constraint


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_hostile_names_are_harmless_and_fit(tmp_path: Path, columns: int) -> None:
    name = b"\x1b[2J\n\xe2\x80\xae\xff" * 20
    observation = looked_at(tmp_path, simple(Tensor(name, [8]), Tensor(name, [8])).data)
    lines = list(ending_lines(ended(observation), columns, plain))
    assert r"\x1b[2J" in "".join(lines)
    assert not set("".join(lines)) & set("\x1b\n\u202e")
    assert all(width(line) <= columns for line in lines)


def test_a_long_run_of_digits_is_text() -> None:
    digits = "9" * 10_000
    end = Ending(outcome="refused", meaning="m", stopped=True, message="m", code="header_malformed", actual=digits)
    assert "found 999" in text_of(end)
