"""The unit under a booted systemd: what it promises to the service manager, and what it may see and do."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.support import models
from tests.systemd.container import Container, booted, why_not
from tests.systemd.installed import install
from tests.systemd.service import SYSTEMD, Service, drop_in

#: Several interpreters may run the suite on one machine; one boot is enough.
_ASKED_NOT_TO = os.environ.get("MODEL_AUDITD_SYSTEM") == "no"
_REASON = "MODEL_AUDITD_SYSTEM=no" if _ASKED_NOT_TO else why_not()

pytestmark = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))

#: Somebody who has models, and the group that may read some of them.
SOMEBODY, GROUP = 12345, 12399

OPEN, SHARED, CLOSED, HOME, LATE = "/srv/open", "/srv/shared", "/srv/closed", "/home/alice/models", "/srv/late/models"


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    folder = tmp_path_factory.mktemp("installed")
    with booted(install(folder)) as made:
        for group in (f"models:x:{GROUP}:", "node-exporter:x:12398:"):
            with made.path("/etc/group").open("a", encoding="utf-8") as groups:
                groups.write(f"{group}\n")
        yield made


@pytest.fixture(scope="module")
def _models(container: Container) -> None:
    whole = models.gguf()
    container.write(f"{OPEN}/whole.gguf", whole)
    container.write(f"{OPEN}/cut.gguf", models.gguf(cut=1), owner=(SOMEBODY, SOMEBODY))
    container.write(f"{SHARED}/model.gguf", whole, 0o640, (SOMEBODY, GROUP))
    container.write(f"{CLOSED}/model.gguf", whole, 0o600, (SOMEBODY, SOMEBODY))
    container.write(f"{HOME}/model.gguf", whole)
    for place, mode, group in ((SHARED, 0o750, GROUP), (CLOSED, 0o700, SOMEBODY)):
        container.path(place).chmod(mode)
        os.chown(container.path(place), SOMEBODY, group)
    container.path("/srv/late").mkdir()


@pytest.fixture(scope="module")
def service(container: Container, _models: None) -> Service:
    return Service(container)


def moment(text: str) -> datetime:
    """A time as systemd shows it, in microseconds."""
    return datetime.strptime(text, "%a %Y-%m-%d %H:%M:%S.%f UTC").replace(tzinfo=UTC)


def owner(service: Service, path: str) -> tuple[int | None, int | None]:
    """Whose the last record says that a file is."""
    before = service.records(path)[-1]["identity"]["before"]
    return before["uid"], before["gid"]


@pytest.fixture(scope="module")
def first(service: Service) -> Service:
    """Begun as it is delivered, with a root that takes a while, one that is not there, and one with models."""
    for number in range(200):
        service.container.path(f"/srv/deep/{number}/a/b/c").mkdir(parents=True)
        for name in range(20):
            service.container.path(f"/srv/deep/{number}/{name}").touch()
    service.begin("/srv/deep", "/srv/nowhere", OPEN)
    return service


def test_ready_once_every_root_was_looked_through(first: Service) -> None:
    ready = first.journal.wait_for(event="daemon_ready", blind_roots=1)
    for root in (OPEN, "/srv/deep"):
        looked = first.journal.wait_for(event="scan_finished", root=root, trigger="startup")
        assert looked["timestamp"] <= ready["timestamp"]
    assert datetime.fromisoformat(ready["timestamp"]) <= moment(first.show("ActiveEnterTimestamp"))
    first.wait("StatusText", "watching 2 artifacts; 1 alert open; 1 of 3 roots blind")


def test_the_journal_knows_how_bad_it_is(first: Service) -> None:
    raised = first.journal.wait_for(event="alert_raised", path=f"{OPEN}/cut.gguf")
    assert (raised["severity"], raised["level"], raised["PRIORITY"]) == ("critical", "error", "3")
    assert first.journal.wait_for(event="root_blind", root="/srv/nowhere")["PRIORITY"] == "4"
    assert first.journal.wait_for(event="daemon_started")["PRIORITY"] == "6"
    assert (raised["SYSLOG_IDENTIFIER"], raised["_SYSTEMD_UNIT"]) == ("model-auditd", "model-auditd.service")


def test_an_owner_without_a_number_is_null(first: Service) -> None:
    first.journal.wait_for(event="inspection_finished", path=f"{OPEN}/cut.gguf")
    first.journal.wait_for(event="inspection_finished", path=f"{OPEN}/whole.gguf")
    assert owner(first, f"{OPEN}/cut.gguf") == (None, None)
    assert "owner_unmapped" in {item["code"] for item in first.records(f"{OPEN}/cut.gguf")[-1]["limitations"]}
    assert owner(first, f"{OPEN}/whole.gguf") == (0, 0)
    assert first.records(f"{OPEN}/whole.gguf")[-1]["limitations"] == []


def test_a_reload(service: Service) -> None:
    service.begin(OPEN)
    process = service.show("MainPID")
    service.control("reload")
    service.journal.wait_for(event="config_reloaded", changed=False)
    service.container.write("/etc/model-auditd/config.toml", "[schedule]\nno_such_thing = 1\n")
    service.control("reload")
    rejected = service.journal.wait_for(event="config_rejected")
    assert (rejected["PRIORITY"], "no_such_thing" in rejected["reason"]) == ("3", True)
    service.configure(OPEN, "/srv/deep")
    service.control("reload")
    service.journal.wait_for(event="config_reloaded", changed=True, roots=2)
    service.journal.wait_for(event="daemon_ready", roots=2)
    service.wait("ActiveState", "active")
    assert (service.show("MainPID"), service.show("NRestarts")) == (process, "0")


def test_a_hang_is_ended_and_nothing_is_forgotten(service: Service) -> None:
    service.begin(OPEN)
    for name in ("whole", "cut"):
        service.journal.wait_for(event="inspection_finished", path=f"{OPEN}/{name}.gguf")
    before = service.log.read_bytes()
    service.container.do("systemctl", "kill", "--signal=STOP", "--kill-who=main", "model-auditd")
    service.journal.wait_for(MESSAGE="model-auditd.service: Watchdog timeout (limit 6s)!")
    service.journal.wait_for(event="daemon_ready")
    service.journal.wait_for(event="daemon_ready")
    service.wait("ActiveState", "active")
    assert service.show("NRestarts") == "1"
    # What is known is not read again: a new file is, and it comes last.
    service.container.write(f"{OPEN}/new.gguf", models.gguf())
    service.journal.wait_for(event="inspection_finished", path=f"{OPEN}/new.gguf")
    service.container.path(f"{OPEN}/new.gguf").unlink()
    after = service.log.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == before.count(b"\n") + 1


def test_a_stop_within_a_hash_keeps_what_is_known(service: Service) -> None:
    path = "/srv/large/large.safetensors"
    size = 1 << 36
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    service.container.write(path, struct.pack("<Q", len(header)) + header)
    os.truncate(service.container.path(path), 8 + len(header) + size)
    service.begin("/srv/large", more='[inspect]\nhash = "full"\nread_bytes_per_second = 10000000\n')
    service.wait("StatusText", "inspecting large.safetensors (")
    service.control("stop")
    assert (service.show("Result"), service.show("ExecMainStatus")) == ("success", "0")
    service.journal.wait_for(event="daemon_stopped")
    record = service.records(path)[-1]
    assert (record["outcome"], record["read"]["scope"], record["artifact"]["sha256"]) == ("partial", "full", None)
    assert (record["accounting"]["tensor_bytes"], record["accounting"]["residue"]) == (size, 0)
    assert not service.container.path("/run/model-auditd").exists()


def test_models_of_a_group(service: Service) -> None:
    service.begin(SHARED, CLOSED, drop_ins=drop_in("group.conf"))
    assert service.journal.wait_for(event="root_blind")["root"] == CLOSED
    finished = service.journal.wait_for(event="inspection_finished", path=f"{SHARED}/model.gguf")
    assert finished["verdict"] == "sound"


def test_models_that_no_group_may_read(service: Service) -> None:
    service.begin(CLOSED, HOME, drop_ins=drop_in("capability.conf") | drop_in("home.conf"))
    for root in (CLOSED, HOME):
        finished = service.journal.wait_for(event="inspection_finished", path=f"{root}/model.gguf")
        assert finished["verdict"] == "sound"
    assert owner(service, f"{CLOSED}/model.gguf") == (SOMEBODY, SOMEBODY)


def test_a_mount_that_comes_late(service: Service) -> None:
    service.begin(LATE, HOME, SHARED)
    blind = [service.journal.wait_for(event="root_blind") for _ in range(3)]
    # As it is delivered it is shown no home directory, and is in nobody's group.
    assert {event["root"]: event["reason"] for event in blind} == {
        LATE: "No such file or directory",
        HOME: "Permission denied",
        SHARED: "Permission denied",
    }
    service.container.do("mount", "-t", "tmpfs", "tmpfs", "/srv/late")
    service.container.write(f"{LATE}/model.gguf", models.gguf())
    service.journal.wait_for(event="root_restored", root=LATE)
    service.journal.wait_for(event="inspection_finished", path=f"{LATE}/model.gguf")
    service.container.do("umount", "--lazy", "/srv/late")


def test_a_user_that_stays(service: Service) -> None:
    service.begin(OPEN)
    service.journal.wait_for(event="inspection_finished", path=f"{OPEN}/cut.gguf")
    known = len(service.records(f"{OPEN}/cut.gguf"))
    service.control("stop")
    service.container.write(
        "/etc/sysusers.d/model-auditd.conf", (SYSTEMD / "sysusers.d" / "model-auditd.conf").read_bytes()
    )
    service.container.do("systemd-sysusers")
    service.begin(OPEN, drop_ins=drop_in("static-user.conf"), keep=True)
    service.journal.wait_for(event="daemon_ready")
    read_log = ("setpriv", "--reuid=nobody", "--regid=model-auditd", "--clear-groups", "cat")
    lines = service.container.do(*read_log, "/var/log/model-auditd/evidence.jsonl").splitlines()
    assert sum("/cut.gguf" in line for line in lines) == known
    assert service.container.run(*read_log, "/var/lib/model-auditd/evidence.sqlite").returncode != 0
