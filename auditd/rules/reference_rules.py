"""Findings from digests: against what was published, against the last look, and against a second reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from auditd.evidence.expectation import Reference
from auditd.evidence.history import Earlier, Seen, changed_templates, is_same
from auditd.evidence.observation import Observation
from auditd.evidence.text import printable
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.safetensors.entries import SELF_HASH_KEY
from auditd.rules.draft import FindingDraft

#: SHA-256 of no bytes at all, which people meet in the evidence of empty files.
DIGEST_OF_NOTHING: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#: A download record holds its time in whole seconds or as a float: closer than this is the same time.
_TOUCH_NS: Final = 2_000_000_000

_NAMES_SHOWN: Final = 8


def of_digests(observation: Observation) -> Iterator[FindingDraft]:
    """Every finding that a digest, a size or an earlier look gives reason for."""
    yield from _of_size(observation)
    if is_unstable(observation):
        yield _unstable(observation)
    else:
        yield from _of_references(observation)
        yield from _of_silence(observation)
    yield from _of_self_hash(observation)
    yield from _of_changes(observation)
    for remark in observation.expectation.remarks:
        yield FindingDraft(remark.code, remark.message, subject="artifact", advice=remark.advice)


# -- what is not as it should be --------------------------------------------------------------------------


def actual_of(observation: Observation, reference: Reference) -> str | None:
    """The digest that stands against a reference: taken now, or earlier of this very state; None if it is not known."""
    known = _same_state(observation)
    if reference.algorithm == "sha256":
        return observation.sha256 or (None if known is None else known.sha256)
    return observation.git_sha1 or (None if known is None else known.git_sha1)


def _same_state(observation: Observation) -> Seen | None:
    """What an earlier record knew of the file as it is now, None where this look took its own digest."""
    same = None if observation.earlier is None else observation.earlier.same
    if observation.sha256 is not None or same is None or observation.identity != "unchanged":
        return None
    return same if is_same(same.identity, observation.before) else None


def broken_references(observation: Observation) -> list[Reference]:
    """The references that the content does not keep."""
    pairs = ((reference, actual_of(observation, reference)) for reference in observation.expectation.references)
    return [reference for reference, actual in pairs if actual is not None and actual != reference.value]


def is_silent_change(observation: Observation) -> bool:
    """Whether the content is another while the file is the same to the file system."""
    same = None if observation.earlier is None else observation.earlier.same
    if same is None or same.sha256 is None or observation.sha256 is None:
        return False
    return same.sha256 != observation.sha256 and is_same(same.identity, observation.before)


def is_unstable(observation: Observation) -> bool:
    """Whether two readings of the unchanged file differ."""
    return observation.sha256_again is not None and observation.sha256_again != observation.sha256


def _unstable(observation: Observation) -> FindingDraft:
    message = f"one reading gave sha256 {observation.sha256}, the next one {observation.sha256_again}, and the file did not change"
    return FindingDraft(
        "unstable_read",
        message,
        subject="artifact.sha256",
        expected=observation.sha256,
        actual=observation.sha256_again,
    )


def _of_size(observation: Observation) -> Iterator[FindingDraft]:
    expected = observation.expectation.size
    if expected is None or observation.size is None or observation.size == expected or observation.skipped:
        return
    difference = abs(expected - observation.size)
    words = "missing" if observation.size < expected else "too many"
    yield FindingDraft(
        "size_mismatch",
        f"{observation.size:,} bytes where {expected:,} were published: {difference:,} are {words}{_affected(observation)}",
        subject="artifact.size",
        expected=expected,
        actual=observation.size,
        verdict_override="truncated" if observation.size < expected else None,
    )


def _of_references(observation: Observation) -> Iterator[FindingDraft]:
    broken = broken_references(observation)
    if not broken:
        return
    first = broken[0]
    actual = actual_of(observation, first)
    message = (
        f"{first.algorithm} is {actual}{_said_of(observation)}{_taken(observation)}, and {printable(first.source)} says {first.value}"
        f"{_since(observation)}{_affected(observation)}"
    )
    yield FindingDraft(
        "digest_mismatch",
        message,
        subject="artifact.sha256" if first.algorithm == "sha256" else "digests.git_sha1",
        expected=first.value,
        actual=actual,
        count=len(broken),
    )


def _taken(observation: Observation) -> str:
    known = _same_state(observation)
    return "" if known is None else f" (taken on {known.recorded_at})"


def _said_of(observation: Observation) -> str:
    return ", the digest of nothing" if observation.sha256 == DIGEST_OF_NOTHING else ""


def _since(observation: Observation) -> str:
    """Whether the file was written after its download."""
    return "; it was changed after its download" if _is_newer(observation) else ""


def _affected(observation: Observation) -> str:
    """Who is affected: every name that people use for the file."""
    names = observation.expectation.names
    if not names:
        return ""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"; affected: {', '.join(printable(name, 200) for name in names[:_NAMES_SHOWN])}{more}"


def _of_silence(observation: Observation) -> Iterator[FindingDraft]:
    same = None if observation.earlier is None else observation.earlier.same
    if same is None or not is_silent_change(observation):
        return
    message = (
        f"sha256 was {same.sha256} on {same.recorded_at} and is {observation.sha256} now{_confirmed(observation)}; inode, size and "
        "times are the same"
    )
    yield FindingDraft(
        "silent_corruption", message, subject="artifact.sha256", expected=same.sha256, actual=observation.sha256
    )


def _confirmed(observation: Observation) -> str:
    return ", confirmed by a second reading" if observation.sha256_again == observation.sha256 else ""


def _of_self_hash(observation: Observation) -> Iterator[FindingDraft]:
    header, parts = observation.header, observation.parts
    if not isinstance(header, SafetensorsHeader) or parts is None or parts.tensor_data is None:
        return
    stated = (header.metadata or {}).get(SELF_HASH_KEY)
    if stated is None or observation.identity != "unchanged":
        return
    if stated.lower().removeprefix("0x") != parts.tensor_data:
        yield FindingDraft(
            "self_hash_differs",
            f"{SELF_HASH_KEY} is {printable(stated, 80)}, and the tensors hash to {parts.tensor_data}",
            subject=f"metadata.{SELF_HASH_KEY}",
            expected=printable(stated, 80),
            actual=parts.tensor_data,
        )


# -- what is another than before --------------------------------------------------------------------------


def _of_changes(observation: Observation) -> Iterator[FindingDraft]:
    if observation.earlier is not None and observation.identity == "unchanged":
        yield from _of_templates(observation, observation.earlier.before)
        yield from _of_header(observation, observation.earlier)
        yield from _of_weights(observation, observation.earlier.hashed)
    if (
        observation.sha256 is not None
        and observation.expectation.references
        and not broken_references(observation)
        and _is_newer(observation)
    ):
        yield FindingDraft(
            "touched", "its time is newer than its download record, and its content is the published one"
        )


def _is_newer(observation: Observation) -> bool:
    downloaded = observation.expectation.downloaded_ns
    return (
        downloaded is not None
        and observation.before is not None
        and int(observation.before.mtime_ns) > downloaded + _TOUCH_NS
    )


def _of_templates(observation: Observation, before: Seen | None) -> Iterator[FindingDraft]:
    if before is None or before.templates is None:
        return
    if not isinstance(observation.header, GgufHeader) or observation.header.metadata_end is None:
        return
    changed = list(changed_templates(before.templates, observation.header.templates))
    if changed:
        name, old, new = changed[0]
        how = "is gone" if new is None else "is new" if old is None else "is another"
        yield FindingDraft(
            "template_changed",
            f"the chat template {printable(name, 80)} {how} since {before.recorded_at}",
            subject="gguf.chat_templates",
            expected=old,
            actual=new,
            count=len(changed),
        )


def _of_header(observation: Observation, earlier: Earlier) -> Iterator[FindingDraft]:
    before = earlier.before
    if before is None or before.header_sha256 is None or observation.header_sha256 in (None, before.header_sha256):
        return
    same = _same_weights(observation, earlier.hashed)
    weights = {True: "; the tensor data is the same", False: "; the tensor data is another, too", None: ""}[same]
    yield FindingDraft(
        "header_changed",
        f"the header is another than on {before.recorded_at}{weights}",
        subject="read.header_sha256",
        expected=before.header_sha256,
        actual=observation.header_sha256,
    )


def _same_weights(observation: Observation, hashed: Seen | None) -> bool | None:
    """Whether the tensor data is that of an earlier look; None if that cannot be said."""
    if hashed is None or observation.sha256 is None:
        return None
    now = None if observation.parts is None else observation.parts.tensor_data
    if hashed.tensor_data is not None and now is not None:
        return hashed.tensor_data == now
    if hashed.sha256 == observation.sha256:
        return True
    # The same header before another file: what differs is behind it.
    return False if hashed.header_sha256 == observation.header_sha256 is not None else None


def _of_weights(observation: Observation, hashed: Seen | None) -> Iterator[FindingDraft]:
    if hashed is None or _same_weights(observation, hashed) is not False:
        return
    now = None if observation.parts is None else observation.parts.tensor_data
    by_part = hashed.tensor_data is not None and now is not None
    yield FindingDraft(
        "weights_changed",
        f"the tensor data is another than on {hashed.recorded_at}",
        subject="digests.tensor_data" if by_part else "artifact.sha256",
        expected=hashed.tensor_data if by_part else hashed.sha256,
        actual=now if by_part else observation.sha256,
    )
