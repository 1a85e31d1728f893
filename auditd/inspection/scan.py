"""Which files of a tree are artifacts: a walk that streams, opens as little as it can and never blocks on a name.

``walk`` yields what it meets: :class:`Found` (an artifact), :class:`Unfinished` (a download under way),
:class:`Unseen` (could not look: the tree below is unknown, not empty) and :class:`Other` (all else). It holds
the names of the directories that are still to be walked on the way down, never the tree. Only regular files are
ever opened, and only to look at their first 16 bytes. Raises nothing for a bad path; ``checkpoint`` may raise
:class:`auditd.errors.InspectionStopped`, which passes through.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from auditd.formats.detection import is_plausible_head
from auditd.formats.naming import is_model_name, is_part_of_unfinished, is_unfinished_name, may_hold_model
from auditd.inspection.request import Checkpoint, carry_on
from auditd.model_stores.blob_names import is_blob

#: Enough for GGUF's magic, and for a safetensors length with the first character of its JSON.
HEAD_BYTES: Final = 16

#: A name may turn into a FIFO or a terminal between the look and the open: neither may block or adopt us.
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOCTTY

#: Errors that say "no such thing": what they are about is gone, not hidden.
GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class Found:
    """An artifact: ``path`` names the regular file itself, ``status`` is its lstat."""

    path: bytes
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A file whose name, or whose ``.aria2`` neighbour, says that a download is under way."""

    path: bytes
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class Unseen:
    """A directory or file that could not be looked at, and the errno that says why."""

    path: bytes
    errno: int


@dataclass(frozen=True, slots=True)
class Other:
    """Not an artifact; ``special`` for what is no regular file: a FIFO, a socket, a device, a link to nowhere or out."""

    path: bytes
    special: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """A path given to :func:`scan_paths` that names nothing."""

    path: bytes


Sighting: TypeAlias = Found | Unfinished | Unseen | Other

#: Says whether a regular file without a model name is an artifact by its content. May raise ``OSError``.
Sniffer: TypeAlias = Callable[[bytes, os.stat_result], bool]


def sniff(path: bytes, status: os.stat_result) -> bool:
    """Whether the file begins like a GGUF or a safetensors file; ``OSError`` if it cannot be opened or read."""
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        return is_plausible_head(os.pread(descriptor, HEAD_BYTES, 0), status.st_size)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Paths that are left out. A pattern without a slash is for a name at any depth, else for the path below the root."""

    names: re.Pattern[bytes] | None = None
    paths: re.Pattern[bytes] | None = None

    @classmethod
    def of(cls, patterns: tuple[str, ...]) -> Exclusion:
        """Compile shell patterns (``*`` also matches a slash)."""
        names = [pattern for pattern in patterns if "/" not in pattern.rstrip("/")]
        paths = [pattern for pattern in patterns if "/" in pattern.rstrip("/")]
        return cls(_any_of(names), _any_of(paths))

    def __bool__(self) -> bool:
        """Whether anything can be left out."""
        return self.names is not None or self.paths is not None

    def matches(self, name: bytes, below_root: bytes) -> bool:
        """Whether the file or directory ``name``, at ``below_root`` relative to its root, is left out."""
        return bool(
            (self.names is not None and self.names.match(name))
            or (self.paths is not None and self.paths.match(below_root))
        )


def _any_of(patterns: list[str]) -> re.Pattern[bytes] | None:
    if not patterns:
        return None
    translated = (fnmatch.translate(pattern.strip("/")) for pattern in patterns)
    return re.compile(b"|".join(os.fsencode(pattern) for pattern in translated))


@dataclass(slots=True)
class _Walk:
    """One walk: what it was asked for, and the little that it has to remember."""

    root: bytes
    recursive: bool
    follow_links: bool
    exclusion: Exclusion
    checkpoint: Checkpoint
    sniffed: Sniffer
    #: Directories already walked, against loops; kept only where links are followed, nothing else makes one.
    visited: set[tuple[int, int]] = field(default_factory=set)
    #: Files that are reported only because of a link: once, however many links there are.
    by_links: set[bytes] = field(default_factory=set)
    real_root: bytes = b""

    def __post_init__(self) -> None:
        self.real_root = os.path.realpath(self.root)

    def run(self, start: bytes) -> Iterator[Sighting]:
        pending = [start]
        while pending:
            self.checkpoint()
            directory = pending.pop()
            below: list[bytes] = []
            yield from self._directory(directory, below)
            pending.extend(reversed(below))

    def _directory(self, path: bytes, below: list[bytes]) -> Iterator[Sighting]:
        """Yield what stands in one directory, and append its subdirectories to ``below``."""
        follow = self.follow_links or path == self.root
        try:
            descriptor = os.open(path, _DIRECTORY_FLAGS | (0 if follow else os.O_NOFOLLOW))
        except OSError as error:
            # Gone since its parent was read: a tree in use, nothing unseen. The root itself is always missed.
            if error.errno not in GONE or path == self.root:
                yield Unseen(path, error.errno or errno.EIO)
            return
        try:
            if self._first_visit(descriptor):
                yield from self._entries(descriptor, path, below)
        except OSError as error:
            yield Unseen(path, error.errno or errno.EIO)
        finally:
            os.close(descriptor)

    def _first_visit(self, descriptor: int) -> bool:
        if not self.follow_links:
            return True
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        first = key not in self.visited
        self.visited.add(key)
        return first

    def _entries(self, descriptor: int, directory: bytes, below: list[bytes]) -> Iterator[Sighting]:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self.checkpoint()
                name = os.fsencode(entry.name)
                path = os.path.join(directory, name)
                if self.excluded(path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if self.recursive:
                        below.append(path)
                    elif is_model_name(name):
                        yield Other(path, special=True)
                    continue
                yield from self.entry(path, below)

    def excluded(self, path: bytes) -> bool:
        """Whether the operator's patterns leave ``path`` out."""
        return bool(self.exclusion) and self.exclusion.matches(os.path.basename(path), os.path.relpath(path, self.root))

    def out_of_reach(self, path: bytes) -> bool:
        """Whether the patterns leave ``path`` out, or a directory above it."""
        if not self.exclusion:
            return False
        below_root = os.path.relpath(path, self.root)
        return any(self.excluded(os.path.join(self.root, part)) for part in _prefixes(below_root))

    def entry(self, path: bytes, below: list[bytes]) -> Iterator[Sighting]:
        """Yield what one name that is no directory stands for; a followed directory link goes to ``below``."""
        try:
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                yield self._file(path, status)
            elif stat.S_ISLNK(status.st_mode):
                yield from self._link(path, below)
            elif stat.S_ISDIR(status.st_mode):
                below.append(path)
            else:
                yield Other(path, special=True)
        except OSError as error:
            if error.errno not in GONE:
                yield Unseen(path, error.errno or errno.EIO)

    def _file(self, path: bytes, status: os.stat_result, name: bytes | None = None) -> Sighting:
        """Judge a regular file, by ``name`` where a link gives it another one than its own."""
        name = os.path.basename(path) if name is None else name
        if is_part_of_unfinished(name) and os.path.lexists(path[: path.rfind(b"-")]):
            return Other(path)
        if is_unfinished_name(name) or (is_model_name(name) and os.path.lexists(path + b".aria2")):
            return Unfinished(path, status)
        if is_model_name(name) or is_blob(path) or (may_hold_model(name) and self.sniffed(path, status)):
            return Found(path, status)
        return Other(path)

    def _link(self, path: bytes, below: list[bytes]) -> Iterator[Sighting]:
        """A link is a second name of its target: the target stands for itself where the walk comes by it."""
        try:
            target = os.path.realpath(path, strict=True)
            status = os.lstat(target)
        except OSError as error:
            if error.errno in GONE or error.errno == errno.ELOOP:
                yield Other(path, special=True)
            else:
                yield Unseen(path, error.errno or errno.EIO)
            return
        if stat.S_ISDIR(status.st_mode):
            if self.follow_links and self.recursive:
                below.append(path)
            elif not _is_below(target + b"/", self.real_root):
                yield Other(path, special=True)
            return
        if not stat.S_ISREG(status.st_mode):
            yield Other(path, special=True)
            return
        if _is_below(target, self.real_root):
            target = self.root + target[len(self.real_root) :]
            yield from self._below_root(path, target, status)
        elif self.follow_links:
            yield self._file(target, status, os.path.basename(path))
        else:
            yield Other(path, special=True)

    def behind(self, link: bytes) -> Iterator[Sighting]:
        """What a link leads to below the root: it was given another name, or has lost one."""
        try:
            if not stat.S_ISLNK(os.lstat(link).st_mode):
                return
            target = os.path.realpath(link, strict=True)
        except OSError:
            return
        if _is_below(target, self.real_root):
            target = self.root + target[len(self.real_root) :]
            if target not in self.by_links and os.path.isfile(target):
                yield from self.entry(target, [])

    def _below_root(self, link: bytes, target: bytes, status: os.stat_result) -> Iterator[Sighting]:
        """A target that the walk does not come by, or that the link's name alone makes an artifact: a licence, say."""
        if target in self.by_links or self.out_of_reach(target):
            return
        passed = self.recursive or os.path.dirname(target) == self.root.rstrip(b"/")
        named = is_model_name(os.path.basename(link))
        if passed and not named:
            return
        sighting = self._file(target, status)
        if passed and isinstance(sighting, Found):
            return
        self.by_links.add(target)
        yield Found(target, status) if named else sighting


def _is_below(path: bytes, directory: bytes) -> bool:
    return path.startswith(directory if directory.endswith(b"/") else directory + b"/")


def walk(
    root: bytes,
    *,
    recursive: bool = True,
    follow_links: bool = False,
    exclude: tuple[str, ...] = (),
    checkpoint: Checkpoint = carry_on,
    sniffed: Sniffer = sniff,
    start: bytes | None = None,
) -> Iterator[Sighting]:
    """Yield what stands below ``root``, or below its subdirectory ``start``, in the order of the directories.

    Directory links are followed only with ``follow_links``, and then each directory once. A link to a regular
    file below the root is not reported: its target is, also one that only the link leads to, in a subdirectory
    without ``recursive``. A link out of the root is followed only with ``follow_links``.
    """
    yield from _Walk(root, recursive, follow_links, Exclusion.of(exclude), checkpoint, sniffed).run(start or root)


def scan_paths(
    path: bytes,
    root: bytes,
    *,
    recursive: bool = True,
    follow_links: bool = False,
    exclude: tuple[str, ...] = (),
    checkpoint: Checkpoint = carry_on,
    sniffed: Sniffer = sniff,
) -> Iterator[Sighting | Gone]:
    """Yield what one path below ``root`` stands for; a directory is walked, a path that names nothing is :class:`Gone`.

    Nothing for a path that a walk would not come by.
    """
    job = _Walk(root, recursive, follow_links, Exclusion.of(exclude), checkpoint, sniffed)
    if job.out_of_reach(path):
        return
    if not recursive and b"/" in os.path.relpath(path, root):
        return
    if not follow_links and _is_behind_link(path, root, job.real_root):
        return
    if not os.path.lexists(path):
        yield Gone(path)
        return
    directories: list[bytes] = []
    yield from job.entry(path, directories)
    yield from job.behind(path)
    if recursive or path == root:
        for directory in directories:
            yield from job.run(directory)


def _is_behind_link(path: bytes, root: bytes, real_root: bytes) -> bool:
    """Whether a directory between ``root`` and ``path`` is a link, which a walk would not have gone through."""
    between = os.path.relpath(os.path.dirname(path), root)
    return os.path.realpath(os.path.dirname(path)) != os.path.normpath(os.path.join(real_root, between))


def _prefixes(below_root: bytes) -> Iterator[bytes]:
    """``a``, ``a/b``, ``a/b/c`` for ``a/b/c``: an excluded directory excludes all below it."""
    parts = below_root.split(b"/")
    return (b"/".join(parts[: end + 1]) for end in range(len(parts)))
