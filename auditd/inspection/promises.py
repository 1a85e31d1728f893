"""What stores promise, as an inspection asks for it."""

from __future__ import annotations

import os

from auditd.evidence.promise import Promise
from auditd.inspection.request import Checkpoint, Promises
from auditd.stores.stores import Stores


def promises_of(stores: Stores) -> Promises:
    """Ask ``stores``, which belong to one thread at a time."""

    def ask(path: bytes, given: bytes, status: os.stat_result, checkpoint: Checkpoint) -> Promise:
        return stores.promise(path, status, given=given, checkpoint=checkpoint)

    return ask
