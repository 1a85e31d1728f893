"""``python -m tests.crash --kills N``: a daemon is killed at random while files arrive, change and go, and starts again.

After each kill what it left behind has to be whole, with everything in it that was ever said; an alert event is said a
second time only if the kill came before it was marked as said. At the end the last daemon comes to know every file as
it is. ``AssertionError`` if not.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from auditd.evidence_store.connection import reading
from auditd.evidence_store.verifying import Tally, verify
from tests.service.processes import Daemon, House, houses
from tests.support.models import gguf
from tests.support.wreckage import ALERT_EVENTS, Event, Kept, Told, kept, lines, told

#: Content of a file, and the code of the one alert that it is worth.
CONTENTS: Final[tuple[tuple[bytes, str | None], ...]] = (
    (gguf(), None),
    (gguf(tensors=3), None),
    (gguf(tail=bytes(100)), "unowned_bytes"),
    (gguf(tensors=2, tail=bytes(7)), "unowned_bytes"),
    (gguf(cut=10), "tensor_bytes_missing"),
    (b"no model at all", "not_a_model"),
)
_NAMES: Final = ("a.gguf", "b.gguf", "c.gguf", "deep/d.gguf", "deep/down/e.gguf", "deep/f.gguf")

#: System calls before which the kill can come, that change something that lasts.
_CALLS: Final = ("pwrite64", "fdatasync", "write", "ftruncate", "unlink", "rename")
_LONGEST_LIFE_SECONDS: Final = 1.0
_MOST_EVENTS: Final = 12
_MOST_CALLS: Final = 40


@dataclass
class Models:
    """The files, and which alert each of them is worth by now."""

    directory: Path
    chance: random.Random
    worth: dict[str, str | None] = field(default_factory=dict)

    def change(self) -> None:
        """One file arrives, changes or goes."""
        path = self.directory / self.chance.choice(_NAMES)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.chance.choice((self._write, self._write, self._replace, self._replace, self._remove, self._clear))(path)

    def _write(self, path: Path) -> None:
        content, self.worth[str(path)] = self.chance.choice(CONTENTS)
        path.write_bytes(content)

    def _replace(self, path: Path) -> None:
        content, self.worth[str(path)] = self.chance.choice(CONTENTS)
        temporary = path.with_name(path.name + ".part")
        temporary.write_bytes(content)
        temporary.replace(path)

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self.worth.pop(str(path), None)

    def _clear(self, path: Path) -> None:
        """Its directory goes with everything in it; of the root, only the file."""
        if path.parent == self.directory:
            self._remove(path)
            return
        shutil.rmtree(path.parent)
        for name in [name for name in self.worth if name.startswith(f"{path.parent}/")]:
            del self.worth[name]

    @property
    def alerts(self) -> set[tuple[str, str]]:
        """Path and code of what has to be open when all was looked at."""
        return {(path, code) for path, code in self.worth.items() if code is not None}


@dataclass
class Crashes:
    """A house whose daemon is killed, and what was seen of it so far."""

    house: House
    chance: random.Random
    kills: int = 0
    repeats: int = 0
    before: Kept = field(default_factory=Kept)
    said: Counter[Told] = field(default_factory=Counter)
    #: What each daemon said.
    lives: list[list[Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.house.configure(schedule="rescan_seconds = 1")
        self.models = Models(self.house.models, self.chance)

    # --- the ways to die -----------------------------------------------------------------------------------

    def kill(self, how: Callable[[], Daemon]) -> None:
        """One life, its end, and what is left."""
        daemon = how()
        daemon.process.kill()
        while following(daemon) is not None:
            pass
        daemon.process.wait()
        self.house.close()
        self.house.running.clear()
        self.kills += 1
        self.check(daemon.events)

    def after_a_while(self) -> Daemon:
        """At any moment, the start of the interpreter among them."""
        daemon = self.house.start()
        end = time.monotonic() + self.chance.uniform(0.0, _LONGEST_LIFE_SECONDS)
        while (left := end - time.monotonic()) > 0:
            self.models.change()
            time.sleep(min(left, self.chance.uniform(0.0, 0.1)))
        return daemon

    def after_an_event(self) -> Daemon:
        """As soon as something is said: what follows it may not have happened."""
        daemon = self.house.start()
        for _ in range(self.chance.randrange(1, _MOST_EVENTS)):
            if self.chance.random() < 0.5:
                self.models.change()
            if following(daemon) is None:
                break
        return daemon

    def before_a_call(self) -> Daemon:
        """Just before the daemon, or one of its threads, changes something on the disk."""
        for _ in range(4):
            self.models.change()
        call, turn = self.chance.choice(_CALLS), self.chance.randrange(1, _MOST_CALLS)
        daemon = self.house.start()
        tracer = subprocess.Popen(
            [
                "strace",
                "-f",
                "-qqq",
                "-o",
                "/dev/null",
                "-p",
                str(daemon.process.pid),
                "-e",
                f"trace={call}",
                "-e",
                f"inject={call}:signal=KILL:when={turn}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            # Some turns never come; what follows the first scan is late enough.
            while (event := following(daemon)) is not None and event["event"] != "scan_finished":
                pass
            for _ in range(6):
                if event is None or (event := following(daemon)) is None:
                    break
                self.models.change()
        finally:
            daemon.process.kill()
            tracer.kill()
            tracer.wait()
        return daemon

    def ways(self) -> list[Callable[[], Daemon]]:
        """Those that there are here."""
        traced = [self.before_a_call] if shutil.which("strace") else []
        return [self.after_a_while, self.after_an_event, *traced]

    # --- what has to hold ----------------------------------------------------------------------------------

    def check(self, events: list[Event]) -> None:
        """What was left is whole, has all that it had and all that was said, and nothing is said twice for nothing."""
        now = kept(self.house.store)
        assert now.records[: len(self.before.records)] == self.before.records
        if self.house.store.exists() and now != Kept():
            with reading(str(self.house.store)) as connection:
                assert list(verify(connection, Tally())) == []
        self._check_said(events, now)
        written = lines(self.house.log)
        assert set(written.counts) <= set(now.records)
        assert written.torn <= self.kills
        left = [path.name for path in self.house.store.parent.iterdir()] if self.house.store.parent.exists() else []
        assert len(left) <= 7, left
        self.before = now

    def _check_said(self, events: list[Event], now: Kept) -> None:
        looked_at = {event["evidence_id"] for event in events if event["event"] == "inspection_finished"}
        assert looked_at <= set(now.records)
        here = Counter(told(event) for event in events if event["event"] in ALERT_EVENTS)
        assert all(count == 1 for count in here.values()), here
        repeated = {each for each in here if each in self.said}
        self.lives.append(events)
        assert repeated <= self.before.untold, self.story(repeated - self.before.untold)
        self.repeats += len(repeated)
        self.said.update(here)

    def story(self, wrong: set[Told]) -> str:
        """All that was ever said of the files of some events."""
        paths = {each.path for each in wrong}
        told = [
            f"life {number}: {event}"
            for number, events in enumerate(self.lives)
            for event in events
            if event.get("path") in paths
        ]
        return "\n".join([f"said without need: {wrong}", *told])

    def finish(self) -> None:
        """The last life knows every file as it is, raises what has to be raised and ends in peace."""
        daemon = self.house.start()
        while not self._is_settled():
            assert following(daemon) is not None, daemon.errors()
        assert daemon.stop() == 0
        self.check(daemon.events)
        last, written = self.before, lines(self.house.log)
        assert not last.untold
        assert set(written.counts) == set(last.records)
        raised = Counter(each.event for each in self.said)["alert_raised"]
        cleared = Counter(each.event for each in self.said)["alert_cleared"]
        assert last.raised == raised
        assert last.raised - len(last.open_alerts) == cleared

    def _is_settled(self) -> bool:
        now = kept_live(self.house)
        return set(now.artifacts) == set(self.models.worth) and self.models.alerts == {
            (path, code) for path, code, _ in now.open_alerts
        }


def following(daemon: Daemon) -> Event | None:
    """The next event; None, as often as it is asked, once there is none."""
    event = daemon.next_event()
    if event is None:
        daemon._lines.put(None)
    return event


def kept_live(house: House) -> Kept:
    """The store while it is written, where a copy of two files may not be one state."""
    try:
        return kept(house.store)
    except Exception:  # noqa: BLE001 - asked again
        return Kept()


def crash(home: Path, kills: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Crashes:
    """Kill a daemon so many times, then let one live."""
    chance = random.Random(seed)
    for house in houses(home):
        crashes = Crashes(house, chance)
        ways = crashes.ways()
        for number in range(kills):
            crashes.kill(ways[number % len(ways)])
            if number % 20 == 19:
                say(f"{number + 1} kills, {len(crashes.before.records)} records, {crashes.repeats} events repeated")
        crashes.finish()
    return crashes


def main() -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)  # noqa: T201
    with TemporaryDirectory() as home:
        done = crash(Path(home), arguments.kills, arguments.seed, lambda text: print(text, flush=True))  # noqa: T201
    written = sum(done.said.values())
    print(f"{done.kills} kills, {len(done.before.records)} records, {written} alert events, {done.repeats} repeated")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
