"""The service in a container: begun with a configuration and drop-ins, watched through systemd and the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.systemd.container import Container, until
from tests.systemd.installed import PREFIX, PROJECT

SYSTEMD: Final = PROJECT / "systemd"
NAME: Final = "model-auditd"

_UNITS: Final = "/etc/systemd/system"
_CONFIGURATION: Final = "/etc/model-auditd/config.toml"
_SCHEDULE: Final = "[schedule]\nsettle_seconds = 0\npoll_seconds = 1\nscrub_days = 0\n"

#: What a test cannot wait for, also on a machine with other work, and where the interpreter has its library.
_FOR_TESTS: Final = f"""[Service]
WatchdogSec=6s
RestartSec=100ms
TimeoutStopSec=20s
TimeoutAbortSec=1s
Nice=0
CPUSchedulingPolicy=other
Environment=LD_LIBRARY_PATH={PREFIX}/python/lib
"""

Event = dict[str, Any]


class Journal:
    """What the service says from a moment on, and what systemd says of it."""

    def __init__(self, container: Container) -> None:
        self._container = container
        container.do("journalctl", "--sync")
        self._cursor = _cursor(container.do("journalctl", "--lines=0", "--show-cursor"))
        self.seen: list[Event] = []
        self._unclaimed: list[Event] = []

    def read(self) -> None:
        """Read what was added since."""
        words = (f"--unit={NAME}", "--output=json", "--all", "--quiet", f"--after-cursor={self._cursor}")
        for line in self._container.do("journalctl", *words).splitlines():
            entry = json.loads(line)
            self._cursor = entry["__CURSOR"]
            message = entry["MESSAGE"]
            event = {**entry, **(json.loads(message) if message.startswith("{") else {})}
            self.seen.append(event)
            self._unclaimed.append(event)

    def wait_for(self, **fields: Any) -> Event:
        """The first entry with these fields that nobody has waited for yet, read or still to come."""
        try:
            return until(lambda: self._look(fields), f"{fields}")
        except AssertionError as error:
            last = "\n".join(event["MESSAGE"] for event in self.seen[-12:])
            raise AssertionError(f"{error}; at the end:\n{last}") from None

    def _look(self, fields: Mapping[str, Any]) -> Event | None:
        found = self._claim(fields)
        if found is None:
            self.read()
            found = self._claim(fields)
        return found

    def _claim(self, fields: Mapping[str, Any]) -> Event | None:
        for place, event in enumerate(self._unclaimed):
            if fields.items() <= event.items():
                return self._unclaimed.pop(place)
        return None


def _cursor(shown: str) -> str:
    return shown.rpartition("cursor: ")[2].strip()


@dataclass
class Service:
    """The unit as it is delivered, with the drop-in that tests need."""

    container: Container
    journal: Journal = field(init=False)
    """Since the service began last."""

    def __post_init__(self) -> None:
        self.container.write(f"{_UNITS}/{NAME}.service", (SYSTEMD / f"{NAME}.service").read_bytes())
        self.journal = Journal(self.container)

    def begin(self, *roots: str, more: str = "", drop_ins: Mapping[str, str] | None = None, keep: bool = False) -> None:
        """Start it anew, without what it knew unless ``keep``; waits until it is ready."""
        self.control("stop")
        if not keep:
            self.container.do("systemctl", "clean", "--what=state", "--what=logs", NAME)
        self.configure(*roots, more=more)
        self._drop_in({"tests.conf": _FOR_TESTS, **(drop_ins or {})})
        self.container.do("systemctl", "daemon-reload")
        self.journal = Journal(self.container)
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

    def control(self, verb: str) -> None:
        """``systemctl start``, ``stop`` or ``reload``, to its end; it must succeed."""
        done = self.container.run("systemctl", verb, NAME)
        if done.returncode != 0:
            last = self.container.do("journalctl", f"--unit={NAME}", "--lines=15", "--output=cat")
            raise AssertionError(f"systemctl {verb}: {done.stderr}{last}")

    def show(self, name: str) -> str:
        """One property of the unit."""
        return self.container.do(
            "systemctl", "show", f"--property={name}", "--value", "--timestamp=us+utc", NAME
        ).strip()

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


def drop_in(name: str) -> dict[str, str]:
    """One of the drop-ins that come along."""
    return {name: (SYSTEMD / "drop-ins" / name).read_text(encoding="utf-8")}
