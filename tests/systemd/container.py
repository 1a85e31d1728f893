"""A booted systemd in a container: systemd-nspawn over an overlay on this machine's own root.

Everything that is written goes to a tmpfs in a mount namespace that nobody else has, and that ends with the container;
the container ends with the process that began it, however that ends. It has a network with nobody in it, and control
groups of its own.

The switches say what is measured: nspawn's own filter of system calls and its read-only ``/proc/sys`` are off, all
capabilities are left, because what the service may not do has to be its unit's doing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeVar

#: Nothing that is waited for takes a fraction of this; it bounds a test that would never end.
HARD_LIMIT_SECONDS: Final = 60.0

#: How long between two looks where nothing tells of a change.
_LOOK_SECONDS: Final = 0.05

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS: Final = ("systemd-nspawn", "unshare", "nsenter", "setpriv", "mount")
_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")

#: Begins the names of its control groups and of the directory that it is mounted on; this process's number follows.
_NAME: Final = "model-auditd-test-"

#: A command before another one, which gets mounts and processes of its own, and ends with the process that began it.
_NAMESPACES: Final = (
    "setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--propagation=private", "--pid",
    "--mount-proc", "--fork", "--kill-child",
)  # fmt: skip

Found = TypeVar("Found")

_MOUNT: Final = """
set -e
mount -t tmpfs -o size=1g,mode=755 tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
"""

#: The machine's own services are not begun, its journal and its identity are not taken over.
_BOOT: Final = (
    _MOUNT
    + """
place=$1 name=$2
shift 2
cd "$place/root"
rm -rf etc/systemd/system/*.wants etc/systemd/system/model-auditd.service* var/log/journal
: >etc/machine-id
cd /
exec env -i "PATH=$PATH" SYSTEMD_SECCOMP=0 SYSTEMD_NSPAWN_API_VFS_WRITABLE=1 \
    systemd-nspawn --directory="$place/root" --machine="$name" --register=no --keep-unit --private-network \
    --capability=all --console=pipe "$@" --boot -- --unit=basic.target
"""
)


def why_not() -> str | None:
    """Why no container can be booted here; None if one can."""
    if os.geteuid() != 0:
        return "needs root, to boot a container"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    return _why_no_groups() or _why_no_overlay()


def _why_no_groups() -> str | None:
    if not _own_groups():
        return "needs a control group file system at /sys/fs/cgroup"
    try:
        _remove_groups(_make_groups(f"{_NAME}{os.getpid()}"))
    except OSError as error:
        return f"needs control groups of its own: {error}"
    return None


def _why_no_overlay() -> str | None:
    place = _folder()
    try:
        done = subprocess.run(
            ["unshare", "--mount", "--propagation=private", "sh", "-c", _MOUNT, "sh", str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        place.rmdir()
    return None if done.returncode == 0 else f"needs a mount namespace with an overlay: {done.stderr.strip()}"


def _folder() -> Path:
    """An empty directory to mount on, which stays empty for everybody else."""
    place = Path(f"/run/{_NAME}{os.getpid()}")
    place.mkdir()
    return place


def until(observation: Callable[[], Found | None], what: str) -> Found:
    """What ``look`` gives once it gives something true."""
    deadline = time.monotonic() + HARD_LIMIT_SECONDS
    while time.monotonic() < deadline:
        if found := observation():
            return found
        time.sleep(_LOOK_SECONDS)
    raise AssertionError(f"never came: {what}")


# --- control groups --------------------------------------------------------------------------------------


def _own_groups() -> list[Path]:
    """The control groups that this process is in, one in each hierarchy."""
    current = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            current[name.removeprefix("name=")] = path.lstrip("/")
    found = []
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, point, kind, *_ = line.split(" ")
        name = "" if kind == "cgroup2" else Path(point).name
        if kind in {"cgroup", "cgroup2"} and point.startswith(str(_CONTROL_GROUPS)) and name in current:
            found.append(Path(point, current[name]))
    return found


def _make_groups(name: str) -> list[Path]:
    """A control group below each that this process is in."""
    groups = [group / name for group in _own_groups()]
    for group in groups:
        group.mkdir(exist_ok=True)
        for part in ("cpuset.cpus", "cpuset.mems"):  # version 1: nobody can enter before these are said
            if (group / part).exists() and group.parent.name != "unified":
                with contextlib.suppress(OSError):
                    (group / part).write_text((group.parent / part).read_text())
    return groups


def _remove_groups(groups: list[Path]) -> None:
    """Remove them with what systemd made below them; the last process leaves them a moment after it ends."""

    def gone() -> bool:
        for group in groups:
            _remove_directories(group)
        return not any(group.exists() for group in groups)

    until(gone, f"the end of {groups}")


def _remove_directories(top: Path) -> None:
    """Remove a tree of directories without files, as far as it can be."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()


def _sweep() -> None:
    """Remove what processes left that were killed: empty directories."""
    for place in (Path("/run"), *_own_groups()):
        for left in place.glob(f"{_NAME}*"):
            if not Path("/proc", left.name.removeprefix(_NAME)).exists():
                _remove_directories(left)


# --- the container ---------------------------------------------------------------------------------------


@dataclass
class Container:
    """A booted one: ``leader`` is its systemd, as this machine numbers it."""

    leader: int

    def path(self, path: str) -> Path:
        """A path in it, for this process; links in it must not be absolute."""
        return Path(f"/proc/{self.leader}/root{path}")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it to its end, whatever that is."""
        enter = ["nsenter", f"--target={self.leader}", "--all", "env", "-i", f"PATH={_PATH}", "SYSTEMD_COLORS=0"]
        return subprocess.run([*enter, *words], capture_output=True, text=True, check=False, timeout=HARD_LIMIT_SECONDS)

    def do(self, *words: str) -> str:
        """The output of a command in it that must succeed."""
        done = self.run(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def write(self, path: str, content: bytes | str, mode: int = 0o644, owner: tuple[int, int] = (0, 0)) -> None:
        """Put a file into it, complete when it appears, with the directories that it needs."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f"{place.name}.part")
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
        beside.chmod(mode)
        os.chown(beside, *owner)
        beside.rename(place)


@contextlib.contextmanager
def booted(binds: Mapping[Path, str]) -> Iterator[Container]:
    """Boot a container that shows the directories of ``binds`` read-only at their paths there; end it afterwards."""
    _sweep()
    name = f"{_NAME}{os.getpid()}"
    place, groups = _folder(), _make_groups(name)
    try:
        with tempfile.TemporaryFile() as console, _ended(_begin(place, name, groups, binds, console)) as process:
            try:
                leader = until(lambda: _leader(process), "a booted systemd")
            except AssertionError as error:
                console.seek(0)
                raise AssertionError(f"{error}: {console.read().decode(errors='replace')}") from error
            yield Container(leader)
    finally:
        _remove_groups(groups)
        place.rmdir()


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Kill the process afterwards: its container dies with it."""
    try:
        yield process
    finally:
        process.kill()
        process.wait(HARD_LIMIT_SECONDS)


def _begin(
    place: Path, name: str, groups: list[Path], binds: Mapping[Path, str], console: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Killing this process, or this one's end, kills the first process of a process namespace, and so all within."""
    enter = "".join(f"echo 0 >'{group}/cgroup.procs'\n" for group in groups)
    shown = [f"--bind-ro={source}:{target}" for source, target in binds.items()]
    return subprocess.Popen(
        [*_NAMESPACES, "sh", "-c", enter + _BOOT, "sh", str(place), name, *shown],
        stdin=subprocess.DEVNULL,
        stdout=console,
        stderr=console,
        start_new_session=True,
        env={"PATH": _PATH},
    )


def _leader(process: subprocess.Popen[bytes]) -> int | None:
    """The systemd in it, once all that it begins by itself was begun."""
    assert process.poll() is None, f"systemd-nspawn ended with {process.returncode}"
    for manager in _children(process.pid):
        for child in _children(manager):
            said = Container(child).run("systemctl", "is-system-running").stdout.strip()
            if said in {"running", "degraded"}:  # degraded by a unit of this machine: none of ours
                return child
    return None


def _children(process: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text("ascii").split()]
    except OSError:
        return []
