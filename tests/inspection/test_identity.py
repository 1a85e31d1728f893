"""Whose a file is, where the process lives in a user namespace that has no number for everybody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditd.inspection import identity
from auditd.inspection.identity import maps_every_number, observe
from tests.support.commands import Write

#: user_namespaces(7): first number inside, first outside, how many.
OF_THE_HOST = b"         0          0 4294967295\n"
OF_A_CONTAINER = b"         0       1000          1\n         1     100000      65536\n"
OF_A_SERVICE = b"         0          0          1\n     63742      63742          1\n"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    identity._stand_in.cache_clear()
    yield
    identity._stand_in.cache_clear()


def owned_by(uid: int, gid: int) -> os.stat_result:
    return os.stat_result((0o100644, 2, 1, 1, uid, gid, 96, 0, 0, 0))


def world(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
    """What ``/proc`` holds; a file that is not named is hidden."""
    monkeypatch.setattr(identity, "_content", lambda path: files.get(path, b""))


@pytest.mark.parametrize(
    ("table", "everybody"),
    [
        (OF_THE_HOST, True),
        (b"0 0 2147483648\n2147483648 2147483648 2147483647\n", True),
        (OF_A_CONTAINER, False),
        (OF_A_SERVICE, False),
        (b"", False),
    ],
)
def test_a_table_of_numbers(table: bytes, everybody: bool) -> None:
    assert maps_every_number(table) is everybody


def test_nobody_is_somebody_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    world(monkeypatch, {"/proc/self/uid_map": OF_THE_HOST, "/proc/self/gid_map": OF_THE_HOST})
    seen = observe(owned_by(65534, 65534))
    assert (seen.uid, seen.gid) == (65534, 65534)


@pytest.mark.parametrize("table", [OF_A_CONTAINER, OF_A_SERVICE, b""])
def test_the_stand_in_is_nobody_known(monkeypatch: pytest.MonkeyPatch, table: bytes) -> None:
    world(monkeypatch, {"/proc/self/uid_map": table, "/proc/self/gid_map": table})
    seen = observe(owned_by(65534, 65534))
    assert (seen.uid, seen.gid) == (None, None)
    seen = observe(owned_by(0, 63742))
    assert (seen.uid, seen.gid) == (0, 63742)


def test_user_and_group_stand_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    world(monkeypatch, {"/proc/self/uid_map": OF_A_SERVICE, "/proc/self/gid_map": OF_THE_HOST})
    seen = observe(owned_by(65534, 65534))
    assert (seen.uid, seen.gid) == (None, 65534)


def test_a_kernel_with_another_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    world(
        monkeypatch,
        {
            "/proc/self/uid_map": OF_A_SERVICE,
            "/proc/self/gid_map": OF_A_SERVICE,
            "/proc/sys/kernel/overflowuid": b"99\n",
            "/proc/sys/kernel/overflowgid": b"98\n",
        },
    )
    assert (observe(owned_by(99, 98)).uid, observe(owned_by(99, 98)).gid) == (None, None)
    assert (observe(owned_by(65534, 65534)).uid, observe(owned_by(65534, 65534)).gid) == (65534, 65534)


def in_a_namespace(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command where only this process's user has a number: 0."""
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", *map(str, words)], capture_output=True, text=True, check=False
    )


def can_make_namespaces() -> bool:
    return shutil.which("unshare") is not None and in_a_namespace("true").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
@pytest.mark.skipif(not can_make_namespaces(), reason="user namespaces are not to be had here")
def test_a_real_namespace(model: Write) -> None:
    path = model()
    os.chown(path, 12345, 0)
    done = in_a_namespace(sys.executable, "-m", "auditd", "inspect", "--json", path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["identity"]["before"]["uid"], record["identity"]["before"]["gid"]) == (None, 0)
    assert record["verdict"] == "sound"
    said = [(item["code"], item["subjects"], item["count"]) for item in record["limitations"]]
    assert said == [("owner_unmapped", ["identity.before.uid", "identity.after.uid"], 2)]
