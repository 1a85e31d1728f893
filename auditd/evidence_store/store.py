"""The evidence store: what one process writes and any process may read.

Every change is one transaction that is on the disk when the call returns (WAL, full synchronous). Calls are short,
may come from any thread and exclude each other. :class:`auditd.errors.StoreError` is the only error raised; after
one the same call may be made again: the connection is made anew.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self, TypeVar

from auditd.errors import StoreError
from auditd.evidence.history import Earlier, Seen
from auditd.evidence.record import Evidence
from auditd.evidence.text import printable
from auditd.evidence_store import pruning, scrubbing, set_records, statements
from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint
from auditd.evidence_store.connection import connect_reader, connect_writer, take_lock
from auditd.evidence_store.entities import Alert, DueItem, Entry, SetEntry, Stored
from auditd.evidence_store.lock import FileNumber, file_number
from auditd.evidence_store.records import RecordError, decode, divide, encoded
from auditd.model_sets.record import SetEvidence

#: Rows read under the lock at a time.
_PAGE: Final = 500

#: Alerts of one code that are counted: more of them say nothing more.
_MANY_ALERTS: Final = 4096

#: An identity without its device number.
_STATE: Final = "substr(identity, instr(identity, ' ') + 1)"

#: Which records a look is held against: see :class:`auditd.evidence.history.Earlier`.
_EARLIER: Final = {
    "before": f"{_STATE} <> ? ORDER BY sequence DESC",
    "hashed": f"{_STATE} <> ? AND hashed = 1 ORDER BY sequence DESC",
    # The first: what a later reading found is what is held against it.
    "same": f"{_STATE} = ? AND hashed = 1 ORDER BY sequence",
}

#: Why a store is not written any more.
_REMOVED: Final = "it was removed while it was in use, and what was recorded with it; a new one is begun"
_EXCHANGED: Final = "another file was put in its place while it was in use; end the program before a store is exchanged"

T = TypeVar("T")


def below(directory: bytes) -> tuple[bytes, bytes]:
    """The half-open range of all paths below ``directory`` in byte order: ``0`` is the byte after ``/``."""
    stem = directory.rstrip(b"/")
    return stem + b"/", stem + b"0"


def _content(connection: sqlite3.Connection, kept: tuple[bytes, int, bytes | None]) -> bytes | None:
    """The record of a row; None if it is damaged, which ``verify`` names."""
    try:
        return statements.content(connection, kept)
    except RecordError:
        return None


def _seen(record: bytes | None) -> Seen | None:
    try:
        return None if record is None else Seen.of(decode(record))
    except RecordError:
        return None


class Unlogged(NamedTuple):
    """A record whose line is not known to stand in the log; None if it is damaged, which ``verify`` names."""

    sequence: int
    evidence: Evidence | None


class EvidenceStore:
    """One open store. With ``writer`` it is made if need be, locked, and this is run number :attr:`run`."""

    def __init__(self, path: str, *, writer: bool) -> None:
        self.path = path
        self.run = 0
        #: How often it was begun anew because its file was gone: then it has nothing of what was recorded before.
        self.generation = 0
        self._writer = writer
        #: The file that was opened; None if the next one that is opened may be any.
        self._file: FileNumber | None = None
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._lock = take_lock(path) if writer else None
        try:
            self._call(lambda _: None)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file and release the lock."""
        with self._guard:
            self._disconnect()
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the connection ----------------------------------------------------------------------------------

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do ``work`` on the connection; an error costs the connection and becomes a ``StoreError``."""
        with self._guard:
            try:
                return work(self._connected())
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                self._disconnect()
                raise StoreError(f"{printable(self.path)}: {error}") from error

    def _connected(self) -> sqlite3.Connection:
        self._check_file()
        if self._lock is not None:
            self._lock.keep()
        if self._connection is None:
            self._connection = (connect_writer if self._writer else connect_reader)(self.path)
            if self._writer and self._file is None:
                self._begin_run(self._connection)
            self._file = file_number(self.path)
        return self._connection

    def _check_file(self) -> None:
        """Whoever goes on with a file that has lost its name writes for nobody, and reads what is no longer said.

        Gone, it is begun anew by the next call. A file in its place is not taken: what was committed last stands in a
        file beside it, and SQLite would mix the two.
        """
        there, mine = file_number(self.path), self._file
        if mine is None or there == mine:
            return
        # Where another mount of it gives another device number, the file is the same.
        if self._connection is None and there is not None and there.inode == mine.inode:
            return
        self._disconnect()
        if there is None or not self._writer:
            self._file = None
        if self._writer:
            raise StoreError(f"{printable(self.path)}: {_REMOVED if there is None else _EXCHANGED}")

    def _change(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do ``work`` as one transaction."""

        def change(connection: sqlite3.Connection) -> T:
            with statements.transaction(connection):
                return work(connection)

        return self._call(change)

    def _pages(self, query: Callable[[sqlite3.Connection, T], list[tuple[Any, ...]]], first: T) -> Iterator[Any]:
        """Rows in the order of their first column, a page at a time, so that nothing waits for a slow reader."""
        key: Any = first
        while rows := self._call(lambda connection, key=key: query(connection, key)):  # type: ignore[misc]
            yield from rows
            key = rows[-1][0]

    def _begin_run(self, connection: sqlite3.Connection) -> None:
        """The first of its run, or of the new file that a run goes on in."""
        with statements.transaction(connection):
            connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'run'")
            (run,) = connection.execute("SELECT value FROM counters WHERE name = 'run'").fetchone()
        self.generation += self.run > 0
        self.run = run

    def prove(self) -> None:
        """Commit something that nobody asks for: the disk takes changes again when this returns."""
        self._change(
            lambda connection: connection.execute(
                "INSERT INTO counters VALUES ('proof', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1"
            )
        )

    def begin_settings(self, mark: int) -> None:
        """Settings with this ``mark`` apply from now on.

        Under others than before, every file that failed may be tried at once, and what is not sound is looked at
        again: what it shows may be an alert now, or no alert any more.
        """

        def begin(connection: sqlite3.Connection) -> None:
            row = connection.execute("SELECT value FROM counters WHERE name = 'settings'").fetchone()
            if row != (mark,):
                connection.execute("INSERT OR REPLACE INTO counters VALUES ('settings', ?)", (mark,))
                connection.execute("UPDATE artifacts SET failures = 0, retry_at = NULL WHERE retry_at IS NOT NULL")
                connection.execute(
                    "UPDATE artifacts SET settings = NULL WHERE evidence_id IN"
                    " (SELECT evidence_id FROM evidence WHERE verdict <> 'sound')"
                )
                connection.execute("UPDATE sets SET state = '' WHERE verdict <> 'sound'")

        self._change(begin)

    # --- evidence ----------------------------------------------------------------------------------------

    def record(self, entry: Entry) -> int:
        """Store a record, its link in the chain, what is known of its artifact and its alerts; the sequence number."""
        kept = divide(encoded(entry.evidence))
        return self._change(lambda connection: statements.record(connection, entry, kept))

    def unlogged(self, after: int = 0) -> Iterator[Unlogged]:
        """The records after sequence number ``after`` that are not known to stand in the log, in order.

        A damaged one is no error here: it has no line, and must not keep the others from theirs.
        """
        for sequence, _, found in self._following("logged = 0", (), after):
            yield Unlogged(sequence, None if isinstance(found, RecordError) else found)

    def mark_logged(self, last: int) -> None:
        """The lines of all records up to sequence number ``last`` are on the disk."""
        self._change(
            lambda connection: connection.execute(
                "UPDATE evidence SET logged = 1 WHERE logged = 0 AND sequence <= ?", (last,)
            )
        )

    def evidence(self, evidence_id: str) -> Evidence | None:
        """The complete record of this id."""
        return next((item.evidence for item in self._stored("evidence_id = ?", (evidence_id,), 0)), None)

    def records(self, path: bytes | None = None) -> Iterator[Stored]:
        """All records, or those of one path, in the order of recording."""
        return self._stored("1", (), 0) if path is None else self._stored("path = ?", (path,), 0)

    def earlier(self, path: bytes, seen: Fingerprint) -> Earlier:
        """The records that a look at the artifact in the state ``seen`` is held against. Device numbers do not count."""
        state = seen.text().partition(" ")[2]

        def read(connection: sqlite3.Connection) -> dict[str, tuple[int, bytes | None]]:
            found: dict[str, tuple[int, bytes | None]] = {}
            for role, condition in _EARLIER.items():
                row = connection.execute(
                    "SELECT sequence, record, place, rows FROM evidence"  # noqa: S608 - constants of this module
                    f" WHERE path = ? AND final = 1 AND imported = 0 AND {condition} LIMIT 1",
                    (path, state),
                ).fetchone()
                if row is not None:
                    found[role] = (row[0], _content(connection, row[1:]))
            return found

        found = self._call(read)
        # Outside of the lock, and each record once: it is often the same.
        seen_by = {sequence: _seen(content) for sequence, content in set(found.values())}
        return Earlier(**{role: seen_by[sequence] for role, (sequence, _) in found.items()})

    def _stored(self, where: str, values: tuple[object, ...], after: int) -> Iterator[Stored]:
        for sequence, path, found in self._following(where, values, after):
            if isinstance(found, RecordError):
                raise StoreError(f"{printable(self.path)}: record {sequence} is damaged: {found}") from found
            yield Stored(sequence, path, found)

    def _following(
        self, where: str, values: tuple[object, ...], after: int
    ) -> Iterator[tuple[int, bytes, Evidence | RecordError]]:
        """One at a time: a record may be large, and others may come while it is looked at."""

        def following(connection: sqlite3.Connection) -> tuple[int, bytes, Evidence | RecordError] | None:
            row = connection.execute(
                f"SELECT sequence, path, record, place, rows FROM evidence WHERE {where} AND sequence > ?"  # noqa: S608
                " ORDER BY sequence LIMIT 1",
                (*values, after),
            ).fetchone()
            if row is None:
                return None
            try:
                return row[0], row[1], decode(statements.content(connection, row[2:]))
            except RecordError as error:
                return row[0], row[1], error

        while item := self._call(following):
            yield item
            after = item[0]

    def prune(self, before: float, after: int = 0) -> pruning.Pruned:
        """Take away some of the records older than ``before`` (wall-clock seconds) that nothing needs.

        Beginning after sequence number ``after``; see :mod:`auditd.evidence_store.pruning` for what is kept.
        """
        return self._change(lambda connection: pruning.prune(connection, before, after))

    def links(self) -> Iterator[tuple[int, str, bytes]]:
        """The chain: sequence number, evidence id, value."""

        def page(connection: sqlite3.Connection, last: int) -> list[tuple[int, str, bytes]]:
            return connection.execute(
                "SELECT sequence, evidence_id, value FROM chain WHERE sequence > ? ORDER BY sequence LIMIT ?",
                (last, _PAGE),
            ).fetchall()

        return self._pages(page, 0)

    # --- artifacts ---------------------------------------------------------------------------------------

    def known(self, path: bytes) -> ArtifactState | None:
        """What is known of an artifact; None if nothing."""
        return self.known_of([path]).get(path)

    def known_of(self, paths: Sequence[bytes]) -> dict[bytes, ArtifactState]:
        """What is known of each of some hundred artifacts in one question; those of which nothing is are left out."""
        return self._call(lambda connection: statements.known_of(connection, paths))

    def remember(self, path: bytes, known: ArtifactState) -> None:
        """Replace what is known of an artifact, without a record."""
        self._change(lambda connection: statements.remember(connection, path, known))

    def artifacts(self, directory: bytes) -> Iterator[bytes]:
        """The paths of the artifacts known below ``directory``, in byte order."""
        return self._paths("artifacts", directory)

    def sniffed(self, directory: bytes) -> Iterator[bytes]:
        """The paths of the files below ``directory`` whose first bytes are known, in byte order."""
        return self._paths("sniffs", directory)

    def _paths(self, table: str, directory: bytes) -> Iterator[bytes]:
        first, end = below(directory)

        def page(connection: sqlite3.Connection, last: bytes) -> list[tuple[bytes]]:
            return connection.execute(
                f"SELECT path FROM {table} WHERE path > ? AND path < ? ORDER BY path LIMIT ?",  # noqa: S608
                (last, end, _PAGE),
            ).fetchall()

        return (path for (path,) in self._pages(page, first))

    def forget(self, path: bytes, alerts: Iterable[Alert] = ()) -> None:
        """An artifact is gone: forget its state (its evidence stays) and store its alerts, cleared."""

        def forget(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM artifacts WHERE path = ?", (path,))
            connection.execute("DELETE FROM sniffs WHERE path = ?", (path,))
            for alert in alerts:
                statements.put_alert(connection, alert)

        self._change(forget)

    # --- sets --------------------------------------------------------------------------------------------

    def set_state(self, name: bytes) -> str | None:
        """What was found of a set when it was last judged; None if it is not known."""
        return self._call(lambda connection: set_records.state_of(connection, name))

    def record_set(self, entry: SetEntry) -> None:
        """Store the record of a set and its alerts."""
        self._change(lambda connection: set_records.record(connection, entry))

    def sets_at(self, place: bytes) -> list[bytes]:
        """The names of the sets that are known of a place."""
        return self._call(lambda connection: set_records.names_at(connection, place))

    def set_places(self, directory: bytes) -> list[bytes]:
        """The places at and below ``directory`` of which sets are known."""
        return self._call(lambda connection: set_records.places(connection, directory, *below(directory)))

    def forget_set(self, name: bytes, alerts: Iterable[Alert]) -> None:
        """A set is gone: store its alerts, cleared."""
        self._change(lambda connection: set_records.forget(connection, name, alerts))

    def unlogged_sets(self) -> list[SetEvidence]:
        """The records of sets whose lines are not known to stand in the log."""
        return self._call(set_records.unlogged)

    def mark_sets_logged(self, evidence_ids: Iterable[str]) -> None:
        """The lines of these records are written."""
        self._change(lambda connection: set_records.mark_logged(connection, evidence_ids))

    def count_sets(self) -> dict[str, int]:
        """How many sets have which verdict."""
        return self._call(set_records.counts)

    # --- scrub -------------------------------------------------------------------------------------------

    def scrub_amount(self, roots: Sequence[bytes]) -> tuple[int, int]:
        """How many artifacts there are to hash below ``roots``, and their bytes. Takes as long as there are artifacts."""
        return self._call(lambda connection: scrubbing.amount(connection, roots))

    def due_item(
        self, now: float, roots: Sequence[bytes], aside: Sequence[bytes] = (), *, may_begin: bool = True
    ) -> DueItem:
        """Where the re-hash of everything below ``roots`` stands at ``now`` (wall-clock seconds).

        Some hundred paths ``aside`` are left out. Where no pass is under way and one ``may_begin``, it does.
        """
        return self._change(lambda connection: scrubbing.turn(connection, now, roots, aside, may_begin=may_begin))

    def scrub_left(self, begun: float, roots: Sequence[bytes]) -> int:
        """How many artifacts below ``roots`` the pass that began at ``begun`` did not come to."""
        return self._call(lambda connection: scrubbing.left_out(connection, begun, roots))

    def begin_scrub(self, now: float) -> None:
        """A pass over everything begins."""
        self._change(lambda connection: scrubbing.begin(connection, now))

    def put_scrub_off(self, moment: float) -> None:
        """The next artifact has its turn at ``moment``."""
        self._change(lambda connection: scrubbing.put_off(connection, moment))

    # --- first bytes -------------------------------------------------------------------------------------

    def sniff(self, path: bytes, seen: Fingerprint) -> bool | None:
        """Whether the file in this state is known to begin like a model; None if it was not looked at.

        An artifact that is known stays one: a model that was overwritten with zeros is a loss, not an odd file.
        """

        def is_known_model(connection: sqlite3.Connection) -> bool | None:
            if connection.execute("SELECT 1 FROM artifacts WHERE path = ?", (path,)).fetchone():
                return True
            row = connection.execute("SELECT identity, model FROM sniffs WHERE path = ?", (path,)).fetchone()
            return bool(row[1]) if row is not None and row[0] == seen.text() else None

        return self._call(is_known_model)

    def remember_sniffs(self, sniffs: Iterable[tuple[bytes, Fingerprint, bool]]) -> None:
        """Remember what the first bytes of files said."""
        rows = [(path, seen.text(), int(model)) for path, seen, model in sniffs]
        self._change(lambda connection: connection.executemany("INSERT OR REPLACE INTO sniffs VALUES (?, ?, ?)", rows))

    def forget_sniffs(self, paths: Iterable[bytes]) -> None:
        """Files whose first bytes were known are gone."""
        rows = [(path,) for path in paths]
        if rows:
            self._change(lambda connection: connection.executemany("DELETE FROM sniffs WHERE path = ?", rows))

    # --- alerts ------------------------------------------------------------------------------------------

    def open_alerts(self, path: bytes) -> list[Alert]:
        """The open alerts of one artifact."""
        return self._alerts("path = ? AND cleared_at IS NULL", path)

    def alerts_below(self, directory: bytes, code: str) -> list[Alert]:
        """The open alerts of one code below a directory; the first few thousand."""
        first, end = below(directory)
        return self._alerts(
            f"cleared_at IS NULL AND code = ? AND path > ? AND path < ? LIMIT {_MANY_ALERTS}", code, first, end
        )

    def same_inode(self, path: bytes, seen: Fingerprint) -> Iterator[bytes]:
        """Other artifacts that were seen with this device and inode: perhaps the same file under another name."""
        stem = f"{seen.device} {seen.inode}"
        rows = self._call(
            lambda connection: connection.execute(
                "SELECT path FROM artifacts WHERE identity > ? AND identity < ? AND path <> ? LIMIT 8",
                (f"{stem} ", f"{stem}!", path),
            ).fetchall()
        )
        return (bytes(other) for (other,) in rows)

    def all_open_alerts(self, after: int = 0) -> Iterator[Alert]:
        """All open alerts in the order in which they were raised."""
        while page := self._alerts(f"cleared_at IS NULL AND alert_id > ? ORDER BY alert_id LIMIT {_PAGE}", after):
            yield from page
            after = page[-1].alert_id or 0

    def untold_alerts(self) -> list[Alert]:
        """The alerts with an event that was committed and is not known to have been said, in order."""
        return self._alerts(f"untold IS NOT NULL ORDER BY alert_id LIMIT {_PAGE}")

    def alerts_told_before(self, moment: float, now: float = math.inf) -> list[Alert]:
        """Open alerts that were last told before ``moment``, or after ``now`` by a clock that has been set back since.

        Both in wall-clock seconds.
        """
        return self._alerts(
            f"cleared_at IS NULL AND (told_at < ? OR told_at > ?) ORDER BY alert_id LIMIT {_PAGE}", moment, now
        )

    def put_alerts(self, alerts: Iterable[Alert]) -> None:
        """Store alerts that changed without a new record."""

        def put(connection: sqlite3.Connection) -> None:
            for alert in alerts:
                statements.put_alert(connection, alert)

        self._change(put)

    def mark_told(self, alerts: Iterable[Alert]) -> None:
        """The events of these alerts, as they were read, have been said; one that changed since has another to say."""
        rows = [(alert.alert_id, alert.untold, alert.evidence_id) for alert in alerts]
        self._change(
            lambda connection: connection.executemany(
                "UPDATE alerts SET untold = NULL WHERE alert_id = ? AND untold = ? AND evidence_id = ?", rows
            )
        )

    def count_open_alerts(self) -> dict[tuple[str, str], int]:
        """How many alerts are open, by code and severity."""
        rows = self._call(
            lambda connection: connection.execute(
                "SELECT code, severity, count(*) FROM alerts WHERE cleared_at IS NULL GROUP BY code, severity"
            ).fetchall()
        )
        return {(code, severity): count for code, severity, count in rows}

    def _alerts(self, where: str, *values: object) -> list[Alert]:
        rows = self._call(
            lambda connection: connection.execute(
                f"SELECT {statements.ALERT_COLUMNS} FROM alerts WHERE {where}",  # noqa: S608 (the callers above, no input)
                values,
            ).fetchall()
        )
        return [statements.alert(row) for row in rows]
