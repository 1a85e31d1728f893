"""The daemon's own pruning: once a day, a few records at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from auditd.evidence.record import Evidence
from auditd.evidence_store.store import EvidenceStore
from auditd.service.recording.alerts import Policy
from auditd.service.recording.evidence_log import EvidenceLog
from auditd.service.recording.recorder import Recorder
from tests.evidence_store.stores import at, broken, entry, observation
from tests.support import models


class Heard:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    warning = error = info


def aged(days: float) -> Evidence:
    moment = datetime.now(UTC) - timedelta(days=days)
    return at(observation(models.gguf()), b"/m/a", moment.isoformat(timespec="microseconds").replace("+00:00", "Z"))


async def test_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, clock = Heard(), 1000.0
    monkeypatch.setattr("auditd.service.recording.recorder.time.monotonic", lambda: clock)
    path = tmp_path / "evidence.sqlite"
    store = EvidenceStore(str(path), writer=True)
    recorder = Recorder(store, EvidenceLog(str(tmp_path / "log")), heard, Policy())
    for days in (400, 399, 300, 10):
        store.record(entry(aged(days), b"/m/a"))
    store.mark_logged(9)
    await recorder.prune_daily(365)
    assert heard.events == [("evidence_pruned", {"records": 2})]
    assert [item.sequence for item in store.records()] == [3, 4]
    clock += 86_399
    await recorder.prune_daily(20)
    assert len(list(store.records())) == 2
    clock += 1
    await recorder.prune_daily(20)
    assert heard.events[1:] == [("evidence_pruned", {"records": 1})]
    clock += 86_400
    await recorder.prune_daily(20)
    assert len(heard.events) == 2
    recorder.close()
    store.close()
    assert broken(path)[0] == []
