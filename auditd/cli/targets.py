"""What the paths of a command line stand for: files as they are, directories walked, each file once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from auditd.inspection.request import Checkpoint
from auditd.inspection.scan import Other, Unseen, walk

#: A file to inspect, a place that could not be seen, or something that was passed over.
Target: TypeAlias = bytes | Unseen | Other


def targets(paths: Iterable[bytes], *, alone: bool, follow_links: bool, checkpoint: Checkpoint) -> Iterator[Target]:
    """Every target of ``paths`` in their order. A file that two paths or two hard links lead to comes once.

    A path that is not there is a target, too: to look at it is how its absence is found out and recorded.
    ``paths`` are taken one by one. Only what can come twice is remembered: files of several names if the path is
    ``alone`` and no links are followed.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        checkpoint()
        if not os.path.isdir(path):
            yield from _once(path, _identity(path), seen)
            continue
        for sighting in walk(path, follow_links=follow_links, checkpoint=checkpoint):
            if isinstance(sighting, Unseen | Other):
                yield sighting
            else:
                status = sighting.status
                twice = not alone or follow_links or status.st_nlink > 1
                yield from _once(sighting.path, (status.st_dev, status.st_ino) if twice else None, seen)


def _identity(path: bytes) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None
    return status.st_dev, status.st_ino


def _once(path: bytes, identity: tuple[int, int] | None, seen: set[tuple[int, int]]) -> Iterator[bytes]:
    if identity not in seen:
        yield path
    if identity:
        seen.add(identity)
