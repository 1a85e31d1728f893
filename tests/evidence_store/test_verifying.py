# ruff: noqa: S608 - the tables and columns are named in this file
"""Whatever changes in a store behind everybody's back is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from auditd.errors import StoreError
from auditd.evidence_store.chain import link
from auditd.evidence_store.connection import _text, connect_reader
from auditd.evidence_store.store import EvidenceStore
from auditd.evidence_store.verifying import Tally, verify
from tests.evidence_store.stores import broken, entry, final, observation, small_store, tampered
from tests.support import models

#: ``logged`` says whether a line stands in the log, and is nothing that a record or a chain could tell.
UNSEALED = {("evidence", "logged")}
TABLES = ("evidence", "declarations", "chain", "ledger")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "evidence.sqlite"
    small_store(path)
    return path


@pytest.fixture
def memory(store: Path) -> Iterator[sqlite3.Connection]:
    """A copy in memory, for thousands of changes that are taken back."""
    with (
        closing(sqlite3.connect(":memory:", isolation_level=None)) as copy,
        closing(sqlite3.connect(store)) as original,
    ):
        original.backup(copy)
        copy.text_factory = _text
        yield copy


def is_broken(connection: sqlite3.Connection) -> bool:
    return bool(list(verify(connection, Tally())))


def test_a_sound_store(store: Path) -> None:
    found, tally = broken(store)
    assert found == []
    assert (tally.records, tally.links, tally.pruned, tally.first_break) == (3, 3, 0, None)


def test_an_empty_store(tmp_path: Path) -> None:
    path = tmp_path / "evidence.sqlite"
    EvidenceStore(str(path), writer=True).close()
    assert broken(path) == ([], Tally())


def altered(value: Any) -> Iterator[tuple[str, Any]]:
    """SQL with one parameter for every value that differs in a bit; one bit of each byte of longer ones."""
    if value is None:
        yield "?", 0
        yield "?", b""
    elif isinstance(value, int):
        for bit in range(64):
            number = value ^ (1 << bit)
            yield "?", number - (1 << 64) if number >= 1 << 63 else number
    else:
        content = value if isinstance(value, bytes) else value.encode()
        bits = range(8) if len(content) <= 64 else range(1)
        for index in range(len(content)):
            for bit in bits:
                mask = 1 << ((bit + index) % 8)
                flipped = content[:index] + bytes([content[index] ^ mask]) + content[index + 1 :]
                yield "?" if isinstance(value, bytes) else "CAST(? AS TEXT)", flipped
        yield "NULL AND ?", 0


@pytest.mark.system
@pytest.mark.parametrize("table", TABLES)
def test_every_bit_of_every_column(memory: sqlite3.Connection, table: str) -> None:
    names = [row[1] for row in memory.execute(f"PRAGMA table_info({table})")]
    tried = 0
    # The second record is the first at another place.
    for rowid, *values in memory.execute(f"SELECT rowid, * FROM {table}").fetchall()[::2]:
        for name, value in zip(names, values, strict=True):
            if (table, name) in UNSEALED:
                continue
            for marker, other in altered(value):
                memory.execute("SAVEPOINT before")
                try:
                    memory.execute(f"UPDATE {table} SET {name} = {marker} WHERE rowid = ?", (other, rowid))
                except sqlite3.IntegrityError:
                    continue  # the table itself refuses it
                else:
                    assert is_broken(memory), (table, name, value, other)
                    tried += 1
                finally:
                    memory.execute("ROLLBACK TO before")
                    memory.execute("RELEASE before")
    assert tried > 100
    assert not is_broken(memory)


@pytest.mark.parametrize("table", TABLES)
def test_every_row_that_is_taken_away(memory: sqlite3.Connection, table: str) -> None:
    rowids = [row[0] for row in memory.execute(f"SELECT rowid FROM {table}").fetchall()]
    assert rowids
    for rowid in rowids:
        memory.execute("SAVEPOINT before")
        memory.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))
        assert is_broken(memory), (table, rowid)
        memory.execute("ROLLBACK TO before")


@pytest.mark.system
def test_every_bit_of_the_file(store: Path, tmp_path: Path) -> None:
    """Of a file that is read at all, what SQLite hands out is what was written; its free space is nobody's."""
    content = store.read_bytes()
    with closing(connect_reader(str(store))) as connection:
        expected = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES]
    copy = tmp_path / "copy.sqlite"
    for index in range(0, len(content), 251):
        copy.write_bytes(content[:index] + bytes([content[index] ^ (1 << (index % 8))]) + content[index + 1 :])
        try:
            found, _ = broken(copy)
        except StoreError:
            continue
        if not found:
            with closing(connect_reader(str(copy))) as connection:
                there = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES]
            assert [rows for rows, table in zip(there, TABLES, strict=True) if table != "evidence"] == [
                rows for rows, table in zip(expected, TABLES, strict=True) if table != "evidence"
            ]
            assert [row[:-1] for row in there[0]] == [row[:-1] for row in expected[0]]


def test_a_tail_that_was_cut(store: Path) -> None:
    tampered(store, ("DELETE FROM evidence WHERE sequence = 3", ()), ("DELETE FROM chain WHERE sequence = 3", ()))
    problems = [item.problem for item in broken(store)[0]]
    assert problems[0] == "the end of the chain is not where it was: link 3 was the last"
    assert "there are 2 links and there should be 3" in problems
    assert "there are 2 records and there should be 3" in problems


def test_a_begin_that_was_cut(store: Path) -> None:
    tampered(store, ("DELETE FROM evidence WHERE sequence = 1", ()), ("DELETE FROM chain WHERE sequence = 1", ()))
    found, tally = broken(store)
    assert tally.first_break == 2
    assert found[0].problem.startswith("the chain breaks here")


def test_two_rows_that_changed_places(store: Path) -> None:
    for table in ("evidence", "chain"):
        tampered(
            store,
            (f"UPDATE {table} SET sequence = 9 WHERE sequence = 1", ()),
            (f"UPDATE {table} SET sequence = 1 WHERE sequence = 2", ()),
            (f"UPDATE {table} SET sequence = 2 WHERE sequence = 9", ()),
        )
    found, tally = broken(store)
    assert tally.first_break == 1
    assert {item.sequence for item in found if "row is not as it was written" in item.problem} == {1, 2}


def test_a_row_that_was_put_in(store: Path) -> None:
    tampered(store, ("UPDATE chain SET sequence = 4 WHERE sequence = 3", ()))
    assert broken(store)[1].first_break == 4


def test_each_broken_record_is_named_and_the_first_break_once(store: Path) -> None:
    made = small_store(store)
    tampered(
        store,
        ("UPDATE evidence SET verdict = 'sound' WHERE sequence > 1", ()),
        ("UPDATE chain SET value = zeroblob(32) WHERE sequence = 2", ()),
    )
    found, tally = broken(store)
    assert tally.first_break == 2
    assert [item.problem for item in found if "breaks here" in item.problem] == [
        "the chain breaks here: this link does not follow the one before it"
    ]
    # The second is sound anyway, so only its seal could tell; the third has trailing bytes.
    assert [(item.sequence, item.evidence_id, item.problem) for item in found if "column" in item.problem] == [
        (3, made[2].evidence_id, "the row is not as it was written; column verdict is not what the record says")
    ]


def test_a_forger_who_seals_anew_is_still_told_by_the_record(store: Path) -> None:
    """Seals are against accidents: with all of them made anew, the columns still do not follow from the record."""
    made = small_store(store)
    with closing(sqlite3.connect(store)) as connection:
        value = connection.execute("SELECT value FROM chain WHERE sequence = 2").fetchone()[0]
    assert link(value, made[2].evidence_id) != value
    tampered(store, ("UPDATE evidence SET path = ? WHERE sequence = 2", (b"/m/elsewhere",)))
    assert "column path is not what the record says" in broken(store)[0][0].problem


def test_verify_sees_one_state_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "evidence.sqlite"
    plain = observation(models.gguf())
    with EvidenceStore(str(path), writer=True) as store:
        store.record(entry(final(plain, b"/a", 0), b"/a"))
        tally = Tally()
        with closing(connect_reader(str(path))) as connection:
            connection.execute("BEGIN")
            walk = verify(connection, tally)
            connection.execute("SELECT * FROM ledger").fetchall()
            store.record(entry(final(plain, b"/a", 1), b"/a"))
            assert list(walk) == []
    assert tally.records == 1
