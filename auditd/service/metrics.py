"""Gauges for Prometheus' textfile collector: by class, never by file. Pure; a metric is a row in :func:`render`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from auditd.service.reading.board import Board
from auditd.service.reading.scheduler import Scheduler
from auditd.service.recording.recorder import Recorder

_PREFIX = "model_auditd_"


#: Label names and values, in the order in which they are written.
_Labels: TypeAlias = tuple[tuple[str, str], ...]


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _family(name: str, meaning: str, kind: str, rows: Mapping[_Labels, float]) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {meaning}"
    yield f"# TYPE {_PREFIX}{name} {kind}"
    for labels, value in rows.items():
        inside = ",".join(f'{label}="{_label(text)}"' for label, text in labels)
        yield f"{_PREFIX}{name}{{{inside}}} {value:.17g}" if inside else f"{_PREFIX}{name} {value:.17g}"


def render(board: Board, scheduler: Scheduler, recorder: Recorder, now: float) -> bytes:
    """The text exposition format; times are seconds since the epoch."""
    passes = [root.pass_at for root in board.roots]
    oldest_pass = 0.0 if None in passes else min((at for at in passes if at is not None), default=0.0)
    blind = sum(root.state == "blind" for root in board.roots)
    alerts: dict[_Labels, float] = {
        (("code", code), ("severity", severity)): float(count)
        for (code, severity), count in sorted(board.open_alerts.items())
    }
    outcomes: dict[_Labels, float] = {
        (("outcome", outcome),): float(count) for outcome, count in sorted(board.outcomes.items())
    }
    failing: dict[_Labels, float] = {
        (("part", "store"),): float(recorder.store_trouble.reason is not None),
        (("part", "log"),): float(recorder.log_trouble.reason is not None),
    }
    plain = {
        "ready": ("1 once every root was looked at.", float(board.ready)),
        "roots": ("Directories that are watched.", float(len(board.roots))),
        "blind_roots": ("Roots that cannot be watched or seen.", float(blind)),
        "artifacts": ("Model files in sight at the last scan.", float(sum(r.tally.artifacts for r in board.roots))),
        "unseen": (
            "Files and directories that could not be looked at.",
            float(sum(r.tally.unseen for r in board.roots)),
        ),
        "unfinished": ("Downloads under way.", float(sum(r.tally.unfinished for r in board.roots))),
        "queue_due": ("Files that are due.", float(len(scheduler.queue))),
        "queue_settling": ("Files that are waiting to stand still.", float(len(scheduler.settler))),
        "oldest_pass_timestamp_seconds": ("The oldest complete pass of a root; 0 if one had none.", oldest_pass),
        "reads_lost": ("Reads that have not come back and are waited for no more.", float(len(board.lost_devices))),
        "reads_abandoned": ("Reads that did not come back in time, since the start.", float(board.abandoned)),
        "lost_events": ("Events that standard output did not take since the start.", float(board.lost_events)),
        "written_timestamp_seconds": ("When this file was written.", now),
    }
    sets: dict[_Labels, float] = {
        (("verdict", verdict),): float(count) for verdict, count in sorted(board.sets.items())
    }
    lines = [
        *(line for name, (meaning, value) in plain.items() for line in _family(name, meaning, "gauge", {(): value})),
        *_family("failing", "1 while store or log fail and inspections wait.", "gauge", failing),
        *_family("alerts_open", "Open alerts by finding code and severity.", "gauge", alerts),
        *_family("sets", "Sets of files by verdict.", "gauge", sets),
        *_family("inspections_total", "Inspections since the start by outcome.", "counter", outcomes),
    ]
    return ("\n".join(lines) + "\n").encode("utf-8")
