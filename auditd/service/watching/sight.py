"""Whether a root is in sight, as it is said: each change once, in the events, on the board and to whoever waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import trio

from auditd.evidence.record import Trigger
from auditd.evidence.text import printable
from auditd.service.logging import Events, path_fields
from auditd.service.reading.board import RootBoard
from auditd.service.watching.directories import Survey
from auditd.service.watching.scanner import Tally


class Sight:
    """One root. ``changed`` is called when the board has."""

    def __init__(self, board: RootBoard, events: Events, changed: Callable[[], None], poll_seconds: float) -> None:
        self.initial_scan_done = trio.Event()
        self.board = board
        self._events = events
        self._changed = changed
        self._poll_seconds = poll_seconds
        self._was_blind = False
        #: How the root is watched, and whether in part, as it was said last.
        self._said: tuple[str, bool] | None = None

    def see(self, state: Literal["events", "poll"], survey: Survey) -> None:
        """The root is in sight: said when it was not before, or not in the same way."""
        said = (state, bool(survey.unwatched))
        if self._said != said:
            event = "root_restored" if self._was_blind else "root_armed"
            say = self._events.warning if survey.unwatched else self._events.info
            say(event, **self._named(), watch=state, **_watched_fields(survey))
        self._was_blind, self._said = False, said
        self._show(state, _remark(survey, self._poll_seconds))

    def go_blind(self, reason: str) -> None:
        """The root cannot be watched or seen: said when it could before."""
        if not self._was_blind:
            self._events.warning("root_blind", **self._named(), reason=reason)
        self._was_blind, self._said = True, None
        self._show("blind", reason)

    def lose(self, reason: str) -> None:
        """Events were lost."""
        self._events.warning("events_lost", **self._named(), reason=reason)

    def say_scanned(self, tally: Tally, trigger: Trigger) -> None:
        """A scan came to its end, also one that was refused its sight of some directories."""
        self.board.tally = tally
        self._changed()
        unseen = {} if tally.first_unseen is None else path_fields(tally.first_unseen.path, "first_unseen")
        self._events.info(
            "scan_finished",
            **self._named(),
            trigger=trigger,
            artifacts=tally.artifacts,
            due=tally.due,
            unfinished=tally.unfinished,
            other_files=tally.other_files,
            special_files=tally.special_files,
            unseen=tally.unseen,
            removed=tally.removed,
            duration_seconds=tally.duration_seconds,
            **unseen,
        )

    def _show(self, state: Literal["events", "poll", "blind"], reason: str | None) -> None:
        self.board.state = state
        self.board.reason = reason
        self.initial_scan_done.set()
        self._changed()

    def _named(self) -> dict[str, str]:
        return path_fields(self.board.path, "root")


def _remark(survey: Survey, poll_seconds: float) -> str | None:
    """Why a root that is in sight is scanned on the shorter period; None if it is not."""
    if survey.why_poll:
        return f"{printable(survey.why_poll, 200)}: scanned every {poll_seconds:g} s"
    if not survey.unwatched:
        return None
    directories = "1 directory" if survey.unwatched == 1 else f"{survey.unwatched:,} directories"
    return f"{directories} cannot be watched ({printable(survey.why_unwatched, 200)}): scanned every {poll_seconds:g} s"


def _watched_fields(survey: Survey) -> dict[str, Any]:
    """What is watched, for an event."""
    if survey.why_poll:
        return {"reason": printable(survey.why_poll, 200)}
    fields: dict[str, Any] = {"directories": survey.watched, "unwatched": survey.unwatched}
    if survey.first_unwatched is not None:
        fields |= {"reason": survey.why_unwatched, **path_fields(survey.first_unwatched, "first_unwatched")}
    return fields
