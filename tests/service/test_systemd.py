"""The conversation with the service manager, over real datagram sockets."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import trio
import trio.testing

from auditd.service.systemd import Notifier, watchdog_seconds


def manager(address: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(address)
    server.settimeout(10)
    return server


@pytest.mark.parametrize("abstract", [False, True])
async def test_messages_arrive(tmp_path: Path, abstract: bool) -> None:
    name = f"model-auditd-test-{os.getpid()}"
    address = "\0" + name if abstract else str(tmp_path / "notify")
    told = "@" + name if abstract else address
    with manager(address) as server, Notifier({"NOTIFY_SOCKET": told}) as notifier:
        await notifier.ready()
        assert server.recv(4096) == b"READY=1"
        await notifier.status("hashing \x1b[31m".replace("\x1b", "?"))
        await notifier.status("hashing ?[31m")  # the same again is not said
        await notifier.alive()
        assert server.recv(4096) == b"STATUS=hashing ?[31m"
        assert server.recv(4096) == b"WATCHDOG=1"
        await notifier.more_time(1.5)
        assert server.recv(4096) == b"EXTEND_TIMEOUT_USEC=1500000"
        await notifier.reloading()
        assert server.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        await notifier.stopping()
        assert server.recv(4096) == b"STOPPING=1"


async def test_without_a_manager_nothing_happens(tmp_path: Path) -> None:
    for environment in ({}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": str(tmp_path / "nowhere")}):
        with Notifier(environment) as notifier:
            await notifier.ready()


async def test_a_full_queue_is_waited_for_and_the_wait_can_be_cancelled(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with manager(address), Notifier({"NOTIFY_SOCKET": address}) as notifier:
        sent = 0
        with trio.move_on_after(0.3) as scope:
            while True:
                await notifier.alive()
                sent += 1
        assert scope.cancelled_caught
        assert sent > 0


def test_watchdog() -> None:
    assert watchdog_seconds({}) is None
    assert watchdog_seconds({"WATCHDOG_USEC": "30000000"}) == 30
    assert watchdog_seconds({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}) == 30
    assert watchdog_seconds({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}) is None
    assert watchdog_seconds({"WATCHDOG_USEC": "0"}) is None
    assert watchdog_seconds({"WATCHDOG_USEC": "soon"}) is None
