"""How the store's file is opened: by the one writer, who brings it up to date, and by readers, who change nothing.

Every failure is a :class:`StoreError` that names the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final
from urllib.parse import quote

from auditd.errors import StoreError
from auditd.evidence.text import printable
from auditd.evidence_store import migration, tables
from auditd.evidence_store.lock import WriterLock

#: How long another process's read transaction may hold up a checkpoint or a schema change.
_BUSY_SECONDS: Final = 10.0


def take_lock(path: str) -> WriterLock:
    """The writer's lock on the store ``path``, whose directory is made if need be."""
    return WriterLock(path)


def connect_writer(path: str) -> sqlite3.Connection:
    """A connection for whoever holds the lock; the tables are made or brought up to date."""
    # Made here, because SQLite would make it readable for all.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    connection = _connect(path, "mode=rw")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        version = tables.check(connection, printable(path))
        if version == 0:
            tables.create(connection)
        elif version < tables.VERSION:
            migration.bring_up(connection, version)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: str) -> sqlite3.Connection:
    """A connection that changes nothing, beside a writer or without one. An older store is read through a copy."""
    connection = _connect(path, _read_mode(path))
    try:
        version = tables.existing(connection, printable(path))
        if version < tables.VERSION:
            connection = _brought_up_copy(connection, version)
        connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _read_mode(path: str) -> str:
    """On a medium that nobody writes SQLite cannot make the files that it shares with a writer, and needs none."""
    if os.access(os.path.dirname(path) or ".", os.W_OK) or os.path.exists(path + "-wal"):
        return "mode=ro"
    return "mode=ro&immutable=1"


def _connect(path: str, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?{mode}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = _text
    return connection


def _text(raw: bytes) -> str | bytes:
    """Damaged text is for whoever looks at it, and no reason to read nothing of its row."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _brought_up_copy(old: sqlite3.Connection, version: int) -> sqlite3.Connection:
    """A copy in a temporary file of SQLite's own, in the present schema."""
    copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    copy.text_factory = _text
    try:
        with closing(old):
            old.backup(copy)
        migration.bring_up(copy, version)
    except BaseException:
        copy.close()
        raise
    return copy


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    # SQLite's message about a damaged schema quotes it, and may be no text.
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{printable(path)}: {error}") from error


@contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """One state of the store, whatever a writer does meanwhile."""
    if not os.path.exists(path):
        raise StoreError(f"{printable(path)}: there is no such store")
    with _naming(path), closing(connect_reader(path)) as connection:
        connection.execute("BEGIN")
        yield connection


@contextmanager
def writing(path: str) -> Iterator[sqlite3.Connection]:
    """The store for a change, under the same lock as the daemon."""
    with take_lock(path), _naming(path), closing(connect_writer(path)) as connection:
        yield connection
