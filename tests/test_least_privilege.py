"""What the program asks of the system, call by call: it reads models, writes its own files and speaks to nobody."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.processes import HARD_LIMIT_SECONDS, Daemon, House, houses
from tests.support.calls import CHANGING, NETWORK, OPENING, STARTING, WRITING, Call, below, calls, tracing, why_not
from tests.support.models import gguf, safetensors

pytestmark = pytest.mark.system

_WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT or "it can")

#: Where bytes may go that stay nowhere: pipes, and what wakes a loop.
_FLEETING = ("pipe:", "socket:", "UNIX", "anon_inode:", "/dev/null")


def environment(**more: str) -> dict[str, str]:
    """Nothing of a service manager, and no byte code written beside the program."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "VIRTUAL_ENV")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **more}


def offences(made: list[Call], models: Path, own: list[Path]) -> list[Call]:
    """Calls that change, or could change, anything but what is in the directories ``own``; and odd opens of models."""
    found = []
    for call in made:
        if call.name in OPENING:
            bad = call.for_writing and not all(below(path, [*own, "/dev/null"]) for path in call.paths)
            bad |= any(below(path, [models]) for path in call.paths) and "O_RDONLY" not in call.arguments
        elif call.name in CHANGING:
            bad = not all(below(path, own) for path in call.paths)
        elif call.name in WRITING:
            bad = not below(call.descriptor, own) and not call.descriptor.startswith(_FLEETING)
        else:
            bad = False
        if bad:
            found.append(call)
    return found


def opened_models(made: list[Call], models: Path) -> list[Call]:
    return [call for call in made if call.name in OPENING and below(call.paths[0], [models])]


def live(house: House, daemon: Daemon) -> None:
    """Headers, full hashes, an alert, a change, a model that goes."""
    daemon.wait_for("alert_raised")
    daemon.wait_for("inspection_finished", scope="full")
    daemon.wait_for("daemon_ready")
    (house.models / "there.gguf").write_bytes(gguf(tensors=2))
    daemon.wait_for("inspection_finished", size=len(gguf(tensors=2)))
    (house.models / "bad.safetensors").unlink()
    daemon.wait_for("artifact_removed")


def traced_daemon(house: House, trace: Path, **more: str) -> list[Call]:
    """The calls of a whole life, from its begin to its stop."""
    house.configure(root='hash = "full"', more=f'[metrics]\ntextfile = "{house.home}/state/audit.prom"\n')
    (house.models / "there.gguf").write_bytes(gguf())
    (house.models / "bad.safetensors").write_bytes(safetensors(b"more"))
    command = (sys.executable, "-W", "error", "-m", "auditd", "run", "--config", str(house.configuration))
    daemon = Daemon(
        subprocess.Popen(
            tracing(trace, *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**more),
        )
    )
    house.running.append(daemon)
    number = daemon.wait_for("daemon_started")["pid"]
    try:
        live(house, daemon)
        os.kill(number, signal.SIGTERM)
        assert daemon.join() == 0
    finally:
        if daemon.process.poll() is None:
            # Without its tracer it would go on.
            os.kill(number, signal.SIGKILL)
    return list(calls(trace))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A place for a daemon and its models."""
    home = tmp_path / "house"
    home.mkdir()
    yield from houses(home)


@pytest.mark.parametrize("managed", [False, True])
def test_a_daemon_writes_its_own_files_and_speaks_to_its_manager_alone(
    house: House, tmp_path: Path, *, managed: bool
) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        made = traced_daemon(house, tmp_path / "trace", **({"NOTIFY_SOCKET": address} if managed else {}))
    assert offences(made, house.models, [house.store.parent]) == []
    files = [call for call in opened_models(made, house.models) if "O_DIRECTORY" not in call.arguments]
    assert len(files) > 3
    assert [call for call in files if "O_NOFOLLOW" not in call.arguments] == []
    # A pair of sockets wakes the loop: what goes into it has no address.
    network = [call for call in made if call.name in NETWORK and ", NULL, 0" not in call.arguments]
    if managed:
        assert {call.name for call in network} == {"socket", "sendto"}
        assert all(address in call.arguments for call in network if call.name == "sendto")
        assert all(call.arguments.startswith("AF_UNIX") for call in network if call.name == "socket")
    else:
        assert network == []
    assert [call.name for call in made if call.name in STARTING] == ["execve"]  # its own beginning


@pytest.mark.parametrize("hash_mode", ["header", "full"])
def test_an_audit_changes_nothing_at_all(tmp_path: Path, hash_mode: str) -> None:
    models, trace = tmp_path / "models", tmp_path / "trace"
    models.mkdir()
    (models / "good.gguf").write_bytes(gguf())
    (models / "bad.safetensors").write_bytes(safetensors(b"more"))
    command = (sys.executable, "-m", "auditd", "audit", "--hash", hash_mode, "--json", str(models))
    done = subprocess.run(
        tracing(trace, *command), capture_output=True, check=False, env=environment(), timeout=HARD_LIMIT_SECONDS
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert len(done.stdout.splitlines()) == 2
    made = list(calls(trace))
    assert offences(made, models, []) == []
    assert [call for call in made if call.name in NETWORK] == []
    assert [call.name for call in made if call.name in STARTING] == ["execve"]
    assert len(opened_models(made, models)) > 2


def test_an_offence_would_be_seen(tmp_path: Path) -> None:
    """The net has no hole: a program that does one thing of each kind is caught at each."""
    trace, models = tmp_path / "trace", tmp_path / "models"
    models.mkdir()
    (models / "one").touch()
    script = (
        "import os, socket, sys\n"
        "models = sys.argv[1]\n"
        "one = os.open(models + '/one', os.O_RDWR)\n"
        "os.write(one, b'x')\n"
        "os.ftruncate(one, 0)\n"
        "os.chmod(models + '/one', 0o600)\n"
        "os.rename(models + '/one', models + '/two')\n"
        "os.unlink('two', dir_fd=os.open(models, os.O_RDONLY))\n"
        "socket.socket()\n"
        "os.execv('/bin/true', ['true'])\n"
    )
    subprocess.run(
        tracing(trace, sys.executable, "-I", "-c", script, str(models)), check=True, env=environment(), timeout=30
    )
    made = list(calls(trace))
    names = [call.name.removesuffix("at") for call in offences(made, models, [])]
    assert names == ["open", "write", "ftruncate", "chmod", "rename", "unlink"]
    assert [call.name for call in made if call.name in NETWORK] == ["socket"]
    assert [call.name for call in made if call.name in STARTING] == ["execve", "execve"]
