"""The system calls of a program, as strace writes them down, and what those that matter have to do with."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

#: Calls that change what a name stands for, or what the file behind a descriptor says of itself.
CHANGING: Final = frozenset(
    [
        "chmod",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "chown",
        "fchown",
        "lchown",
        "fchownat",
        "utime",
        "utimes",
        "futimesat",
        "utimensat",
        "mkdir",
        "mkdirat",
        "rmdir",
        "rename",
        "renameat",
        "renameat2",
        "link",
        "linkat",
        "symlink",
        "symlinkat",
        "mknod",
        "mknodat",
        "unlink",
        "unlinkat",
        "truncate",
        "ftruncate",
        "fallocate",
        "setxattr",
        "lsetxattr",
        "fsetxattr",
        "removexattr",
        "lremovexattr",
        "fremovexattr",
        "creat",
        "mount",
        "umount2",
        "chroot",
        "pivot_root",
    ]
)
WRITING: Final = frozenset(
    ["write", "writev", "pwrite64", "pwritev", "pwritev2", "sendfile", "copy_file_range", "splice"]
)
OPENING: Final = frozenset(("open", "openat", "openat2"))
NETWORK: Final = frozenset(
    ["socket", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg", "sendmmsg"]
)
STARTING: Final = frozenset(("execve", "execveat", "fork", "vfork", "ptrace", "process_vm_readv", "process_vm_writev"))

#: Not every machine, and not every strace, has all of them.
_TRACED: Final = ",".join(f"?{name}" for name in sorted(CHANGING | WRITING | OPENING | NETWORK | STARTING))
_LINE: Final = re.compile(r"^\d+ +(\w+)\((.*)$")
_TEXT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DESCRIPTOR: Final = re.compile(r"(?:\d+|AT_FDCWD)<([^>]*)>")
_FOR_WRITING: Final = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE")


class Call(NamedTuple):
    """A call that was made, whether it succeeded or not."""

    name: str
    arguments: str

    @property
    def descriptor(self) -> str:
        """What the first descriptor is open on, ``""`` if there is none."""
        found = _DESCRIPTOR.search(self.arguments)
        return found[1] if found else ""

    @property
    def paths(self) -> list[str]:
        """The paths that it names, or what its descriptor is open on if it names none."""
        named = _TEXT.findall(self.arguments) if self.name not in WRITING else []
        return [os.path.join(self.descriptor, name) for name in named] or [self.descriptor]

    @property
    def for_writing(self) -> bool:
        """Whether an open asks for more than reading."""
        return any(flag in self.arguments for flag in _FOR_WRITING)


def tracing(trace: Path, *command: str) -> list[str]:
    """``command``, so that the calls of all its threads are written to ``trace``."""
    return [
        "strace",
        "-f",
        "-y",
        "-qqq",
        "-s",
        "4096",
        "-o",
        str(trace),
        "-e",
        f"trace={_TRACED}",
        "-e",
        "signal=none",
        *command,
    ]


def calls(trace: Path) -> Iterator[Call]:
    """The calls of a trace in order."""
    for line in trace.read_text(errors="replace").splitlines():
        if "resumed>" not in line and (match := _LINE.match(line)):
            yield Call(match[1], match[2].removesuffix(" <unfinished ...>"))


def why_not() -> str:
    """Why nothing can be traced here, or nothing."""
    try:
        tried = subprocess.run(["strace", "-qqq", "-o", "/dev/null", "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return "strace is not here"
    return "" if tried.returncode == 0 else "strace may not trace here"


def below(path: str, places: Sequence[Path | str]) -> bool:
    """Whether ``path`` is one of the places or stands below one."""
    return any(path == str(place) or path.startswith(f"{place}/") for place in places)
