"""``status.json``: what the daemon is doing, for ``model-auditd status`` and for people. Written atomically."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from auditd import __version__
from auditd.evidence.text import harmless_json, printable
from auditd.service.logging import path_fields
from auditd.service.reading.board import Board, RootBoard
from auditd.service.reading.scheduler import Scheduler
from auditd.service.recording.recorder import Recorder

SCHEMA: Final = "model-auditd/status/1"


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def snapshot(board: Board, scheduler: Scheduler, recorder: Recorder, now: float) -> dict[str, Any]:
    """The state as plain values; ``now`` is wall-clock seconds."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "pid": os.getpid(),
        "state": board.state,
        "ready": board.ready,
        "started_at": _time(board.started_at),
        "updated_at": _time(now),
        "roots": [_root(root) for root in board.roots],
        "queue": {
            "due": len(scheduler.queue),
            "settling": len(scheduler.settler),
            "overflowed": scheduler.queue.overflowed or scheduler.settler.overflowed,
        },
        "inspecting": _current(board),
        "inspections": board.inspections,
        "outcomes": dict(board.outcomes),
        "sets": dict(board.sets),
        "reads": {"abandoned": board.abandoned, "lost": len(board.lost_devices)},
        "alerts": [
            {"code": code, "severity": severity, "open": count}
            for (code, severity), count in sorted(board.open_alerts.items())
        ],
        "output": {"lost": board.lost_events, "reason": board.lost_reason},
        "store": {"path": printable(recorder.store.path), "failed": recorder.store_trouble.reason},
        "log": {"path": printable(recorder.log_path), "failed": recorder.log_trouble.reason},
    }


def _root(root: RootBoard) -> dict[str, Any]:
    tally = root.tally
    return {
        **path_fields(root.path),
        "state": root.state,
        "reason": root.reason,
        "scanned_at": _time(root.scanned_at),
        "pass_at": _time(root.pass_at),
        "artifacts": tally.artifacts,
        "unfinished": tally.unfinished,
        "other_files": tally.other_files,
        "unseen": tally.unseen,
    }


def _current(board: Board) -> dict[str, Any] | None:
    if board.current is None:
        return None
    job, watch = board.current
    return {
        **path_fields(job.path),
        "bytes_read": watch.bytes_read,
        "bytes_wanted": watch.bytes_wanted,
        "silent_seconds": round(watch.silent_seconds(), 1),
    }


def sentence(board: Board, queued: int) -> str:
    """The state in one line, for systemd."""
    alerts = sum(board.open_alerts.values())
    tail = f"; {alerts:,} alert{'s' if alerts != 1 else ''} open" if alerts else ""
    blind = sum(root.state == "blind" for root in board.roots)
    tail += f"; {blind:,} of {len(board.roots):,} roots blind" if blind else ""
    unseen = sum(root.tally.unseen for root in board.roots)
    tail += f"; {unseen:,} not seen" if unseen else ""
    if board.current is not None:
        job, watch = board.current
        share = f" ({100 * watch.bytes_read // watch.bytes_wanted} %)" if watch.bytes_wanted else ""
        return f"inspecting {printable(os.path.basename(job.path), 80)}{share}, {queued:,} more due{tail}"
    if board.state == "starting":
        return f"looking through {len(board.roots):,} root{'s' if len(board.roots) != 1 else ''}{tail}"
    return f"watching {sum(root.tally.artifacts for root in board.roots):,} artifacts{tail}"


def write_atomically(path: str, content: bytes, mode: int) -> None:
    """Replace ``path``: a reader sees the old content or the new one. ``OSError`` if the disk does not take it."""
    # One name for all times: a process that is killed in between leaves one such file, and not one each time.
    temporary = f"{path}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            # The umask has no say; a file system without modes does.
            with suppress(OSError):
                os.fchmod(file.fileno(), mode)
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def encode(values: dict[str, Any]) -> bytes:
    """JSON that is safe to print."""
    return harmless_json(json.dumps(values, indent=1).encode("ascii")) + b"\n"
