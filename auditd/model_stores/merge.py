"""What several sources say of one file, as one promise. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from auditd.evidence.expectation import NOTHING, Expectation, Role


def merge(expectations: Iterable[Expectation]) -> Expectation:
    """Several promises as one: the first store and size count, names and references are joined, each once.

    Two who say the same digest are both kept: that they agree is worth knowing.
    """
    total = NOTHING
    for expectation in expectations:
        if expectation == NOTHING:
            continue
        total = replace(
            total,
            store=total.store or expectation.store,
            names=tuple(dict.fromkeys((*total.names, *expectation.names))),
            references=tuple(dict.fromkeys((*total.references, *expectation.references))),
            size=expectation.size if total.size is None else total.size,
            role=_role(total, expectation),
            downloaded_ns=expectation.downloaded_ns if total.downloaded_ns is None else total.downloaded_ns,
            remarks=tuple(dict.fromkeys((*total.remarks, *expectation.remarks))),
        )
    return total


def _role(total: Expectation, expectation: Expectation) -> Role:
    """Only a store knows what is no model. A file that one name makes a model is one."""
    if expectation.store is None:
        return total.role
    return expectation.role if total.store is None or expectation.role == "model" else total.role
