"""What several sources say of one file, as one promise. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from auditd.evidence.promise import NOTHING, Promise, Role


def together(promises: Iterable[Promise]) -> Promise:
    """Several promises as one: the first store and size count, names and references are joined, each once.

    Two who say the same digest are both kept: that they agree is worth knowing.
    """
    total = NOTHING
    for promise in promises:
        if promise == NOTHING:
            continue
        total = replace(
            total,
            store=total.store or promise.store,
            names=tuple(dict.fromkeys((*total.names, *promise.names))),
            references=tuple(dict.fromkeys((*total.references, *promise.references))),
            size=promise.size if total.size is None else total.size,
            role=_role(total, promise),
            downloaded_ns=promise.downloaded_ns if total.downloaded_ns is None else total.downloaded_ns,
            remarks=tuple(dict.fromkeys((*total.remarks, *promise.remarks))),
        )
    return total


def _role(total: Promise, promise: Promise) -> Role:
    """Only a store knows what is no model. A file that one name makes a model is one."""
    if promise.store is None:
        return total.role
    return promise.role if total.store is None or promise.role == "model" else total.role
