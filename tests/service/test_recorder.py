"""The order in which things become durable and known."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace as replace_known
from dataclasses import replace as with_other
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from auditd.errors import StoreError
from auditd.evidence import canonical
from auditd.evidence.record import Evidence, FileIdentity, Finding, Identity
from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint, RequiredWork, required_work
from auditd.evidence_store.entities import Entry
from auditd.evidence_store.store import EvidenceStore
from auditd.service.reading.queue import Job
from auditd.service.recording import alerts
from auditd.service.recording.alerts import Policy
from auditd.service.recording.evidence_log import EvidenceLog
from auditd.service.recording.recorder import FoundSet, Recorder, Result
from tests.support.records import evidence, finding
from tests.support.sets import only, sharded

PATH = b"/srv/models/a.gguf"
SEEN = Fingerprint(1, 2, 96, 4, 5)
SAME = FileIdentity(device=1, inode=2, size=96, mtime_ns="4", ctime_ns="5", links=1, mode=0, uid=0, gid=0)


class Heard:
    """An event log that remembers, and looks at the log file at each event."""

    def __init__(self, log: Path) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.lines: list[int] = []
        self._log = log

    def info(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))
        self.lines.append(len(self._log.read_bytes().splitlines()) if self._log.is_file() else 0)

    warning = error = info

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]


class Desk:
    """A recorder with a real store and log."""

    def __init__(self, home: Path, repeat_seconds: float = 3600.0) -> None:
        self.log = home / "evidence.jsonl"
        self.heard = Heard(self.log)
        self.store = EvidenceStore(str(home / "evidence.sqlite"), writer=True)
        policy = Policy("warning", repeat_seconds)
        self.recorder = Recorder(self.store, EvidenceLog(str(self.log)), self.heard, policy)

    def close(self) -> None:
        self.recorder.close()
        self.store.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def a_set(tmp_path: Path) -> FoundSet:
    directory = tmp_path / "set"
    directory.mkdir()
    sharded(directory, ["a"], ["b"])
    return FoundSet(b"/srv/a", only(directory), "state")


def record(*findings: Finding, number: int = 0, **changes: Any) -> Evidence:
    identity = Identity(before=SAME, after=SAME, status="unchanged")
    fields = {"identity": identity, "recorded_at": f"2024-01-01T00:00:{number:02}Z", **changes}
    made = evidence(PATH.decode(), findings=list(findings), **fields)
    return replace(made, evidence_id=canonical.evidence_id(made))


def result(made: Evidence, *, interrupted: bool = False, wanted: Any = "expected", asked: Any = "expected") -> Result:
    return Result(Job(PATH, 0, SEEN, "change"), made, asked, wanted, interrupted)


BAD = finding("unowned_bytes", actual=100)


async def test_store_then_line_then_event(desk: Desk) -> None:
    assert await desk.recorder.record(result(record(BAD))) is RequiredWork.NOTHING
    assert desk.heard.names == ["inspection_finished", "alert_raised"]
    assert desk.heard.lines == [1, 1]
    assert desk.store.untold_alerts() == []


async def test_a_digest_follows_a_header(desk: Desk) -> None:
    assert await desk.recorder.record(result(record(), asked="header", wanted="full")) is RequiredWork.DIGEST
    assert await desk.recorder.record(result(record(number=1), asked="full", wanted="full")) is RequiredWork.NOTHING


async def test_partial_evidence_is_tried_later_and_interrupted_raises_nothing(desk: Desk) -> None:
    partial = record(finding("read_failed"), outcome="partial")
    assert await desk.recorder.record(result(partial, interrupted=True)) is RequiredWork.HEADER
    assert desk.heard.names == ["inspection_finished"]
    again = record(finding("read_failed"), outcome="partial", number=1)
    assert await desk.recorder.record(result(again)) is RequiredWork.LATER
    assert desk.heard.names[1:] == ["inspection_finished", "alert_raised"]


async def test_what_was_committed_and_not_said_is_said(desk: Desk) -> None:
    await desk.recorder.record(result(record(BAD)))
    desk.heard.events.clear()
    (alert,) = desk.store.open_alerts(PATH)
    desk.store.put_alerts([alerts.repeat(alert, 1.0)])
    await desk.recorder.tell_alerts()
    assert desk.heard.names == ["alert_repeated"]
    await desk.recorder.tell_alerts()
    assert desk.heard.names == ["alert_repeated"]


async def test_repeated_after_a_while_and_not_before(tmp_path: Path) -> None:
    for repeat_seconds, expected in ((3600.0, []), (1e-9, ["alert_repeated"]), (0.0, [])):
        home = tmp_path / str(repeat_seconds)
        home.mkdir()
        desk = Desk(home, repeat_seconds)
        await desk.recorder.record(result(record(BAD)))
        desk.heard.events.clear()
        await desk.recorder.repeat_alerts()
        assert desk.heard.names == expected
        desk.close()


async def test_lines_are_marked_once_they_are_on_the_disk(desk: Desk) -> None:
    await desk.recorder.record(result(record()))
    assert len(list(desk.store.unlogged())) == 1
    await desk.recorder.settle_log()
    assert list(desk.store.unlogged()) == []


async def test_a_line_that_an_earlier_run_did_not_write(desk: Desk, tmp_path: Path) -> None:
    await desk.recorder.record(result(record()))
    desk.close()
    (tmp_path / "evidence.jsonl").unlink()
    again = Desk(tmp_path)
    await again.recorder.catch_up()
    assert [json.loads(line)["detail"] for line in again.log.read_text().splitlines()] == ["summary"]
    again.close()


async def test_an_alarm_is_said_though_the_log_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    write = EvidenceLog.write

    def fail_twice(log: EvidenceLog, line: bytes) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise OSError(28, os.strerror(28))
        write(log, line)

    monkeypatch.setattr(EvidenceLog, "write", fail_twice)
    desk.recorder.log_trouble._wait = 0.01
    await desk.recorder.record(result(record(BAD)))
    assert desk.heard.names == ["log_failed", "inspection_finished", "alert_raised", "log_recovered"]
    assert len(desk.log.read_bytes().splitlines()) == 1


async def test_a_store_that_fails_is_said_once_and_tried_until_it_works(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0
    store = EvidenceStore.record

    def fail_twice(self: EvidenceStore, entry: Any) -> int:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise StoreError("disk full")
        return store(self, entry)

    monkeypatch.setattr(EvidenceStore, "record", fail_twice)
    desk.recorder.store_trouble._wait = 0.01
    await desk.recorder.record(result(record()))
    assert desk.heard.names == ["store_failed", "store_recovered", "inspection_finished"]


async def test_forgetting_clears(desk: Desk) -> None:
    assert not desk.recorder.forget(PATH, "removed")
    await desk.recorder.record(result(record(BAD)))
    desk.heard.events.clear()
    assert desk.recorder.forget(PATH, "removed")
    await desk.recorder.tell_alerts()
    ((name, fields),) = desk.heard.events
    assert (name, fields["cleared_as"], fields["code"]) == ("alert_cleared", "removed", "unowned_bytes")
    assert fields["path"] == PATH.decode()


async def test_an_alert_that_changed_while_it_was_told_is_told_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = desk.recorder._say_alert

    def say_and_forget(alert: Any, raised: Any) -> None:
        said(alert, raised)
        desk.recorder.forget(PATH, "removed")

    monkeypatch.setattr(desk.recorder, "_say_alert", say_and_forget)
    await desk.recorder.record(result(record(BAD)))
    assert desk.heard.names == ["inspection_finished", "alert_raised", "alert_cleared"]


async def test_an_alert_that_ends_before_anybody_heard_of_it_is_heard_of(desk: Desk) -> None:
    await desk.recorder.record(result(record(BAD)))
    (alert,) = desk.store.open_alerts(PATH)
    # As a kill leaves it that comes between the commit and the event; then the file goes before the next life.
    desk.store.put_alerts([with_other(alert, untold="alert_raised")])
    desk.recorder.forget(PATH, "removed")
    await desk.recorder.tell_alerts()
    await desk.recorder.tell_alerts()
    assert desk.heard.names[2:] == ["alert_raised", "alert_cleared"]


async def test_an_alert_that_is_cleared_while_others_repeat_stays_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, 1e-9)
    await desk.recorder.record(result(record(BAD)))
    read = EvidenceStore.alerts_told_before
    threads: list[threading.Thread] = []

    def read_while_another_clears(store: EvidenceStore, *moments: float) -> Any:
        due = read(store, *moments)
        threads.append(threading.Thread(target=desk.recorder.forget, args=(PATH, "removed")))
        threads[0].start()
        threads[0].join(0.2)
        return due

    monkeypatch.setattr(EvidenceStore, "alerts_told_before", read_while_another_clears)
    await desk.recorder.repeat_alerts()
    threads[0].join()
    assert desk.store.open_alerts(PATH) == []
    desk.close()


async def test_what_the_configuration_clears_is_looked_at_again(desk: Desk) -> None:
    await desk.recorder.record(result(record(BAD)))
    await desk.recorder.review(lambda alert: alerts.clear(alert, "configuration", 1.0))
    known = desk.store.known(PATH)
    assert known is not None
    assert (
        required_work(known, SEEN, settings=record().producer.configuration, mode="expected", run=1, now=0.0)
        is RequiredWork.HEADER
    )


async def test_only_a_commit_ends_the_trouble(desk: Desk) -> None:
    desk.recorder.store_trouble.begin("disk full")
    assert await desk.recorder.retry_at(PATH) is None
    assert await desk.recorder.counts() == ({}, {})
    assert desk.recorder.store_trouble.reason == "disk full"
    desk.recorder.store_trouble._wait = 0.01
    with trio.move_on_after(0.5):
        await desk.recorder.mend()
    assert desk.heard.names == ["store_failed", "store_recovered"]


async def test_lines_that_may_be_lost_are_written_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.recorder.record(result(record()))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(5, os.strerror(5))))
        desk.recorder._log.reopen()
    await desk.recorder.settle_log()
    assert len(list(desk.store.unlogged())) == 1
    await desk.recorder.settle_log()
    assert list(desk.store.unlogged()) == []
    assert len(desk.log.read_bytes().splitlines()) == 2
    assert desk.heard.names[-2:] == ["log_failed", "log_recovered"]


async def test_lines_of_sets_that_do_not_reach_the_disk_take_no_other_line_with_them(
    desk: Desk, a_set: FoundSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.recorder.record(result(record()))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(5, os.strerror(5))))
        await desk.recorder.record_sets(b"/srv", [a_set])
    # The disk lost what it was given, and says no more of it.
    os.truncate(desk.log, 0)
    await desk.recorder.settle_log()
    assert list(desk.store.unlogged()) == []
    assert desk.store.unlogged_sets() == []
    schemas = sorted(json.loads(line)["schema"] for line in desk.log.read_text().splitlines())
    assert schemas == ["model-auditd/evidence/1", "model-auditd/set-evidence/1"]
    assert desk.heard.names[-1] == "log_recovered"


async def test_a_damaged_record_without_a_line_holds_nothing_up(desk: Desk) -> None:
    desk.store.record(Entry(PATH, record(), ArtifactState(), ()))
    desk.store._change(lambda connection: connection.execute("UPDATE evidence SET record = x'00'"))
    with trio.fail_after(5):
        await desk.recorder.catch_up()
        await desk.recorder.record(result(record(number=1)))
    await desk.recorder.settle_log()
    assert list(desk.store.unlogged()) == []
    assert len(desk.log.read_bytes().splitlines()) == 1
    assert desk.heard.names == ["inspection_finished"]


@pytest.mark.parametrize("committed", [False, True])
async def test_sets_that_were_stored_before_the_store_failed_are_said(
    desk: Desk, a_set: FoundSet, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    others = [a_set, a_set._replace(name=b"/srv/b"), a_set._replace(name=b"/srv/c")]
    store, tries = EvidenceStore.record_set, 0

    def fail_at_the_second(self: EvidenceStore, entry: Any) -> None:
        nonlocal tries
        tries += 1
        if tries != 2 or committed:
            store(self, entry)
        if tries == 2:
            raise StoreError("disk full")

    monkeypatch.setattr(EvidenceStore, "record_set", fail_at_the_second)
    desk.recorder.store_trouble._wait = 0.01
    await desk.recorder.record_sets(b"/srv", others)
    assert desk.store.sets_at(b"/srv") == [each.name for each in others]
    assert [name for name in desk.heard.names if name == "set_judged"] == 3 * ["set_judged"]


async def test_other_settings_end_the_waiting(desk: Desk) -> None:
    desk.store.begin_settings(1)
    await desk.recorder.record(result(record(finding("read_failed"), outcome="partial")))
    desk.store.begin_settings(1)
    assert await desk.recorder.retry_at(PATH) is not None
    desk.store.begin_settings(2)
    assert await desk.recorder.retry_at(PATH) is None


async def test_a_mount_whose_bad_files_are_gone_has_no_alert(desk: Desk) -> None:
    paths = [f"/srv/models/{name}.gguf" for name in "abc"]
    for path in paths:
        made = evidence(path, findings=[finding("digest_mismatch")], identity=record().identity)
        made = replace(made, evidence_id=canonical.evidence_id(made))
        await desk.recorder.record(Result(Job(path.encode(), 0, SEEN, "change"), made, "full", "full", False))
    assert [alert.path for alert in desk.store.all_open_alerts() if alert.rule == "mount"] == [b"/"]
    desk.recorder.forget(paths[0].encode(), "removed")
    await desk.recorder.tell_alerts()
    assert [alert.rule for alert in desk.store.all_open_alerts()] == ["", ""]
    cleared = [fields for name, fields in desk.heard.events if name == "alert_cleared"]
    assert [fields["cleared_as"] for fields in cleared] == ["removed", "removed"]


async def test_other_settings_keep_which_file_it_is_and_when_it_was_hashed(desk: Desk) -> None:
    """Or a hard link would become an artifact of its own, and each change of the settings begin the scrub anew."""
    full = record(BAD, artifact=replace(record().artifact, sha256="ab" * 32))
    await desk.recorder.record(result(replace(full, evidence_id=canonical.evidence_id(full)), asked="full"))
    before = desk.store.known(PATH)
    desk.store.begin_settings(1)
    desk.store.begin_settings(2)
    assert list(desk.store.same_inode(b"/srv/models/link.gguf", SEEN)) == [PATH]
    await desk.recorder.record(result(record(BAD, number=1), asked="header"))
    after = desk.store.known(PATH)
    assert before is not None
    assert before.hashed_at is not None
    assert after is not None
    assert after.hashed_at == before.hashed_at


def test_references_that_go_are_noticed_where_nothing_is_hashed() -> None:
    """What an earlier digest was held against stands in the last record, and is no more."""
    known = ArtifactState(fingerprint=SEEN, settings="s", mode="header", run=1, expected="some reference")
    assert required_work(known, SEEN, settings="s", mode="header", run=1, now=0.0) is RequiredWork.HEADER
    assert (
        required_work(replace_known(known, expected=None), SEEN, settings="s", mode="header", run=1, now=0.0)
        is RequiredWork.NOTHING
    )
