"""The keeper of the sets: what it cannot see is not gone, and what no root covers is not kept."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from auditd.evidence.record import Producer
from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint
from auditd.evidence_store.store import EvidenceStore
from auditd.inspection.request import carry_on
from auditd.inspection.set_discovery import directories_of
from auditd.model_stores.files import Unknown
from auditd.model_stores.stores import ModelStores
from auditd.service.reading.board import RootBoard
from auditd.service.recording.alerts import Policy
from auditd.service.recording.evidence_log import EvidenceLog
from auditd.service.recording.recorder import Recorder
from auditd.service.recording.sets import SetKeeper
from auditd.service.watching.scanner import Scanner, is_below
from auditd.settings import Root
from tests.model_stores.trees import layer, library, manifest, repository, snapshot, write
from tests.support.records import evidence

pytestmark = pytest.mark.system


class Silent:
    """An event log that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.something_cleared = trio.Event()

    def info(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))
        if event == "alert_cleared":
            self.something_cleared.set()

    warning = error = info

    def cleared(self) -> list[str]:
        return [fields["cleared_as"] for event, fields in self.events if event == "alert_cleared"]


class Desk:
    """A keeper of one root with a real store and real files."""

    def __init__(self, home: Path) -> None:
        self.models = home / "models"
        self.models.mkdir()
        self.board = RootBoard(bytes(self.models), "events")
        self.heard = Silent()
        self.store = EvidenceStore(str(home / "evidence.sqlite"), writer=True)
        self.recorder = Recorder(
            self.store, EvidenceLog(str(home / "evidence.jsonl")), self.heard, Policy("warning", 3600.0)
        )
        self.covered = True
        self.keeper = SetKeeper(self.recorder, ModelStores(), 0.1, self._rules, [self.board])

    def _rules(self, path: bytes) -> tuple[Producer, dict[str, Any]] | None:
        covers = self.covered and is_below(path, self.board.path)
        return (evidence("/m/a.gguf").producer, {}) if covers else None

    def index(self) -> Path:
        """The index of a set of which no file is there."""
        index = self.models / "set" / "model.safetensors.index.json"
        weights = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
        return old(write(index, json.dumps({"metadata": {"total_size": 8}, "weight_map": weights}).encode()))

    async def judge(self, place: Path) -> int:
        """How many sets are known after a judgement."""
        await self.keeper._judge(bytes(place))
        return sum(self.store.count_sets().values())

    def scanner(self, marked: set[bytes]) -> Scanner:
        return Scanner(
            index=0,
            root=Root(str(self.models)),
            mode="header",
            configuration="",
            store=self.store,
            offer=lambda _: None,
            removed=lambda *_: None,
            moved=marked.update,
        )


def old(path: Path) -> Path:
    """Nothing moved beside it for long."""
    os.utime(path.parent, (1, 1))
    return path


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.recorder.close()
    made.store.close()


def refusing(real: Callable[..., Any], part: bytes, error: int) -> Callable[..., Any]:
    def refused(path: Any, *others: Any, **named: Any) -> Any:
        if isinstance(path, bytes | str) and part in os.fsencode(path):
            raise OSError(error, "refused")
        return real(path, *others, **named)

    return refused


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO, errno.ESTALE])
async def test_a_place_that_cannot_be_seen_is_not_gone(desk: Desk, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    index = desk.index()
    assert await desk.judge(index.parent) == 1
    with monkeypatch.context() as refused:
        refused.setattr(os, "lstat", refusing(os.lstat, b"/models/set", error))
        refused.setattr(os, "stat", refusing(os.stat, b"/models/set", error))
        assert await desk.judge(index.parent) == 1
    assert desk.heard.cleared() == []
    index.unlink()
    index.parent.rmdir()
    assert await desk.judge(index.parent) == 0
    assert desk.heard.cleared() == ["removed"]


async def test_nothing_is_gone_below_a_blind_root(desk: Desk) -> None:
    index = desk.index()
    assert await desk.judge(index.parent) == 1
    index.unlink()
    desk.board.state = "blind"
    assert await desk.judge(index.parent) == 1
    index.parent.rmdir()
    assert await desk.judge(index.parent) == 1
    desk.board.state = "events"
    assert await desk.judge(index.parent) == 0


async def test_nothing_is_gone_from_the_empty_directory_of_a_mount(desk: Desk) -> None:
    """Before the root is known to be blind."""
    index = desk.index()
    assert await desk.judge(index.parent) == 1
    index.unlink()
    index.parent.rmdir()
    model = desk.models / "a.gguf"
    device = os.stat(desk.models).st_dev
    for there, kept in ((device + 1, 1), (device, 0)):
        desk.store.remember(bytes(model), ArtifactState(Fingerprint(there, 2, 96, 4, 5), None, None, 0, None))
        assert await desk.judge(index.parent) == kept


async def test_a_manifest_that_is_not_understood_keeps_its_model_and_no_other_from_being_judged(desk: Desk) -> None:
    home = desk.models / "ollama"
    (home / "blobs").mkdir(parents=True)
    first = manifest(home, library("first"), layer(b"x"))
    old(home / "blobs")
    assert await desk.judge(home) == 1
    whole = first.read_bytes()
    first.write_bytes(whole[:-1])
    manifest(home, library("second"), layer(b"y"))
    assert await desk.judge(home) == 2
    assert desk.heard.cleared() == []
    first.unlink()
    assert await desk.judge(home) == 1
    assert desk.heard.cleared() == ["removed"]


async def test_blobs_on_a_disk_that_is_not_mounted_do_not_end_a_store(desk: Desk, tmp_path: Path) -> None:
    home, disk = desk.models / "ollama", tmp_path / "disk"
    disk.mkdir()
    manifest(home, library("first"), layer(b"x"))
    (home / "blobs").symlink_to(disk)
    old(home / "blobs")
    assert await desk.judge(home) == 1
    disk.rmdir()
    assert await desk.judge(home) == 1


def test_directories_that_cannot_be_read_are_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = repository(tmp_path)
    assert list(directories_of(bytes(home))) == []
    snapshot(home, "a/m.gguf", b"x")
    snapshot(home, "b/m.gguf", b"x")
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, b"/a", errno.EIO))
    found = directories_of(bytes(home), carry_on)
    names = {os.path.basename(next(found)) for _ in range(3)}
    assert names == {b"snapshots", b"1" * 40, b"b"}
    with pytest.raises(Unknown):
        next(found)


async def test_what_no_root_covers_any_more_is_forgotten(desk: Desk) -> None:
    index = desk.index()
    assert await desk.judge(index.parent) == 1
    desk.covered = False
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.keeper.keep)
            await desk.heard.something_cleared.wait()
            nursery.cancel_scope.cancel()
    assert desk.store.count_sets() == {}
    assert desk.heard.cleared() == ["configuration"]


async def test_the_place_of_a_set_is_judged_again_whose_index_is_gone(desk: Desk) -> None:
    index = desk.index()
    assert await desk.judge(index.parent) == 1
    index.unlink()
    by_event: set[bytes] = set()
    desk.scanner(by_event).scan_paths([bytes(index)], carry_on)
    assert {os.path.dirname(path) for path in by_event} == {bytes(index.parent)}
    by_scan: set[bytes] = set()
    desk.scanner(by_scan).scan("rescan", carry_on)
    assert {os.path.dirname(path) for path in by_scan} == {bytes(index.parent)}
    index.parent.rmdir()
    with_its_directory: set[bytes] = set()
    desk.scanner(with_its_directory).scan_paths([bytes(index.parent)], carry_on)
    assert {os.path.dirname(path) for path in with_its_directory} == {bytes(index.parent)}
