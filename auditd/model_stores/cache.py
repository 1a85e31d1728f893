"""What was read of stores once and need not be read again: bounded, and checked against what it was read from.

A reading tells its :class:`Dependencies` every file and directory that it depends on, before it reads it. It is taken again
when any of these changed. Up to :data:`CHECKED_EACH_TIME` of them are checked at every use, so a change is seen at the
next one; of more than that, all are checked once a second at most and for a twentieth of the time at most, or else a
store of ten thousand manifests would cost ten thousand looks for each of its blobs. :meth:`ReadCache.refresh` has
everything checked at its next use. Whoever asks for a whole tree may trust a check for a moment.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from auditd.model_stores.files import Checkpoint, Signature, carry_on, signature_of, status_of

V = TypeVar("V")

CHECKED_EACH_TIME: Final = 256
CHECK_SECONDS: Final = 1.0
CHECK_SHARE: Final = 1 / 20

#: A file that changed this short before it was read can change again without a new ctime: the clock of most file
#: systems ticks every few milliseconds.
YOUNG_NS: Final = 100_000_000

#: Readings, and the items in all of them together (a manifest's layer, a link, a line). An item weighs some
#: hundred bytes, so this is some tens of megabytes.
READINGS: Final = 1024
ITEMS: Final = 300_000


class Dependencies:
    """What one reading depends on, and how many items it holds. ``checkpoint`` is to be called before every piece."""

    __slots__ = ("_newest_ns", "checkpoint", "items", "signatures")

    def __init__(self, checkpoint: Checkpoint = carry_on) -> None:
        self.checkpoint = checkpoint
        self.signatures: dict[bytes, Signature | None] = {}
        self.items = 1
        self._newest_ns = 0

    def add(self, path: bytes) -> Signature | None:
        """Depend on ``path``, there or not; its signature. To be called before it is read."""
        self.checkpoint()
        status = status_of(path)
        signature = self.signatures[path] = signature_of(status)
        if status is not None:
            self._newest_ns = max(self._newest_ns, status.st_ctime_ns)
        self.items += 1
        return signature

    def add_directory(self, path: bytes) -> Signature | None:
        """Depend on the names in a directory; where ``path`` is a link, in the one that stands behind it."""
        return self.add(os.path.join(path, b""))

    def is_young(self, now_ns: int) -> bool:
        """Whether something had just changed. A time in the future is a clock that is wrong, not a change."""
        return 0 <= now_ns - self._newest_ns < YOUNG_NS

    def holds(self) -> bool:
        """Whether everything is as it was."""
        return all(signature_of(status_of(path)) == old for path, old in self.signatures.items())


@dataclass(slots=True)
class _Reading:
    value: Any
    watch: Dependencies
    young: bool
    #: By the monotonic clock, in seconds: before this a large reading is not checked again.
    check_at: float = float("-inf")
    checked_at: float = float("-inf")

    def is_current(self, trust_seconds: float) -> bool:
        """Whether the value still stands, as far as it is checked now."""
        if self.young:
            return False
        began = time.monotonic()
        if began - self.checked_at < trust_seconds:
            return True
        if began < self.check_at and len(self.watch.signatures) > CHECKED_EACH_TIME:
            return True
        holds = self.watch.holds()
        self.postpone(time.monotonic() - began)
        return holds

    def postpone(self, took: float) -> None:
        """The next check, after one that took so many seconds."""
        self.checked_at = time.monotonic()
        self.check_at = time.monotonic() + max(CHECK_SECONDS, took / CHECK_SHARE)


class ReadCache:
    """The readings of one process, for one thread; the least recently used go first.

    A reading that its ``checkpoint`` stops is not kept. What was checked less than ``trust_seconds`` ago stands.
    """

    def __init__(self, trust_seconds: float = 0.0) -> None:
        self._trust_seconds = trust_seconds
        self.checkpoint: Checkpoint = carry_on
        self._readings: OrderedDict[tuple[str, bytes], _Reading] = OrderedDict()
        self._items = 0

    def recall(self, kind: str, path: bytes, read: Callable[[Dependencies], V]) -> V:
        """The value that ``read`` gave for ``path``, or gives now if what it depends on has changed."""
        key = kind, path
        reading = self._readings.get(key)
        if reading is not None and reading.is_current(self._trust_seconds):
            self._readings.move_to_end(key)
            return reading.value  # type: ignore[no-any-return]  # one kind of reading has one type
        self._forget(key)
        watch = Dependencies(self.checkpoint)
        began_ns = time.time_ns()
        value = read(watch)
        reading = _Reading(value, watch, watch.is_young(began_ns))
        reading.postpone(0.0)
        self._keep(key, reading)
        return value

    def refresh(self) -> None:
        """Have every reading checked at its next use."""
        for reading in self._readings.values():
            reading.check_at = reading.checked_at = float("-inf")

    def _keep(self, key: tuple[str, bytes], reading: _Reading) -> None:
        self._readings[key] = reading
        self._items += reading.watch.items
        while len(self._readings) > READINGS or (self._items > ITEMS and len(self._readings) > 1):
            self._forget(next(iter(self._readings)))

    def _forget(self, key: tuple[str, bytes]) -> None:
        reading = self._readings.pop(key, None)
        if reading is not None:
            self._items -= reading.watch.items
