"""The daemon as users run it: a process, a directory, signals. Waits are for its own events."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from auditd.evidence.text import printable
from auditd.evidence_store.chain import GENESIS, first_break
from auditd.evidence_store.store import EvidenceStore
from tests.service.processes import HARD_LIMIT_SECONDS, House
from tests.support.models import gguf, safetensors

SOUND = gguf()


def replace(path: Path, content: bytes) -> None:
    """Put a file in place whole, as careful writers do."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(content)
    temporary.rename(path)


def test_what_is_there_and_what_comes(house: House) -> None:
    (house.models / "there.gguf").write_bytes(SOUND)
    daemon = house.start()
    first = daemon.wait_for("inspection_finished")
    assert (first["path"], first["verdict"], first["residue"]) == (str(house.models / "there.gguf"), "sound", 0)
    assert first["trigger"] == "startup"
    daemon.wait_for("daemon_ready")
    (house.models / "deep" / "down").mkdir(parents=True)
    (house.models / "deep" / "down" / "comes.safetensors").write_bytes(safetensors())
    second = daemon.wait_for("inspection_finished")
    assert second["path"].endswith("deep/down/comes.safetensors")
    assert (second["format"], second["trigger"]) == ("safetensors", "change")
    assert daemon.stop() == 0
    assert [event["event"] for event in daemon.events][:1] == ["daemon_started"]
    assert [event["event"] for event in daemon.events][-2:] == ["daemon_stopping", "daemon_stopped"]
    assert [line["evidence_id"] for line in house.lines()] == [first["evidence_id"], second["evidence_id"]]


def test_a_file_that_grows_is_inspected_once_when_it_stands_still(house: House) -> None:
    house.configure(schedule="")
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    with (house.models / "slow.gguf").open("wb", buffering=0) as file:
        for position in range(0, len(SOUND), 8):
            file.write(SOUND[position : position + 8])
            time.sleep(0.05)  # the growing is what is tested; each pause is shorter than the settling
    event = daemon.wait_for("inspection_finished")
    assert (event["verdict"], event["size"]) == ("sound", len(SOUND))
    assert daemon.stop() == 0
    assert len(daemon.named("inspection_finished")) == 1


def test_a_file_replaced_by_rename_is_seen(house: House) -> None:
    path = house.models / "model.gguf"
    path.write_bytes(SOUND)
    daemon = house.start()
    daemon.wait_for("inspection_finished")
    daemon.wait_for("daemon_ready")
    replace(path, gguf(tensors=2))
    assert daemon.wait_for("inspection_finished")["size"] == len(gguf(tensors=2))
    assert daemon.stop() == 0


def test_a_change_in_place_is_seen_though_its_time_was_put_back(house: House) -> None:
    path = house.models / "model.gguf"
    path.write_bytes(SOUND)
    daemon = house.start()
    first = daemon.wait_for("inspection_finished")
    daemon.wait_for("daemon_ready")
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"evil")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    second = daemon.wait_for("inspection_finished")
    assert second["evidence_id"] != first["evidence_id"]
    assert daemon.stop() == 0


def test_appended_bytes_raise_one_alert_and_their_removal_clears_it(house: House) -> None:
    path = house.models / "model.gguf"
    path.write_bytes(SOUND)
    daemon = house.start()
    daemon.wait_for("inspection_finished", residue=0)
    daemon.wait_for("daemon_ready")
    with path.open("ab") as file:
        file.write(bytes(100))
    raised = daemon.wait_for("alert_raised")
    assert (raised["code"], raised["residue"], raised["severity"]) == ("unowned_bytes", 100, "critical")
    os.utime(path)  # another event and another state of the file, and the same figures
    daemon.wait_for("inspection_finished", residue=100)
    with path.open("r+b") as file:
        file.truncate(len(SOUND))
    cleared = daemon.wait_for("alert_cleared")
    assert (cleared["code"], cleared["cleared_as"], cleared["residue"]) == ("unowned_bytes", "repaired", 0)
    assert daemon.stop() == 0
    alerts = [event["event"] for event in daemon.events if event["event"].startswith("alert_")]
    assert alerts == ["alert_raised", "alert_cleared"]


def test_other_figures_change_the_alert_and_removal_clears_it(house: House) -> None:
    path = house.models / "model.gguf"
    path.write_bytes(SOUND + bytes(100))
    daemon = house.start()
    daemon.wait_for("alert_raised", residue=100)
    daemon.wait_for("daemon_ready")
    with path.open("ab") as file:
        file.write(bytes(28))
    daemon.wait_for("alert_changed", residue=128)
    path.unlink()
    daemon.wait_for("artifact_removed")
    assert daemon.wait_for("alert_cleared")["cleared_as"] == "removed"
    assert daemon.stop() == 0


def test_a_restart_reads_nothing_that_has_not_changed(house: House) -> None:
    for name in ("one.gguf", "two.gguf", "bad.gguf", "noise.gguf"):
        (house.models / name).write_bytes(SOUND)
    (house.models / "bad.gguf").write_bytes(SOUND + bytes(100))
    (house.models / "noise.gguf").write_bytes(b"no model at all")
    daemon = house.start()
    for _ in range(4):
        daemon.wait_for("inspection_finished")
    daemon.wait_for("daemon_ready")
    assert daemon.stop() == 0
    (house.models / "two.gguf").write_bytes(gguf(tensors=2))
    again = house.start()
    assert again.wait_for("scan_finished")["due"] == 1
    assert again.wait_for("inspection_finished")["path"].endswith("two.gguf")
    again.wait_for("daemon_ready")
    assert again.stop() == 0
    assert len(again.named("inspection_finished")) == 1
    assert not again.named("alert_raised", "alert_cleared")
    assert len(house.lines()) == 5


def test_sigterm_in_the_middle_of_a_long_hash_leaves_partial_evidence(house: House) -> None:
    house.configure(root='hash = "full"')
    path = house.models / "large.gguf"
    path.write_bytes(SOUND)
    os.truncate(path, 1 << 40)  # sparse: a terabyte of zeros takes no room and an hour to hash
    status_file = house.store.parent / "status.json"
    daemon = house.start()
    daemon.wait_for("inspection_finished", scope="header")
    daemon.wait_for("daemon_ready")
    deadline = time.monotonic() + HARD_LIMIT_SECONDS
    # More than any header: the hash is under way.
    while (json.loads(status_file.read_text())["inspecting"] or {"bytes_read": 0})["bytes_read"] < 1 << 24:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    begun = time.monotonic()
    assert daemon.stop() == 0
    # Promised is a second on a healthy disk; the hard limit is for a machine that does other things as well.
    assert time.monotonic() - begun < 5
    record = house.lines()[-1]
    assert (record["outcome"], record["error"]["code"]) == ("partial", "cancelled")
    assert record["artifact"]["sha256"] is None
    assert record["identity"]["status"] == "unverified"


def test_odd_files_do_no_harm(house: House) -> None:
    models = house.models
    os.mkfifo(models / "fifo.gguf")
    (models / "loop.gguf").symlink_to("loop.gguf")
    (models / "dangling.gguf").symlink_to("nowhere")
    (models / "directory.gguf").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(models / "s.gguf"))
    hostile = [b"line\nfeed.gguf", b"\x1b[31mred.gguf", b"not-utf8-\xff.gguf"]
    for name in hostile:
        (Path(os.fsdecode(os.fsencode(models) + b"/" + name))).write_bytes(SOUND)
    (models / "download.gguf.part").write_bytes(SOUND[:50])
    daemon = house.start()
    seen = [daemon.wait_for("inspection_finished") for _ in hostile]
    daemon.wait_for("daemon_ready")
    shown = sorted(event["path"].removeprefix(str(models) + "/") for event in seen)
    assert shown == sorted(map(printable, hostile))
    scan = daemon.named("scan_finished")[0]
    assert (scan["artifacts"], scan["unfinished"], scan["special_files"]) == (3, 1, 4)
    (models / "plain.gguf").write_bytes(SOUND)
    daemon.wait_for("inspection_finished", path=str(models / "plain.gguf"))
    assert daemon.stop() == 0


def test_a_name_that_is_not_utf8_loses_no_change(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    Path(os.fsdecode(os.fsencode(house.models) + b"/\xff.gguf")).write_bytes(SOUND)
    assert daemon.wait_for("inspection_finished")["path_base64"]
    (house.models / "next.gguf").write_bytes(SOUND)
    daemon.wait_for("inspection_finished", path=str(house.models / "next.gguf"))
    assert daemon.stop() == 0


def test_a_root_that_disappears_is_blind_and_comes_back(house: House) -> None:
    house.configure(schedule="poll_seconds = 1")
    (house.models / "bad.gguf").write_bytes(SOUND + bytes(100))
    daemon = house.start()
    daemon.wait_for("alert_raised")
    daemon.wait_for("daemon_ready")
    away = house.home / "away"
    house.models.rename(away)
    daemon.wait_for("root_blind")
    away.rename(house.models)
    daemon.wait_for("root_restored")
    (house.models / "new.gguf").write_bytes(SOUND)
    daemon.wait_for("inspection_finished", path=str(house.models / "new.gguf"))
    assert daemon.stop() == 0
    assert len(daemon.named("root_blind")) == 1
    assert not daemon.named("alert_cleared", "artifact_removed")


def test_a_root_that_is_not_there_is_blind_and_does_not_hold_ready_up(house: House) -> None:
    house.models.rmdir()
    daemon = house.start()
    daemon.wait_for("root_blind")
    assert daemon.wait_for("daemon_ready")["blind_roots"] == 1
    assert daemon.stop() == 0


def test_polling_finds_changes(house: House) -> None:
    house.configure(root='watch = "poll"', schedule="poll_seconds = 1")
    daemon = house.start()
    assert daemon.wait_for("root_armed")["watch"] == "poll"
    daemon.wait_for("daemon_ready")
    (house.models / "model.gguf").write_bytes(SOUND)
    assert daemon.wait_for("inspection_finished")["trigger"] == "rescan"
    assert daemon.stop() == 0


def test_sighup_with_a_broken_configuration_keeps_the_old_one(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    good = house.configuration.read_text()
    house.configuration.write_text(good + "\n[schedul]\n")
    daemon.send(signal.SIGHUP)
    assert "schedul" in daemon.wait_for("config_rejected")["reason"]
    (house.models / "model.gguf").write_bytes(SOUND)
    daemon.wait_for("inspection_finished")
    house.configuration.write_text(good)
    daemon.send(signal.SIGHUP)
    assert daemon.wait_for("config_reloaded")["changed"] is False
    assert daemon.stop() == 0


def test_sighup_with_another_configuration_adopts_it(house: House) -> None:
    (house.models / "bad.gguf").write_bytes(SOUND + bytes(100))
    (house.home / "more").mkdir()
    (house.home / "more" / "model.gguf").write_bytes(SOUND)
    daemon = house.start()
    daemon.wait_for("alert_raised")
    daemon.wait_for("daemon_ready")
    house.configure(
        more=f'[alert.severities]\nunowned_bytes = "info"\n[[root]]\npath = "{house.home / "more"}"\n',
    )
    daemon.send(signal.SIGHUP)
    assert daemon.wait_for("config_reloaded")["changed"] is True
    assert daemon.wait_for("alert_cleared")["cleared_as"] == "configuration"
    daemon.wait_for("inspection_finished", path=str(house.home / "more" / "model.gguf"))
    daemon.wait_for("daemon_ready")
    assert daemon.stop() == 0


def test_a_rotated_log_is_opened_anew(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    (house.models / "one.gguf").write_bytes(SOUND)
    daemon.wait_for("inspection_finished")
    (house.models / "two.gguf").write_bytes(SOUND)
    daemon.wait_for("inspection_finished")
    house.log.rename(house.log.with_suffix(".1"))
    (house.models / "three.gguf").write_bytes(SOUND)
    daemon.wait_for("inspection_finished")
    assert daemon.stop() == 0
    assert [Path(line["artifact"]["path"]).name for line in house.lines()] == ["three.gguf"]


def test_a_killed_daemon_loses_no_line(house: House) -> None:
    (house.models / "bad.gguf").write_bytes(SOUND + bytes(100))
    daemon = house.start()
    event = daemon.wait_for("alert_raised")
    daemon.process.kill()
    daemon.join()
    house.log.unlink(missing_ok=True)
    # As if the crash had come after the commit and before the line and the event.
    with EvidenceStore(str(house.store), writer=True) as store:
        store._change(lambda connection: connection.execute("UPDATE evidence SET logged = 0"))
        store._change(lambda connection: connection.execute("UPDATE alerts SET untold = 'alert_raised'"))
    again = house.start()
    assert again.wait_for("alert_raised")["evidence_id"] == event["evidence_id"]
    again.wait_for("daemon_ready")
    assert again.stop() == 0
    assert [line["evidence_id"] for line in house.lines()] == [event["evidence_id"]]
    with EvidenceStore(str(house.store), writer=False) as store:
        assert first_break(GENESIS, store.links()) is None


def test_a_second_daemon_does_not_start(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    other = house.start()
    assert other.process.wait(HARD_LIMIT_SECONDS) == 3
    (said,) = other.errors().splitlines()
    assert "another process" in said
    assert daemon.stop() == 0


def test_two_signals_do_no_harm(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    daemon.send(signal.SIGTERM)
    daemon.send(signal.SIGTERM)
    daemon.send(signal.SIGINT)
    assert daemon.join() == 0


def test_systemd_is_told(house: House, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(HARD_LIMIT_SECONDS)
        daemon = house.start({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"})
        said = _until(manager, "READY=1")
        assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in said)
        for _ in range(3):
            _until(manager, "WATCHDOG=1")
        daemon.send(signal.SIGHUP)
        said = _until(manager, "RELOADING=1")
        said += _until(manager, "READY=1")
        assert any(line.startswith("MONOTONIC_USEC=") for line in said)
        daemon.send(signal.SIGTERM)
        _until(manager, "STOPPING=1")
        assert daemon.join() == 0


def _until(manager: socket.socket, wanted: str) -> list[str]:
    lines: list[str] = []
    while wanted not in lines:
        lines += manager.recv(4096).decode().split("\n")
    return lines


@pytest.mark.parametrize("textfile", ["metrics.prom"])
def test_status_and_metrics_are_written(house: House, textfile: str) -> None:
    (house.models / "bad.gguf").write_bytes(SOUND + bytes(100))
    house.configure(more=f'[metrics]\ntextfile = "{house.home / textfile}"\n')
    daemon = house.start()
    daemon.wait_for("alert_raised")
    daemon.wait_for("daemon_ready")
    assert daemon.stop() == 0
    status = json.loads((house.store.parent / "status.json").read_text())
    assert status["roots"][0]["artifacts"] == 1
    assert status["alerts"] == [{"code": "unowned_bytes", "severity": "critical", "open": 1}]
    gauges = (house.home / textfile).read_text()
    assert 'model_auditd_alerts_open{code="unowned_bytes",severity="critical"} 1' in gauges


def test_a_root_that_is_made_anew_is_watched_again(house: House) -> None:
    (house.models / "old.gguf").write_bytes(SOUND)
    house.configure(schedule="poll_seconds = 1")
    daemon = house.start()
    daemon.wait_for("inspection_finished")
    daemon.wait_for("daemon_ready")
    shutil.rmtree(house.models)
    house.models.mkdir()  # the file system may well give it the same inode number
    daemon.wait_for("artifact_removed")
    (house.models / "new.gguf").write_bytes(SOUND)
    daemon.wait_for("inspection_finished", path=str(house.models / "new.gguf"))
    (house.models / "newer.gguf").write_bytes(SOUND)
    assert daemon.wait_for("inspection_finished")["trigger"] == "change"
    assert daemon.stop() == 0
