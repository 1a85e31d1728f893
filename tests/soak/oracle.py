"""Whether the daemon knows what is so: store, alerts and events, held against the files once all has stood still."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from auditd.evidence.record import Evidence
from auditd.evidence_store.artifact_state import Fingerprint
from auditd.evidence_store.store import EvidenceStore
from auditd.rules.findings import at_least
from auditd.rules.severities import configured_severity
from auditd.service.recording import mount_alerts
from auditd.settings import Settings
from tests.soak.contents import CATALOGUE, Content
from tests.soak.ledger import Ledger
from tests.soak.world import INDEX, SHARDS, SIDECAR, World

_DAY_SECONDS = 86_400.0

#: Findings that a change makes against what was there before: expected only where that was looked at.
_HISTORY = frozenset({"template_changed", "weights_changed"})


class Oracle:
    """One look at everything. ``problems`` yields words for what is not as it should be."""

    def __init__(self, world: World, store: EvidenceStore, settings: Settings, ledger: Ledger) -> None:
        self._world = world
        self._store = store
        self._settings = settings
        self._ledger = ledger
        self._alerts: dict[str, set[str]] = defaultdict(set)
        for alert in store.all_open_alerts():
            if alert.rule != mount_alerts.RULE:
                self._alerts[os.fsdecode(alert.path)].add(alert.code)

    def problems(self, now: float, changed: dict[str, float]) -> Iterator[str]:
        """``changed`` says when something last happened to a path; ``now`` is virtual wall-clock seconds."""
        present: set[str] = set()
        for index, root in enumerate(self._world.roots):
            for names in self._files(root).values():
                known = [path for path in names if self._store.known(os.fsencode(path)) is not None]
                if not known:
                    yield f"{names[0]}: not known"
                for path in known:
                    present.add(path)
                    yield from self._of_file(path, index, now, changed)
            yield from self._of_set(root / "set")
        yield from self._of_absent(present)
        yield from self._of_mount()
        yield from self._of_events()

    def _files(self, root: Path) -> dict[int, list[str]]:
        """Names of models by inode."""
        files: dict[int, list[str]] = defaultdict(list)
        for path in (*self._world.models(root), *(root / "set" / name for name in SHARDS)):
            if path.exists():
                files[path.stat().st_ino].append(str(path))
        return files

    # --- one file ----------------------------------------------------------------------------------------

    def _of_file(self, path: str, index: int, now: float, changed: dict[str, float]) -> Iterator[str]:
        data = Path(path).read_bytes()
        known = self._store.known(os.fsencode(path))
        assert known is not None
        evidence = None if known.evidence_id is None else self._store.evidence(known.evidence_id)
        if known.fingerprint != Fingerprint.of_status(os.lstat(path)):
            yield f"{path}: not looked at as it is now; known is {known}"
        elif evidence is None:
            yield f"{path}: no evidence"
        else:
            yield from self._of_evidence(path, data, evidence, index)
            yield from self._of_alerts(path, CATALOGUE[sha256(data).hexdigest()], evidence, index)
        yield from self._of_scrub(path, known.hashed_at, now, changed)

    def _of_evidence(self, path: str, data: bytes, evidence: Evidence, index: int) -> Iterator[str]:
        digest = evidence.artifact.sha256
        if evidence.artifact.size != len(data) or digest not in {None, sha256(data).hexdigest()}:
            yield f"{path}: evidence of {evidence.artifact.size} bytes {digest}, and there are {len(data)}"
        root = self._settings.roots[index]
        codes = {
            finding.code for finding in evidence.findings if at_least(finding.severity, self._settings.alert.severity)
        }
        if not codes <= self._alerts[path]:
            yield f"{path} below {root.path}: findings {sorted(codes)}, alerts {sorted(self._alerts[path])}"

    def _of_alerts(self, path: str, content: Content, evidence: Evidence, index: int) -> Iterator[str]:
        must, may = set(content.codes), set(_HISTORY)
        expectation = Path(path + SIDECAR)
        if expectation.exists() and expectation.read_text() != sha256(Path(path).read_bytes()).hexdigest():
            mode = self._settings.roots[index].hash or self._settings.inspect.hash
            (may if mode == "header" else must).add("digest_mismatch")
        before = None if content.template is None else self._template_before(path, evidence)
        if before is not None:
            (must.add if before != content.template else may.discard)("template_changed")
        must = {code for code in must if self._alerts_on(code)}
        found = self._alerts[path]
        if not must <= found <= must | may:
            yield f"{path}: alerts {sorted(found)}, expected {sorted(must)} of a file {evidence.verdict}"

    def _alerts_on(self, code: str) -> bool:
        severity = configured_severity(code, self._settings.alert.severities)
        return at_least(severity, self._settings.alert.severity)

    def _template_before(self, path: str, evidence: Evidence) -> str | None:
        """The template of the last state before this one that was looked at, by what the world wrote then."""
        now = _state(evidence)
        for stored in reversed(list(self._store.records(os.fsencode(path)))):
            record = stored.evidence
            if (
                record.outcome in {"complete", "refused"}
                and record.identity.status == "unchanged"
                and _state(record) != now
            ):
                content = self._world.written.get(_state(record))
                return None if content is None else content.template
        return None

    def _of_scrub(self, path: str, hashed_at: float | None, now: float, changed: dict[str, float]) -> Iterator[str]:
        period = self._settings.schedule.scrub_days * _DAY_SECONDS
        longest = period + _DAY_SECONDS
        since = max(changed.get(path, 0.0), hashed_at or 0.0)
        if period and now - since > longest:
            yield f"{path}: not hashed for {(now - since) / _DAY_SECONDS:.2f} days"

    # --- all of them -------------------------------------------------------------------------------------

    def _of_set(self, directory: Path) -> Iterator[str]:
        there = [name for name in SHARDS if (directory / name).exists()]
        incomplete = 0 < len(there) < len(SHARDS) and self._alerts_on("set_incomplete")
        alerts = {path: codes for path, codes in self._alerts.items() if path.startswith(f"{directory}/")}
        found = any("set_incomplete" in codes for codes in alerts.values())
        if found != incomplete:
            yield f"{directory}: {there} is {'in' if incomplete else ''}complete, alerts {alerts}"

    def _of_absent(self, present: set[str]) -> Iterator[str]:
        for path, codes in self._alerts.items():
            if codes and path not in present and Path(path).name != INDEX and codes != {"set_incomplete"}:
                yield f"{path}: not there, and has alerts {sorted(codes)}"
        for root in self._world.roots:
            for artifact in self._store.artifacts(os.fsencode(root)):
                if not os.path.lexists(artifact):
                    yield f"{os.fsdecode(artifact)}: not there, and known"

    def _of_mount(self) -> Iterator[str]:
        many = sum("digest_mismatch" in codes for codes in self._alerts.values()) >= mount_alerts.MANY
        folded = [alert for alert in self._store.all_open_alerts() if alert.rule == mount_alerts.RULE]
        if many != bool(folded):
            yield f"an alert on the mount: {bool(folded)}, and many files are not what they were: {many}"

    def _of_events(self) -> Iterator[str]:
        stored = {
            (os.fsdecode(alert.path), alert.code, alert.rule)
            for alert in self._store.all_open_alerts()
            if alert.code not in mount_alerts.CODES
        }
        if stored != set(self._ledger.open):
            yield f"open by the store alone {stored - set(self._ledger.open)}, by what was said alone " + str(
                set(self._ledger.open) - stored
            )


def _state(evidence: Evidence) -> tuple[object, ...]:
    """What tells one state of a file from another, as the world notes it."""
    identity = evidence.identity.before
    return () if identity is None else (identity.inode, identity.size, int(identity.mtime_ns), int(identity.ctime_ns))
