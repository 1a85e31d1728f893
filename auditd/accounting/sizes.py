"""Which sizes of tensor types an account's figures are made of: the one answer to it."""

from __future__ import annotations

from collections.abc import Mapping

from auditd.accounting.account import Account
from auditd.formats import layouts
from auditd.formats.layouts import LAYOUTS, Sizing


def sizings_of(account: Account | None) -> Mapping[int, Sizing]:
    """Type id to sizing; without an account only what every released layout agrees on."""
    if account is None:
        return layouts.ESTABLISHED
    if account.layout is not None:
        applicable = any(c.applicable for c in account.candidates if account.layout in c.names)
        return sizings(account.layout, applicable=applicable)
    if account.figures.residue is not None:
        # None was chosen, and all that apply agree.
        agreeing = next((c.layout.name for c in account.candidates if c.applicable), None)
        return sizings(agreeing, applicable=True)
    return layouts.ESTABLISHED


def sizings(layout: str | None, *, applicable: bool) -> Mapping[int, Sizing]:
    """The sizes of a layout by its name, established ones for None or a name of another version.

    Where it is not ``applicable``, types that forks claim have no size: nothing came out with them.
    """
    if layout is None or layout not in LAYOUTS:
        return layouts.ESTABLISHED
    known = LAYOUTS[layout].sizings
    if applicable:
        return known
    return {type_id: sizing for type_id, sizing in known.items() if not layouts.is_contested(type_id)}
