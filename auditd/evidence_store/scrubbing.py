"""Where the re-hash of everything stands: the statements for :class:`auditd.evidence_store.store.EvidenceStore`."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from typing import Final

from auditd.evidence_store.artifact_state import Fingerprint
from auditd.evidence_store.entities import DueItem

_BEGUN: Final = "scrub_begun"
_NEXT: Final = "scrub_next"

#: Moments are kept in thousandths.
_ROUNDING_SECONDS: Final = 0.001

#: Who may have a turn. One whose last try came to nothing has its own delay.
_MAY: Final = "identity IS NOT NULL AND (retry_at IS NULL OR retry_at <= ?) AND ({below}) AND path NOT IN ({aside})"
#: What waits longest.
_OLDEST: Final = f"SELECT path, identity, waits_since FROM artifacts WHERE {_MAY} ORDER BY waits_since LIMIT 1"  # noqa: S608 - constants
#: Waiting by a clock that has been set back since: nobody knows how long.
_FUTURE: Final = f"SELECT path, identity, NULL FROM artifacts WHERE {_MAY} AND waits_since > ? LIMIT 1"  # noqa: S608
_LEFT: Final = "SELECT count(*) FROM artifacts WHERE identity IS NOT NULL AND ({below}) AND waits_since <= ?"
_ALL: Final = "SELECT identity FROM artifacts WHERE identity IS NOT NULL AND ({below})"


def _below(roots: Sequence[bytes]) -> tuple[str, list[bytes]]:
    """A condition for paths below one of ``roots``, with its values: ``0`` is the byte after ``/``."""
    stems = [root.rstrip(b"/") for root in roots]
    condition = " OR ".join("path > ? AND path < ?" for _ in stems) or "0"
    return condition, [end for stem in stems for end in (stem + b"/", stem + b"0")]


def amount(connection: sqlite3.Connection, roots: Sequence[bytes]) -> tuple[int, int]:
    """How many artifacts are known below ``roots``, and their bytes: every row is looked at."""
    below, ends = _below(roots)
    artifacts = total = 0
    for (identity,) in connection.execute(_ALL.format(below=below), ends):
        artifacts += 1
        total += max(0, Fingerprint.parse(identity).size)
    return artifacts, total


def left_out(connection: sqlite3.Connection, begun: float, roots: Sequence[bytes]) -> int:
    """How many artifacts below ``roots`` a pass that began at ``begun`` did not come to: out of sight, or failing."""
    below, ends = _below(roots)
    return int(connection.execute(_LEFT.format(below=below), (*ends, begun)).fetchone()[0])


def turn(
    connection: sqlite3.Connection, now: float, roots: Sequence[bytes], aside: Sequence[bytes], *, may_begin: bool
) -> DueItem:
    """Whose turn it is below ``roots`` at ``now`` (wall-clock seconds), the paths ``aside`` left out.

    Where no pass is under way and one ``may_begin``, it does.
    """
    path, identity, waits_since = _next(connection, now, roots, aside)
    begun, next_at = _counter(connection, _BEGUN), _counter(connection, _NEXT) or 0.0
    if begun is not None and begun > now + _ROUNDING_SECONDS:
        begun = None
    if begun is None and may_begin:
        begin(connection, now)
    # What was hashed in the very moment of the begin may have been hashed before it.
    done = begun is not None and waits_since is not None and waits_since > begun
    return DueItem(path, identity, waits_since, next_at, begun if done else None)


def _next(
    connection: sqlite3.Connection, now: float, roots: Sequence[bytes], aside: Sequence[bytes]
) -> tuple[bytes | None, str | None, float | None]:
    below, ends = _below(roots)
    words = {"below": below, "aside": ", ".join("?" * len(aside))}
    oldest = connection.execute(_OLDEST.format(**words), (now, *ends, *aside)).fetchone()
    if oldest is not None and oldest[2] is not None:
        oldest = connection.execute(_FUTURE.format(**words), (now, *ends, *aside, now)).fetchone() or oldest
    return oldest or (None, None, None)


def begin(connection: sqlite3.Connection, now: float) -> None:
    """A pass over everything begins."""
    # Rounded up: what was hashed before stays before.
    _put(connection, _BEGUN, math.ceil(now * 1000))


def put_off(connection: sqlite3.Connection, moment: float) -> None:
    """The next artifact has its turn at ``moment``."""
    # Rounded down: a wait of the whole period would be taken for one by a wrong clock.
    _put(connection, _NEXT, math.floor(moment * 1000))


def _counter(connection: sqlite3.Connection, name: str) -> float | None:
    row = connection.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0] / 1000


def _put(connection: sqlite3.Connection, name: str, thousandths: int) -> None:
    connection.execute("INSERT OR REPLACE INTO counters VALUES (?, ?)", (name, thousandths))
