"""What stores promise, as an inspection asks for it."""

from __future__ import annotations

import os

from auditd.evidence.expectation import Expectation
from auditd.inspection.request import Checkpoint, ExpectationSource
from auditd.model_stores.stores import ModelStores


def expectations_of(stores: ModelStores) -> ExpectationSource:
    """Ask ``stores``, which belong to one thread at a time."""

    def ask(path: bytes, given: bytes, status: os.stat_result, checkpoint: Checkpoint) -> Expectation:
        return stores.expectation(path, status, given=given, checkpoint=checkpoint)

    return ask
