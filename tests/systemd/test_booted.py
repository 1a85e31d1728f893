"""The unit under a booted systemd: what it promises to the service manager, and what it may see and do."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.support import models
from tests.systemd.container import Container, booted, until, why_not
from tests.systemd.installed import PREFIX, install
from tests.systemd.service import Service, drop_in, serving

#: Several interpreters may run the suite on one machine; one boot is enough.
_ASKED_NOT_TO = os.environ.get("MODEL_AUDITD_BOOT") == "no"
_REASON = "MODEL_AUDITD_BOOT=no" if _ASKED_NOT_TO else why_not()

pytestmark = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))

#: Somebody who has models, and the group that may read some of them.
SOMEBODY, GROUP = 12345, 12399

OPEN, SHARED, CLOSED, HOME, LATE = "/srv/open", "/srv/shared", "/srv/closed", "/home/alice/models", "/srv/late/models"

#: systemd's own message when a watchdog was not fed: SD_MESSAGE_... of a unit that is killed for it.
KILLED_FOR_SILENCE = "Watchdog timeout (limit 6s)!"


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
def service(container: Container, _models: None) -> Iterator[Service]:
    with serving(container) as made:
        yield made


def test_ready_once_every_root_was_looked_through(service: Service) -> None:
    deep = service.container.path("/srv/deep")
    for number in range(100):
        deep.joinpath(f"{number}", "a", "b", "c", "d", "e").mkdir(parents=True)
        for name in range(20):
            deep.joinpath(f"{number}", f"{name}").touch()
    service.begin(OPEN, "/srv/deep")
    looked = [service.journal.wait_for(event="scan_finished") for _ in range(2)]
    ready = service.journal.wait_for(event="daemon_ready")
    entered = datetime.strptime(service.show("ActiveEnterTimestamp"), "%a %Y-%m-%d %H:%M:%S.%f UTC").replace(tzinfo=UTC)
    print(looked, ready, entered)
