"""What of a root is watched, and how that keeps up with directories that come and go. Blocking: for a worker thread.

:meth:`Arming.begin` watches all directories. :meth:`Arming.extend` watches those that appeared since, by a second
watch that is made anew each time and is small; once it is not, or something cannot be watched, the caller begins again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeVar

from watchfiles import Change

from auditd.inspection.request import Checkpoint
from auditd.inspection.scan import Exclusion
from auditd.service.watching.directories import MOST_DIRECTORIES, Survey, identity, is_excluded, survey, topmost
from auditd.service.watching.listening import Changes, Ear
from auditd.settings import Root

T = TypeVar("T")

#: A directory may go between the listing and the arming, and the whole list is refused then.
_TRIES: Final = 3

#: Directories that the second watch may hold, whatever the first one holds.
_FEW: Final = 1_000


class Extension(NamedTuple):
    """The second watch made anew, or None if it need not be, and the highest directories that are watched since then."""

    ear: Ear | None
    tops: list[str]


@dataclass(slots=True)
class Arming:
    """One root from one arming of all directories to the next."""

    root: Root
    exclusion: Exclusion
    checkpoint: Checkpoint
    #: Whether directories with names that are not UTF-8 are watched.
    any_names: bool = True
    most: int = MOST_DIRECTORIES
    survey: Survey = field(default_factory=Survey)
    #: The directories of the second watch.
    young: list[str] = field(default_factory=list)

    def begin(self) -> Ear | None:
        """Watch every directory; None if the root is to be polled, ``survey`` says why. Raises as :class:`Ear` does."""
        return _persist(self._begin)

    def _begin(self) -> Ear | None:
        self.young = []
        self.survey = self._survey()
        # Nobody needs them again, and there may be many.
        paths, self.survey.paths = self.survey.paths, []
        return None if self.survey.why_poll or not paths else Ear(paths)

    def appeared(self, changes: Changes) -> list[str]:
        """The directories among what changed that are not watched: new, moved in, or closed until now."""
        return [path for change, path in changes if change != Change.deleted and self._is_fresh(path, change)]

    def _is_fresh(self, path: str, change: int) -> bool:
        if not self.root.recursive or path == self.root.path:
            return False
        with suppress(OSError, ValueError):
            status = os.stat(path, follow_symlinks=self.root.follow_links)
            if stat.S_ISDIR(status.st_mode) and not is_excluded(path, self.root, self.exclusion):
                # A directory that was made anew may have the number of the one that was watched.
                return change == Change.added or identity(path, status) not in self.survey.identities
        return False

    def missed(self) -> list[str] | None:
        """The directories that appeared without an event; None if what cannot be watched is not what it was."""
        now = self._survey()
        if (now.why_poll, now.unwatched, now.first_unwatched) != (
            self.survey.why_poll,
            self.survey.unwatched,
            self.survey.first_unwatched,
        ):
            return None
        fresh = now.identities - self.survey.identities
        # What is gone is forgotten, or it would be kept for ever.
        self.survey.identities &= now.identities
        return [path for path in now.paths if self._is_unknown(path)] if fresh else []

    def _is_unknown(self, path: str) -> bool:
        with suppress(OSError):
            return identity(path, os.stat(path)) not in self.survey.identities
        return False

    def extend(self, appeared: Iterable[str]) -> Extension | None:
        """Watch these directories and all below them, too; None if all is to be armed anew. Raises as :class:`Ear`."""
        return _persist(partial(self._extend, topmost(path for path in appeared if self._is_in_place(path))))

    def _extend(self, tops: list[str]) -> Extension | None:
        young = {path: None for path in self.young if os.path.isdir(path)}
        identities: set[int] = set()
        for top in tops:
            found = self._survey(top)
            if found.unwatched or found.why_poll or found.aliases:
                return None
            young.update(dict.fromkeys(found.paths))
            identities |= found.identities
        if self._is_too_much(len(young)):
            return None
        if not identities:
            # Gone already.
            return Extension(None, tops)
        ear = Ear(list(young))
        self.young = list(young)
        self.survey.identities |= identities
        return Extension(ear, tops)

    def _is_too_much(self, young: int) -> bool:
        old = self.survey.watched
        return young > max(_FEW, old // 2) or young + old > self.most

    def _is_in_place(self, path: str) -> bool:
        """Whether no link has come to stand between the root and a directory that was there a moment ago."""
        below = os.path.relpath(path, self.root.path)
        here = os.path.join(os.path.realpath(self.root.path), below)
        return self.root.follow_links or os.path.realpath(path) == here

    def with_aliases(self, paths: Iterable[str]) -> set[str]:
        """``paths``, and what the other names of the directories that they stand in make of them."""
        found = set(paths)
        if self.survey.aliases:
            for path in list(found):
                directory, name = os.path.split(path)
                found.update(os.path.join(other, name) for other in self.survey.aliases.get(directory, ()))
        return found

    def _survey(self, start: str | None = None) -> Survey:
        return survey(self.root, self.exclusion, self.checkpoint, start=start, any_names=self.any_names, most=self.most)


def _persist(work: Callable[[], T]) -> T:
    """Do ``work`` again if a directory went, or was closed, in the middle of it."""
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError, PermissionError):
            return work()
    return work()
