"""The daemon when its own disk, log or queue is not enough: it says so, waits, and loses nothing."""

from __future__ import annotations

import os
import resource
import signal
from hashlib import sha256
from pathlib import Path

import pytest

from auditd.evidence_store.store import EvidenceStore
from tests.service.processes import House
from tests.support.models import gguf

pytestmark = pytest.mark.system

SOUND = gguf()


def test_a_small_queue_forgets_nothing_for_good(house: House) -> None:
    house.configure(schedule="queue = 3")
    names = [f"{number:02}.gguf" for number in range(20)]
    for name in names:
        (house.models / name).write_bytes(SOUND)
    daemon = house.start()
    seen = {os.path.basename(daemon.wait_for("inspection_finished")["path"]) for _ in names}
    assert seen == set(names)
    assert daemon.stop() == 0


def test_full_mode_looks_at_the_header_first_and_then_at_all(house: House) -> None:
    house.configure(root='hash = "full"')
    (house.models / "one.gguf").write_bytes(SOUND)
    (house.models / "two.gguf").write_bytes(SOUND)
    daemon = house.start()
    looks = [daemon.wait_for("inspection_finished") for _ in range(4)]
    assert [look["scope"] for look in looks] == ["header", "header", "full", "full"]
    assert {look["sha256"] for look in looks[2:]} == {sha256(SOUND).hexdigest()}
    assert daemon.stop() == 0
    again = house.start()
    assert again.wait_for("scan_finished")["due"] == 0
    assert again.stop() == 0


def test_a_store_that_takes_nothing_stops_inspections_and_not_the_daemon(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (0, limits[1]))
    (house.models / "model.gguf").write_bytes(SOUND)
    daemon.wait_for("store_failed")
    daemon.send(signal.SIGHUP)
    daemon.wait_for("config_reloaded")  # it lives
    assert not daemon.named("inspection_finished")
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, limits)
    daemon.wait_for("store_recovered")
    daemon.wait_for("inspection_finished")
    assert daemon.stop() == 0
    assert len(daemon.named("store_failed")) == 1
    assert len(house.lines()) == 1


def test_a_stop_does_not_wait_for_a_store_that_takes_nothing(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    _, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (0, hard))
    (house.models / "model.gguf").write_bytes(SOUND)
    daemon.wait_for("store_failed")
    assert daemon.stop() == 0


def test_a_log_that_takes_nothing_holds_up_the_next_inspection_and_loses_no_line(house: House) -> None:
    log = house.home / "log"
    log.mkdir()  # a directory takes no line
    house.configure(more=f'[log]\npath = "{log}"\n')
    (house.models / "bad.gguf").write_bytes(SOUND + bytes(100))
    daemon = house.start()
    daemon.wait_for("log_failed")
    first = daemon.wait_for("alert_raised")  # the alarm does not wait for the log
    (house.models / "next.gguf").write_bytes(SOUND)
    log.rmdir()
    daemon.wait_for("log_recovered")
    second = daemon.wait_for("inspection_finished", path=str(house.models / "next.gguf"))
    assert daemon.stop() == 0
    written = log.read_text().splitlines()
    assert len(written) == 2
    assert first["evidence_id"] in written[0]
    assert second["evidence_id"] in written[1]


def test_a_store_of_another_program_is_refused_on_reload(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    (house.home / "other.sqlite").write_bytes(b"something else" * 100)
    text = house.configuration.read_text().replace(str(house.store), str(house.home / "other.sqlite"))
    house.configuration.write_text(text)
    daemon.send(signal.SIGHUP)
    daemon.wait_for("config_rejected")
    (house.models / "model.gguf").write_bytes(SOUND)
    daemon.wait_for("inspection_finished")
    assert daemon.stop() == 0
    assert len(house.lines()) == 1


def test_an_excluded_artifact_is_forgotten_and_its_alert_cleared(house: House) -> None:
    (house.models / "bad.gguf").write_bytes(SOUND + bytes(100))
    daemon = house.start()
    daemon.wait_for("alert_raised")
    house.configure(root='exclude = ["bad.*"]')
    daemon.send(signal.SIGHUP)
    assert daemon.wait_for("alert_cleared")["cleared_as"] == "configuration"
    assert daemon.wait_for("artifact_removed")["reason"] == "configuration"
    assert daemon.stop() == 0


def test_a_directory_that_is_emptied_under_another_file_system_is_blind(house: House) -> None:
    (house.models / "bad.gguf").write_bytes(SOUND + bytes(100))
    daemon = house.start()
    daemon.wait_for("alert_raised")
    assert daemon.stop() == 0
    # What is left when a file system is not mounted: its mount point, which is another one's empty directory.
    (house.models / "bad.gguf").unlink()
    with EvidenceStore(str(house.store), writer=True) as store:
        store._change(
            lambda connection: connection.execute(
                "UPDATE artifacts SET identity = '9999' || substr(identity, instr(identity, ' '))"
            )
        )
    again = house.start()
    assert "mounted" in again.wait_for("root_blind")["reason"]
    again.wait_for("daemon_ready")
    assert again.stop() == 0
    assert not again.named("artifact_removed", "alert_cleared")


def test_a_new_configuration_while_the_store_takes_nothing(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (0, limits[1]))
    (house.models / "model.gguf").write_bytes(SOUND)
    daemon.wait_for("store_failed")
    house.configure(schedule="poll_seconds = 1")
    daemon.send(signal.SIGHUP)
    assert daemon.wait_for("config_reloaded")["changed"] is True
    daemon.wait_for("daemon_ready")
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, limits)
    daemon.wait_for("store_recovered")
    daemon.wait_for("inspection_finished")
    assert daemon.stop() == 0
    assert len(daemon.named("store_failed")) == 1


def test_an_alert_behind_a_link_out_of_the_root_outlives_a_restart(house: House) -> None:
    house.configure(root="follow_links = true")
    target = house.home / "bad.gguf"
    target.write_bytes(SOUND + bytes(100))
    (house.models / "link.gguf").symlink_to(target)
    daemon = house.start()
    daemon.wait_for("alert_raised")
    assert daemon.stop() == 0
    again = house.start()
    again.wait_for("daemon_ready")
    assert again.stop() == 0
    assert not again.named("alert_cleared", "artifact_removed")
    target.unlink()
    last = house.start()
    assert last.wait_for("alert_cleared")["cleared_as"] == "removed"
    assert last.stop() == 0


def test_an_alert_that_the_configuration_cleared_comes_back_with_it(house: House) -> None:
    (house.models / "bad.gguf").write_bytes(SOUND + bytes(100))
    daemon = house.start()
    daemon.wait_for("alert_raised")
    daemon.wait_for("daemon_ready")
    house.configure(more='[alert.severities]\nunowned_bytes = "info"\n')
    daemon.send(signal.SIGHUP)
    assert daemon.wait_for("alert_cleared")["cleared_as"] == "configuration"
    daemon.wait_for("daemon_ready")
    house.configure()
    daemon.send(signal.SIGHUP)
    daemon.wait_for("alert_raised")
    assert daemon.stop() == 0


def test_a_root_that_does_not_answer_is_blind_and_holds_nothing_up(house: House) -> None:
    house.configure(more="[inspect]\nstall_seconds = 5\n")
    daemon = house.start({"PYTHONPATH": str(silent_stat(house))})
    assert "no answer" in daemon.wait_for("root_blind")["reason"]
    assert daemon.wait_for("daemon_ready")["blind_roots"] == 1
    (house.home / "answer").touch()
    daemon.wait_for("root_restored")
    assert daemon.stop() == 0


def silent_stat(house: House) -> Path:
    """A place from which the interpreter takes code that lets the first look wait, as a dead mount would."""
    place = house.home / "silent"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        "import os, time\n"
        "scandir = os.scandir\n"
        "def silent(path='.'):\n"
        f"    while path == {os.fsencode(house.models)!r} and not os.path.exists({str(house.home / 'answer')!r}):\n"
        "        time.sleep(0.05)\n"
        "    return scandir(path)\n"
        "os.scandir = silent\n"
    )
    return place
