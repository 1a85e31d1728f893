"""One root's keeper, with real files, a real store and real events; what it says and offers is kept.

Run as a program it is a process of its own, to be stopped or to have limits of its own: it prints what it says.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trio

from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint
from auditd.evidence_store.store import EvidenceStore
from auditd.service.reading.board import RootBoard
from auditd.service.watching.scanner import Offer, Scanner
from auditd.service.watching.watcher import RootKeeper
from auditd.settings import Root, ScheduleSettings

#: It bounds a test that would never end.
HARD_LIMIT_SECONDS = 30.0

_NOBODY = 65534

Event = dict[str, Any]


class Keeping:
    """A keeper of ``home/models``. ``offered`` are the paths below it that it wants looked at, as often as it does."""

    def __init__(self, home: Path, *, rescan_seconds: float = 3600, poll_seconds: float = 0.2, **root: Any) -> None:
        self.models = home / "models"
        self.models.mkdir(exist_ok=True)
        self.events: list[Event] = []
        self.offered: list[str] = []
        self.removed: list[str] = []
        self.board = RootBoard(os.fsencode(self.models))
        self.store = EvidenceStore(str(home / "store.sqlite"), writer=True)
        self._schedule = ScheduleSettings(rescan_seconds=rescan_seconds, poll_seconds=poll_seconds)
        self._root = Root(str(self.models), **root)
        #: Has the keeper scan, once it lives.
        self.rescan: Callable[[], None]
        self._bell = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None

    # --- what the keeper calls ---------------------------------------------------------------------------

    def info(self, event: str, **fields: Any) -> None:
        self._say("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._say("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._say("error", event, fields)

    def _say(self, level: str, event: str, fields: Event) -> None:
        self.events.append({"event": event, "level": level, **fields})
        self._ring()

    def _offer(self, batch: list[Offer]) -> None:
        self.offered += [os.fsdecode(os.path.relpath(offer.job.path, os.fsencode(self.models))) for offer in batch]
        self._ring()

    def _removed(self, path: bytes, _: object) -> None:
        self.removed.append(os.fsdecode(path))
        self._ring()

    def _ring(self) -> None:
        """From either thread."""
        assert self._token is not None
        self._token.run_sync_soon(self._wake)

    def _wake(self) -> None:
        self._bell.set()
        self._bell = trio.Event()

    # --- what a test asks --------------------------------------------------------------------------------

    def named(self, *names: str) -> list[Event]:
        return [event for event in self.events if event["event"] in names]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something that the keeper did makes it so."""
        with trio.fail_after(HARD_LIMIT_SECONDS):
            while not condition():
                await self._bell.wait()

    async def has_offered(self, *paths: str) -> None:
        await self.until(lambda: set(paths) <= set(self.offered))

    async def has_said(self, name: str, times: int = 1) -> Event:
        await self.until(lambda: len(self.named(name)) >= times)
        return self.named(name)[times - 1]

    async def is_watched(self) -> None:
        """Wait until the root was armed and scanned."""
        await self.has_said("root_armed")

    def know(self, path: Path) -> None:
        """Have the store know ``path`` as it is now, as after an inspection."""
        self.store.remember(
            os.fsencode(path), ArtifactState(fingerprint=Fingerprint.of_status(path.stat()), run=self.store.run)
        )

    # --- its life ----------------------------------------------------------------------------------------

    def _keeper(self) -> RootKeeper:
        scanner = Scanner(
            index=0,
            root=self._root,
            mode="header",
            configuration="c" * 64,
            store=self.store,
            offer=self._offer,
            removed=self._removed,
        )
        return RootKeeper(
            scanner=scanner,
            schedule=self._schedule,
            board=self.board,
            events=self,
            store_failed=lambda reason: self.warning("store_failed", reason=reason),
            after_scan=trio.lowlevel.checkpoint,
            changed=self._wake,
        )

    async def live(self, nursery: trio.Nursery) -> None:
        """Begin; whoever opened the nursery cancels it."""
        self._token = trio.lowlevel.current_trio_token()
        keeper = self._keeper()
        self.rescan = keeper.rescan
        nursery.start_soon(keeper.run)
        with trio.fail_after(HARD_LIMIT_SECONDS):
            await keeper.initial_scan_done.wait()


@asynccontextmanager
async def kept(home: Path, **settings: Any) -> AsyncIterator[Keeping]:
    """A root that is watched, with what a test put into it before."""
    keeping = Keeping(home, **settings)
    try:
        async with trio.open_nursery() as nursery:
            await keeping.live(nursery)
            try:
                yield keeping
            finally:
                nursery.cancel_scope.cancel()
    finally:
        keeping.store.close()


@contextmanager
def home_of_nobody() -> Iterator[Path]:
    """A new directory, and no privilege of reading what is closed: another user where this one is root."""
    with TemporaryDirectory() as name:
        if os.geteuid() != 0:
            yield Path(name)
            return
        os.chown(name, _NOBODY, _NOBODY)
        os.seteuid(_NOBODY)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)


def _print(event: Event) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class _Printing(Keeping):
    def _say(self, level: str, event: str, fields: Event) -> None:
        super()._say(level, event, fields)
        _print(self.events[-1])

    def _offer(self, batch: list[Offer]) -> None:
        known = len(self.offered)
        super()._offer(batch)
        for path in self.offered[known:]:
            _print({"event": "offered", "path": path})


async def _serve(home: Path, poll_seconds: float) -> None:
    async with trio.open_nursery() as nursery:
        await _Printing(home, poll_seconds=poll_seconds).live(nursery)


if __name__ == "__main__":
    trio.run(_serve, Path(sys.argv[1]), float(sys.argv[2]))
