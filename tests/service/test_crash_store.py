"""The store's file is taken away under the daemon: it is said, and nothing goes on into a file that nobody finds."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from auditd.errors import StoreError
from auditd.evidence_store.connection import take_lock
from auditd.evidence_store.store import EvidenceStore
from tests.service.processes import House
from tests.support.models import gguf

pytestmark = pytest.mark.system

SOUND = gguf()


def remove_directory(house: House) -> None:
    shutil.rmtree(house.store.parent)


def move_away(house: House) -> None:
    house.store.rename(house.home / "elsewhere")


def records(store: Path) -> dict[str, str]:
    """The records in the file as SQLite has it: path by evidence id."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT evidence_id, path FROM evidence").fetchall()
    return {evidence_id: os.fsdecode(path) for evidence_id, path in rows}


@pytest.mark.parametrize("taken", [remove_directory, move_away])
def test_a_store_that_is_taken_away_is_begun_anew_with_everything(house: House, taken: Callable[[House], None]) -> None:
    house.configure(schedule="rescan_seconds = 3600\nscrub_days = 0")
    old, new = house.models / "old.gguf", house.models / "new.gguf"
    old.write_bytes(SOUND + bytes(100))
    daemon = house.start()
    before = daemon.wait_for("alert_raised")
    daemon.wait_for("daemon_ready")
    taken(house)
    new.write_bytes(SOUND)
    assert "removed" in daemon.wait_for("store_failed")["reason"]
    daemon.wait_for("store_recovered")
    daemon.wait_for("inspection_finished", path=str(new))
    daemon.wait_for("inspection_finished", path=str(old))
    again = daemon.wait_for("alert_raised")  # the new store does not know that it was said
    assert again["evidence_id"] != before["evidence_id"]
    assert daemon.stop() == 0
    assert sorted(records(house.store).values()) == [str(new), str(old)]
    lines = [line["evidence_id"] for line in house.lines()]
    assert len(lines) == len(set(lines))
    assert set(records(house.store)) <= set(lines)  # every record has its line, though numbers began anew


def test_another_file_in_its_place_is_neither_written_nor_read(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    other = house.home / "other.sqlite"
    with EvidenceStore(str(other), writer=True):
        pass
    content = other.read_bytes()
    other.replace(house.store)
    (house.models / "new.gguf").write_bytes(SOUND)
    assert "another file" in daemon.wait_for("store_failed")["reason"]
    daemon.send(signal.SIGHUP)
    daemon.wait_for("config_reloaded")  # it lives
    assert daemon.stop() == 0
    assert house.store.read_bytes() == content
    assert not daemon.named("inspection_finished", "store_recovered")


def test_a_file_that_comes_back_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with EvidenceStore(str(path), writer=True) as store:
        store.prove()
        path.rename(tmp_path / "away")
        with pytest.raises(StoreError, match="removed"):
            store.prove()
        (tmp_path / "away").rename(path)
        store.prove()


def test_runs_are_counted_on_in_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with EvidenceStore(str(path), writer=True) as store:
        assert (store.run, store.generation) == (1, 0)
    with EvidenceStore(str(path), writer=True) as store:
        assert (store.run, store.generation) == (2, 0)
        path.unlink()
        with pytest.raises(StoreError, match="removed"):
            store.prove()
        store.prove()
        assert (store.run, store.generation) == (1, 1)


def test_a_lock_whose_file_is_gone_is_taken_again(tmp_path: Path) -> None:
    path = str(tmp_path / "store.sqlite")
    with EvidenceStore(path, writer=True) as store:
        os.unlink(path + ".lock")
        store.prove()
        with pytest.raises(StoreError, match="another process"):
            take_lock(path)
        os.unlink(path + ".lock")
        with take_lock(path), pytest.raises(StoreError, match="another process"):
            store.prove()
        store.prove()


def test_a_reader_follows_to_the_file_that_has_the_name(tmp_path: Path) -> None:
    path, other = str(tmp_path / "store.sqlite"), str(tmp_path / "other.sqlite")
    for name, mark in ((path, b"/a"), (other, b"/b")):
        with EvidenceStore(name, writer=True) as store:
            store.remember_sniffs([])
            store._change(
                lambda connection, mark=mark: connection.execute(  # type: ignore[misc]
                    "INSERT INTO sniffs VALUES (?, '', 1)", (mark,)
                )
            )
    with EvidenceStore(path, writer=False) as reader:
        assert list(reader.sniffed(b"/")) == [b"/a"]
        os.replace(other, path)
        assert list(reader.sniffed(b"/")) == [b"/b"]
