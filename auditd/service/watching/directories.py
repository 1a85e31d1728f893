"""Which directories of a root can be watched, found by walking it: what is not is counted, with the first and why.

Every directory is watched for itself, not the root for all below it. watchfiles' own walk ends at the first directory
that it may not read, and goes through links to places that the scan never goes to; this one goes where the scan goes.

A directory is left out when it cannot be read, and when its path is not UTF-8. An event for a name in it that is not
UTF-8 breaks the watch of all others: a directory with such a directory in it is left out, because each scan opens that
one, and a directory with such a file where that happens more than now and then. What is left out is scanned on the
shorter period instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from auditd.inspection.request import Checkpoint
from auditd.inspection.scan import GONE, Exclusion
from auditd.service.watching import mounts
from auditd.settings import Root

#: With 100,000 directories arming takes 9 s and 30 MB, and half of the watches that a machine of 24 GB allows a user.
MOST_DIRECTORIES: Final = 100_000

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOCTTY

_NOT_UTF8: Final = "a name that is not UTF-8"


@dataclass(slots=True)
class Survey:
    """The directories below one path."""

    #: Each after the one that it stands in.
    paths: list[str] = field(default_factory=list)
    #: How many there are, also once nobody needs the paths any more.
    watched: int = 0
    #: One number for each path and the directory that it led to (:func:`identity`).
    identities: set[int] = field(default_factory=set)
    #: Of a directory with more than one name, bind mounts say: the other names, by the one that events come with.
    aliases: dict[str, list[str]] = field(default_factory=dict)
    unwatched: int = 0
    first_unwatched: bytes | None = None
    #: Why the first one is left out.
    why_unwatched: str = ""
    #: Why events are not to be relied upon at all; empty if they are.
    why_poll: str = ""

    def leave_out(self, path: str, reason: str) -> None:
        """Count a directory that cannot be watched."""
        if self.first_unwatched is None:
            self.first_unwatched, self.why_unwatched = os.fsencode(path), reason
        self.unwatched += 1


def identity(path: str, status: os.stat_result) -> int:
    """A number that differs when ``path`` leads to another directory: a hundred thousand of them take 8 MB."""
    return hash((path, status.st_dev, status.st_ino))


def is_utf8(text: str) -> bool:
    """Whether a name as the operating system's functions give it was UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def survey(
    root: Root,
    exclusion: Exclusion,
    checkpoint: Checkpoint,
    *,
    start: str | None = None,
    any_names: bool = True,
    most: int = MOST_DIRECTORIES,
) -> Survey:
    """List the directories of ``root``, or below its directory ``start``. Raises what ``checkpoint`` raises.

    With ``any_names`` also those that hold files whose names are not UTF-8.
    """
    return _Walk(root, exclusion, checkpoint, any_names, most).run(root.path if start is None else start)


@dataclass(slots=True)
class _Walk:
    root: Root
    exclusion: Exclusion
    checkpoint: Checkpoint
    any_names: bool
    most: int
    found: Survey = field(default_factory=Survey)
    #: The last name of each directory that is listed, by device and inode number.
    _names: dict[tuple[int, int], str] = field(default_factory=dict)
    #: Directories already walked, against loops: only links that are followed make one.
    _visited: set[tuple[int, int]] = field(default_factory=set)
    _devices: set[int] = field(default_factory=set)

    def run(self, start: str) -> Survey:
        pending = [start]
        while pending and not self.found.why_poll:
            self.checkpoint()
            path = pending.pop()
            try:
                pending.extend(reversed(self._directory(path)))
            except OSError as error:
                if error.errno not in GONE:
                    self.found.leave_out(path, error.strerror or str(error))
        return self.found

    def _directory(self, path: str) -> list[str]:
        """Note one directory, and return those in it. ``OSError`` if it cannot be read."""
        follow = self.root.follow_links or path == self.root.path
        descriptor = os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW))
        try:
            status = os.fstat(descriptor)
            if self.root.follow_links and not self._is_first_visit((status.st_dev, status.st_ino)):
                return []
            self._check_device(path, status.st_dev)
            below, fit = self._entries(descriptor, path)
            self._take(path, status, fit=fit)
            return below
        finally:
            os.close(descriptor)

    def _is_first_visit(self, key: tuple[int, int]) -> bool:
        first = key not in self._visited
        self._visited.add(key)
        return first

    def _take(self, path: str, status: os.stat_result, *, fit: bool) -> None:
        if not fit or not is_utf8(path):
            self.found.leave_out(path, _NOT_UTF8)
            return
        key = (status.st_dev, status.st_ino)
        former = self._names.get(key)
        if former is not None:
            # One directory has one watch, whose events come with the name that was armed last.
            self.found.aliases[path] = [former, *self.found.aliases.pop(former, [])]
        self._names[key] = path
        self.found.paths.append(path)
        self.found.identities.add(identity(path, status))
        self.found.watched += 1
        if self.found.watched > self.most:
            self.found.why_poll = f"more than {self.most:,} directories"

    def _entries(self, descriptor: int, path: str) -> tuple[list[str], bool]:
        """The directories in one directory, and whether no name in it is about to break the watch."""
        below: list[str] = []
        fit = True
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self.checkpoint()
                walked = self._is_walked(entry, path)
                # Every scan opens the directories that it walks, and that alone is an event.
                fit = fit and (is_utf8(entry.name) or (self.any_names and not walked))
                if walked:
                    below.append(os.path.join(path, entry.name))
        return below, fit

    def _is_walked(self, entry: os.DirEntry[str], path: str) -> bool:
        if not self.root.recursive or not self._is_directory(entry):
            return False
        return not (self.root.exclude and self.excluded(os.path.join(path, entry.name)))

    def _is_directory(self, entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir(follow_symlinks=self.root.follow_links)
        except OSError:
            return False

    def excluded(self, path: str) -> bool:
        """Whether the operator's patterns leave a directory out whose parent they do not."""
        return is_excluded(path, self.root, self.exclusion)

    def _check_device(self, path: str, device: int) -> None:
        """A file system below the root, or behind a link, may be silent though the root's own is not."""
        if device in self._devices:
            return
        self._devices.add(device)
        kind = mounts.silent_type(os.fsencode(path)) if self.root.watch == "auto" else ""
        if kind:
            self.found.why_poll = f"{kind} sends no events"


def is_excluded(path: str, root: Root, exclusion: Exclusion) -> bool:
    """Whether the operator's patterns leave out a directory below ``root`` whose parent they do not."""
    below_root = path.removeprefix(root.path.rstrip("/") + "/")
    return exclusion.matches(os.fsencode(os.path.basename(path)), os.fsencode(below_root))


def topmost(paths: Iterable[str]) -> list[str]:
    """``paths`` without those that stand below another one of them."""
    tops: list[str] = []
    # With the separator at its end a directory stands right before all that is below it.
    for path in sorted(each + "/" for each in set(paths)):
        if not tops or not path.startswith(tops[-1]):
            tops.append(path)
    return [path[:-1] for path in tops]
