"""Is a set whole: from candidates and the facts of their members to :class:`SetFacts`. Pure.

A new kind of set is a candidate type in ``candidate`` and a function here. Whether the members are sound is not
asked again: their records say so, and a set only names those that are not.
"""

from __future__ import annotations

from auditd.model_sets.assess_gguf import assess_split
from auditd.model_sets.assess_index import assess_index
from auditd.model_sets.candidate import Candidate, SplitCandidate
from auditd.model_sets.facts import SetFacts
from auditd.model_sets.parts import Members, Pause


def assess(
    candidate: Candidate, members: Members, *, standing_still: bool, pause: Pause = lambda: None
) -> SetFacts | None:
    """The facts of the set, or None where the files turn out to be no set.

    ``members`` holds the facts of those files of ``candidate.entries`` that have a record, by ``Entry.name``; one that
    is not in it is known by its name alone. Not ``standing_still``: something in the directory has changed so lately
    that what is missing may still come. ``pause`` is called now and then, and what it raises passes through.
    """
    if isinstance(candidate, SplitCandidate):
        return assess_split(candidate, members, standing_still=standing_still, pause=pause)
    return assess_index(candidate, members, standing_still=standing_still, pause=pause)
