"""The daemon as a process of its own: its configuration, its event lines, its store and log afterwards."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Nothing that a test waits for takes a fraction of this; it bounds a test that would never end.
HARD_LIMIT_SECONDS = 30.0

Event = dict[str, Any]


@dataclass
class Daemon:
    """A running daemon. ``events`` are those that were read."""

    process: subprocess.Popen[bytes]
    events: list[Event] = field(default_factory=list)
    _unclaimed: list[Event] = field(default_factory=list)
    _lines: queue.Queue[bytes | None] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def next_event(self) -> Event | None:
        """The next event; None once standard output is closed."""
        line = self._lines.get(timeout=HARD_LIMIT_SECONDS)
        if line is None:
            return None
        assert len(line) <= 16 * 1024
        event: Event = json.loads(line)
        self.events.append(event)
        self._unclaimed.append(event)
        return event

    def wait_for(self, name: str, **fields: Any) -> Event:
        """The first event of this name with these fields that nobody has waited for yet, read or still to come."""
        wanted = {"event": name, **fields}
        while True:
            for place, event in enumerate(self._unclaimed):
                if wanted.items() <= event.items():
                    del self._unclaimed[place]
                    return event
            if self.next_event() is None:
                break
        raise AssertionError(f"ended without {name} {fields}: {self.events[-5:]}; {self.errors()}")

    def named(self, *names: str) -> list[Event]:
        """The events of these names that were read."""
        return [event for event in self.events if event["event"] in names]

    def errors(self) -> str:
        """Standard error, once it ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM, and the exit status; all remaining events are read."""
        self.send(signal.SIGTERM)
        return self.join()

    def join(self) -> int:
        while self.next_event() is not None:
            pass
        status = self.process.wait(HARD_LIMIT_SECONDS)
        assert not self.errors()
        return status


@dataclass
class House:
    """A directory with models, a configuration and room for the daemon's files."""

    home: Path
    running: list[Daemon] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.models.mkdir()
        self.configure()

    @property
    def models(self) -> Path:
        return self.home / "models"

    @property
    def configuration(self) -> Path:
        return self.home / "config.toml"

    @property
    def store(self) -> Path:
        return self.home / "state" / "evidence.sqlite"

    @property
    def log(self) -> Path:
        return self.home / "state" / "evidence.jsonl"

    def configure(self, root: str = "", more: str = "", schedule: str = "") -> None:
        """Without a scrub, which reads what nothing else asks for, if ``schedule`` does not ask for one."""
        if "scrub_days" not in schedule:
            schedule = f"{schedule}\nscrub_days = 0"
        self.configuration.write_text(
            f'[[root]]\npath = "{self.models}"\n{root}\n'
            f"[schedule]\nsettle_seconds = 0.2\n{schedule}\n"
            f'[store]\npath = "{self.store}"\n{more}\n'
        )

    def start(self, environment: Mapping[str, str] | None = None) -> Daemon:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "auditd", "run", "--config", str(self.configuration)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**_environment(), **(environment or {})},
        )
        daemon = Daemon(process)
        self.running.append(daemon)
        return daemon

    def lines(self) -> list[Event]:
        """The evidence log."""
        return [json.loads(line) for line in self.log.read_bytes().splitlines()]

    def close(self) -> None:
        for daemon in self.running:
            if daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()
            for pipe in (daemon.process.stdout, daemon.process.stderr):
                if pipe is not None:
                    pipe.close()


def _environment() -> dict[str, str]:
    """This process's, without what a service manager would have put there."""
    managed = {"JOURNAL_STREAM", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}
    return {name: value for name, value in os.environ.items() if name not in managed and "_DIRECTORY" not in name}


def houses(home: Path) -> Iterator[House]:
    """One house, and nothing left running in it."""
    house = House(home)
    yield house
    house.close()
