"""What the daemon says, held against itself as it comes: each alert raised once, and cleared once for a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from auditd.service.recording import mount_alerts
from tests.soak.world import World

Key = tuple[str, str, str]

#: Of what broke, so many are kept to be shown.
_MOST_PROBLEMS: Final = 50

#: What was read is stored at once where the store works, and else soon after it works again.
_SLACK_SECONDS: Final = 1.0
_LATE_SECONDS: Final = 300.0


@dataclass(slots=True)
class Problems:
    """What broke: words for a person."""

    now: Callable[[], float]
    told: list[str] = field(default_factory=list)
    count: int = 0
    #: Called with each of them at once.
    say: Callable[[str], None] = lambda _: None

    def add(self, problem: str) -> None:
        self.count += 1
        if len(self.told) < _MOST_PROBLEMS:
            self.told.append(f"day {self.now() / 86400:.3f}: {problem}")
            self.say(self.told[-1])


class Ledger:
    """Takes the place of the event log of the daemon."""

    def __init__(self, world: World, wall: Callable[[], float], problems: Problems) -> None:
        self.counts: Counter[str] = Counter()
        self.cleared_as: Counter[str] = Counter()
        #: Alerts that are open by what was said, and since when each may have been known (virtual time).
        self.open: dict[Key, float] = {}
        self.reloaded_at = 0.0
        self._failed_at: dict[str, float] = {}
        self._recovered_at: dict[str, float] = {}
        self._world = world
        self._wall = wall
        self._problems = problems

    def info(self, event: str, **fields: Any) -> None:
        self._take(event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._take(event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._take(event, fields)

    def _take(self, event: str, fields: dict[str, Any]) -> None:
        self.counts[event] += 1
        if event in {"inspection_failed", "read_abandoned", "config_rejected", "scrub_late", "pass_overdue"}:
            self._problems.add(f"{event}: {fields}")
        what, _, how = event.partition("_")
        if how == "failed":
            self._failed_at[what] = self._wall()
            self._recovered_at[what] = float("inf")
        elif how == "recovered":
            self._recovered_at[what] = self._wall()
        if event.startswith("alert_"):
            self._alert(event, fields)

    def _alert(self, event: str, fields: dict[str, Any]) -> None:
        key = (fields["path"], fields["code"], fields["constraint"] or "")
        if fields["code"] in mount_alerts.CODES:
            # From the third on, those of one mount are not told.
            return
        if (event == "alert_raised") == (key in self.open):
            self._problems.add(f"{event} of an alert that was {'' if key in self.open else 'not '}open: {key}")
        if event == "alert_raised":
            self.open[key] = self._known_since()
        elif event == "alert_cleared":
            self.cleared_as[fields["cleared_as"]] += 1
            since = self.open.pop(key, 0.0)
            if not self._is_reason(key[0], fields["cleared_as"], since):
                self._problems.add(f"cleared as {fields['cleared_as']} for no reason: {key}")

    def _known_since(self) -> float:
        """The earliest time at which what is said now may have been read."""
        now = self._wall()
        late = [self._failed_at[what] for what, at in self._recovered_at.items() if now - at < _LATE_SECONDS]
        return min([now, *late]) - _SLACK_SECONDS

    def _is_reason(self, path: str, cleared_as: str, since: float) -> bool:
        """Whether something happened since that is a reason to clear an alert so."""
        if path.endswith(".index.json") and cleared_as != "removed":
            return True
        if cleared_as == "removed":
            return self._world.removed.get(path, 0.0) >= since
        if cleared_as == "configuration":
            return self.reloaded_at >= since
        return max(self._world.touched.get(path, 0.0), self.reloaded_at) >= since
