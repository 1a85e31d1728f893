"""A kernel watch that can be told what to lose: reports of changes reach the daemon in time, late or never."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from unittest.mock import patch

import trio
from watchfiles import Change

from auditd.service.bell import Bell
from auditd.service.watching import arming, watcher
from auditd.service.watching.listening import Changes, Ear, Listener

#: Of all reports: how many never come, how many come late, and how late at most (virtual seconds).
_LOST: Final = 0.1
_LATE: Final = 0.1
_LATEST_SECONDS: Final = 40.0

#: How often a watch is said to be broken, of all reports.
_BROKEN: Final = 0.002


class SoftEar:
    """One watch over directories, as :class:`auditd.service.watching.listening.Ear` is; nothing in it blocks."""

    def __init__(self, kernel: Kernel, paths: list[str]) -> None:
        for path in paths:
            os.scandir(path).close()
        self.directories = frozenset(paths)
        self.bell = Bell()
        self.is_ending = False
        self.heard: Changes = set()
        self.broken = False
        self._kernel = kernel
        kernel.ears[id(self)] = self

    def end(self) -> None:
        self.is_ending = True
        self.bell.ring()

    def close(self) -> None:
        self._kernel.ears.pop(id(self), None)

    def take(self) -> Changes:
        heard, self.heard = self.heard, set()
        return heard


class _SoftListener(Listener):
    """Follows a :class:`SoftEar` without a thread, which would never come back while nothing happens."""

    async def follow(self, ear: Ear) -> None:
        assert isinstance(ear, SoftEar)
        try:
            while not ear.is_ending and not ear.broken:
                await ear.bell.wait()
                self._gather(ear.take(), 0.0)
            if ear.broken:
                self._lose("the watch broke")
        finally:
            ear.close()


@dataclass(slots=True)
class Kernel:
    """All watches. ``faithful`` kernels lose nothing."""

    random: random.Random
    faithful: bool = False
    ears: dict[int, SoftEar] = field(default_factory=dict)
    reported: int = 0
    lost: int = 0
    _late: list[tuple[float, int, str]] = field(default_factory=list)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the daemon listen to this kernel."""
        with (
            patch.object(arming, "Ear", lambda paths: SoftEar(self, paths)),
            patch.object(watcher, "Listener", _SoftListener),
        ):
            yield

    def report(self, change: Change, path: str) -> None:
        """Something changed at ``path``."""
        self.reported += 1
        chance = 1.0 if self.faithful else self.random.random()
        if chance < _LOST:
            self.lost += 1
        elif chance < _LOST + _LATE:
            self._late.append((trio.current_time() + self.random.uniform(0, _LATEST_SECONDS), int(change), path))
        else:
            self._deliver(int(change), path)
        if chance > 1 - _BROKEN and not self.faithful:
            self._break()

    def _break(self) -> None:
        for ear in list(self.ears.values()):
            ear.broken = True
            ear.bell.ring()

    def _deliver(self, change: int, path: str) -> None:
        directory = os.path.dirname(path)
        for ear in list(self.ears.values()):
            if directory in ear.directories or path in ear.directories:
                ear.heard.add((change, path))
                ear.bell.ring()

    def deliver_late(self) -> None:
        """Report what was held back and whose time has come."""
        now = trio.current_time()
        due = [each for each in self._late if each[0] <= now]
        self._late = [each for each in self._late if each[0] > now]
        for _, change, path in due:
            self._deliver(change, path)
