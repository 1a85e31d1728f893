"""The service in a container: begun with a configuration and drop-ins, watched through systemd and the journal."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.systemd.container import HARD_LIMIT_SECONDS, Container, until
from tests.systemd.installed import PREFIX, PROJECT

SYSTEMD: Final = PROJECT / "systemd"
NAME: Final = "model-auditd"

_UNITS: Final = "/etc/systemd/system"
_CONFIGURATION: Final = "/etc/model-auditd/config.toml"
_SCHEDULE: Final = "[schedule]\nsettle_seconds = 0\npoll_seconds = 1\n"

#: What a test cannot wait for, and where the interpreter has its library.
_FOR_TESTS: Final = f"""[Service]
WatchdogSec=6s
RestartSec=100ms
TimeoutStopSec=20s
TimeoutAbortSec=1s
Environment=LD_LIBRARY_PATH={PREFIX}/python/lib
"""

Event = dict[str, Any]


class Journal:
    """What the service says from a moment on, and what systemd says of it, as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.seen: list[Event] = []
        self._unclaimed: list[Event] = []
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._process = process
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def _next(self) -> None:
        try:
            entry = json.loads(self._lines.get(timeout=HARD_LIMIT_SECONDS))
        except queue.Empty:
            raise AssertionError("the journal says nothing any more") from None
        message = entry["MESSAGE"]
        said = json.loads(message) if message.startswith("{") else {}
        event = {**entry, **said}
        self.seen.append(event)
        self._unclaimed.append(event)

    def wait_for(self, **fields: Any) -> Event:
        """The first entry with these fields that nobody has waited for yet, read or still to come."""
        while True:
            for place, event in enumerate(self._unclaimed):
                if fields.items() <= event.items():
                    del self._unclaimed[place]
                    return event
            try:
                self._next()
            except AssertionError as error:
                last = [event["MESSAGE"] for event in self.seen[-8:]]
                raise AssertionError(f"{error}: waited for {fields}; at the end {last}") from None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@dataclass
class Service:
    """The unit as it is delivered, with the drop-in that tests need."""

    container: Container
    _journals: list[Journal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.container.write(f"{_UNITS}/{NAME}.service", (SYSTEMD / f"{NAME}.service").read_bytes())

    @property
    def journal(self) -> Journal:
        """Since the service began last."""
        return self._journals[-1]

    def begin(self, *roots: str, more: str = "", drop_ins: Mapping[str, str] | None = None, keep: bool = False) -> None:
        """Start it anew, without what it knew unless ``keep``; waits until it is ready."""
        self.control("stop")
        if not keep:
            self.container.do("systemctl", "clean", "--what=state", "--what=logs", NAME)
        self.configure(*roots, more=more)
        self._drop_in({"tests.conf": _FOR_TESTS, **(drop_ins or {})})
        self.container.do("systemctl", "daemon-reload")
        self._follow()
        self.control("start")
        assert self.show("ActiveState") == "active"

    def _drop_in(self, drop_ins: Mapping[str, str]) -> None:
        for old in self.container.path(_UNITS).glob(f"{NAME}.service.d/*"):
            old.unlink()
        for name, content in drop_ins.items():
            self.container.write(f"{_UNITS}/{NAME}.service.d/{name}", content)

    def configure(self, *roots: str, more: str = "") -> None:
        tables = "".join(f'[[root]]\npath = "{root}"\n' for root in roots)
        self.container.write(_CONFIGURATION, tables + _SCHEDULE + more)

    def _follow(self) -> None:
        self.container.do("journalctl", "--sync")
        cursor = self.container.do("journalctl", "--lines=0", "--show-cursor").rpartition("cursor: ")[2].strip()
        words = ["journalctl", f"--unit={NAME}", "--follow", "--output=json", "--all", f"--after-cursor={cursor}"]
        process = subprocess.Popen(self.container.command(*words), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self._journals.append(Journal(process))

    def control(self, verb: str) -> None:
        """``systemctl start``, ``stop`` or ``reload``, to its end; it must succeed."""
        done = self.container.run("systemctl", verb, NAME)
        if done.returncode != 0:
            last = self.container.do("journalctl", f"--unit={NAME}", "--lines=15", "--output=cat")
            raise AssertionError(f"systemctl {verb}: {done.stderr}{last}")

    def show(self, name: str) -> str:
        """One property of the unit."""
        return self.container.do("systemctl", "show", f"--property={name}", "--value", "--timestamp=us+utc", NAME).strip()

    def wait(self, name: str, text: str) -> None:
        """Until a property of the unit has this text in it."""
        until(lambda: text in self.show(name), f"{text!r} in {name}: {self.show(name)!r}")

    def records(self, path: str) -> list[Event]:
        """The evidence log's lines of one artifact."""
        lines = self.log.read_bytes().splitlines() if self.log.exists() else []
        return [record for record in map(json.loads, lines) if record["artifact"]["path"] == path]

    @property
    def log(self) -> Path:
        """Where the unit has it: what a user of one run alone owns is kept from others by a directory around it."""
        private = self.container.path(f"/var/log/private/{NAME}/evidence.jsonl")
        return private if private.exists() else self.container.path(f"/var/log/{NAME}/evidence.jsonl")

    def close(self) -> None:
        for journal in self._journals:
            journal.close()


@contextlib.contextmanager
def serving(container: Container) -> Iterator[Service]:
    """The service in a container, not begun."""
    service = Service(container)
    try:
        yield service
    finally:
        service.close()


def drop_in(name: str) -> dict[str, str]:
    """One of the drop-ins that come along."""
    return {name: (SYSTEMD / "drop-ins" / name).read_text(encoding="utf-8")}
