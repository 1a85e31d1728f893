"""What leaves the daemon as a line: events and evidence."""

from __future__ import annotations

import base64
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from auditd.service.logging import LINE_BYTES, Output, _Standard, open_events, path_fields, render
from auditd.service.recording.evidence_log import EvidenceLog
from auditd.service.status import write_atomically
from tests.support.lines import harmless


def say(event: str, **fields: Any) -> str:
    stream = io.StringIO()
    open_events(stream, {}).warning(event, **fields)
    return stream.getvalue()


def test_one_json_object_a_line() -> None:
    line = say("alert_raised", residue=100, path="a\nb")
    assert line.count("\n") == 1
    event = json.loads(line)
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "alert_raised", "level": "warning", "residue": 100, "path": "a\nb"}


def test_a_priority_under_the_journal() -> None:
    stream = io.StringIO()
    open_events(stream, {"JOURNAL_STREAM": "8:1"}).warning("alert_raised")
    assert stream.getvalue().startswith('<4>{"')


HOSTILE = "\x1b[31m\x7f\x9b\u202e\u2028\n\ud800\r"


def test_nothing_in_a_line_acts_on_a_terminal() -> None:
    line = say("inspection_failed", reason=HOSTILE)
    assert harmless(line[:-1])
    assert line.isascii()
    assert json.loads(line)["reason"] == HOSTILE


def test_a_line_is_never_longer_than_its_bound() -> None:
    line = render({"event": "alert_raised", "message": "\x1b" * 100_000, "advice": "x" * 20_000, "list": [1] * 9_000})
    assert len(line) <= LINE_BYTES
    assert json.loads(line)["event"] == "alert_raised"
    assert json.loads(line)["cut"] is True


@pytest.mark.parametrize("path", [b"/plain.gguf", "/über.gguf".encode()])
def test_an_exact_path_has_no_second_form(path: bytes) -> None:
    assert path_fields(path) == {"path": path.decode()}


@pytest.mark.parametrize("path", [b"/\xff", b"/a\nb", b"/\x1b[2J", b"/back\\slash", b"/" + b"\x01" * 4095])
def test_a_path_that_is_not_shown_exactly_is_there_in_base64(path: bytes) -> None:
    fields = path_fields(path, "root")
    assert base64.b64decode(fields["root_base64"]) == path
    assert harmless(fields["root"])
    assert len(say("root_blind", **fields)) <= LINE_BYTES


def test_a_reader_that_went_away_does_no_harm() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        events = open_events(stream, {})
        events.info("one")
        events.info("two")
        with pytest.raises(BrokenPipeError):
            stream.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_log_directories_and_modes(tmp_path: Path) -> None:
    log = EvidenceLog(str(tmp_path / "new" / "evidence.jsonl"))
    log.write(b"{}\n")
    log.sync()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "evidence.jsonl").stat().st_mode & 0o777 == 0o640
    log.reopen()


def test_log_goes_on_in_a_new_file_after_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = EvidenceLog(str(path))
    log.write(b"1\n")
    path.rename(tmp_path / "log.1")
    log.write(b"2\n")
    path.unlink()
    log.write(b"3\n")
    assert (lines(tmp_path / "log.1"), lines(path)) == ([b"1\n"], [b"3\n"])
    log.reopen()


def test_log_ends_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"torn')
    log = EvidenceLog(str(path))
    log.write(b"{}\n")
    assert lines(path) == [b'{"torn\n', b"{}\n"]
    log.reopen()


def test_log_takes_back_what_a_full_disk_took_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    log = EvidenceLog(str(path))
    log.write(b"1\n")
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, line: whole(descriptor, line[:3]))
    with pytest.raises(OSError, match="No space"):
        log.write(b"too long\n")
    monkeypatch.undo()
    log.write(b"2\n")
    assert lines(path) == [b"1\n", b"2\n"]
    log.reopen()


def test_log_does_not_follow_a_link_and_does_not_block_on_a_fifo(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        EvidenceLog(str(tmp_path / "link")).write(b"1\n")


def test_a_full_disk_under_standard_output_does_no_harm() -> None:
    with open("/dev/full", "w") as full:
        output = Output()
        output._stream = _Standard(full.fileno())
        events = open_events(output, {})
        events.info("one")
        events.info("two")
    assert (output.lost, output.reason) == (2, "No space left on device")


def test_modes_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        log = EvidenceLog(str(tmp_path / "log"))
        log.write(b"{}\n")
        log.reopen()
        write_atomically(str(tmp_path / "status"), b"", 0o640)
        write_atomically(str(tmp_path / "metrics"), b"", 0o644)
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("log", "status", "metrics")]
    assert modes == [0o640, 0o640, 0o644]
