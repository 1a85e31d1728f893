"""Findings from digests: against what was published, against the last look, and against a second reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from auditd.evidence.history import Earlier, Seen, changed_templates, is_same
from auditd.evidence.judged import Judged
from auditd.evidence.look import Look
from auditd.evidence.promise import Reference
from auditd.evidence.text import printable
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.safetensors.entries import SELF_HASH_KEY

#: SHA-256 of no bytes at all, which people meet in the evidence of empty files.
DIGEST_OF_NOTHING: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#: A download record holds its time in whole seconds or as a float: closer than this is the same time.
_TOUCH_NS: Final = 2_000_000_000

_NAMES_SHOWN: Final = 8


def of_digests(look: Look) -> Iterator[Judged]:
    """Every finding that a digest, a size or an earlier look gives reason for."""
    yield from _of_size(look)
    if is_unstable(look):
        yield _unstable(look)
    else:
        yield from _of_references(look)
        yield from _of_silence(look)
    yield from _of_self_hash(look)
    yield from _of_changes(look)
    for remark in look.promise.remarks:
        yield Judged(remark.code, remark.message, subject="artifact", advice=remark.advice)


# -- what is not as it should be --------------------------------------------------------------------------


def actual_of(look: Look, reference: Reference) -> str | None:
    """The digest that stands against a reference: taken now, or earlier of this very state; None if it is not known."""
    known = _same_state(look)
    if reference.algorithm == "sha256":
        return look.sha256 or (None if known is None else known.sha256)
    return look.git_sha1 or (None if known is None else known.git_sha1)


def _same_state(look: Look) -> Seen | None:
    """What an earlier record knew of the file as it is now, None where this look took its own digest."""
    same = None if look.earlier is None else look.earlier.same
    if look.sha256 is not None or same is None or look.identity != "unchanged":
        return None
    return same if is_same(same.identity, look.before) else None


def broken_references(look: Look) -> list[Reference]:
    """The references that the content does not keep."""
    pairs = ((reference, actual_of(look, reference)) for reference in look.promise.references)
    return [reference for reference, actual in pairs if actual is not None and actual != reference.value]


def is_silent_change(look: Look) -> bool:
    """Whether the content is another while the file is the same to the file system."""
    same = None if look.earlier is None else look.earlier.same
    if same is None or same.sha256 is None or look.sha256 is None:
        return False
    return same.sha256 != look.sha256 and is_same(same.identity, look.before)


def is_unstable(look: Look) -> bool:
    """Whether two readings of the unchanged file differ."""
    return look.sha256_again is not None and look.sha256_again != look.sha256


def _unstable(look: Look) -> Judged:
    message = f"one reading gave sha256 {look.sha256}, the next one {look.sha256_again}, and the file did not change"
    return Judged("unstable_read", message, subject="artifact.sha256", expected=look.sha256, actual=look.sha256_again)


def _of_size(look: Look) -> Iterator[Judged]:
    promised = look.promise.size
    if promised is None or look.size is None or look.size == promised or look.skipped:
        return
    difference = abs(promised - look.size)
    words = "missing" if look.size < promised else "too many"
    yield Judged(
        "size_mismatch",
        f"{look.size:,} bytes where {promised:,} were published: {difference:,} are {words}{_affected(look)}",
        subject="artifact.size",
        expected=promised,
        actual=look.size,
        verdict_override="truncated" if look.size < promised else None,
    )


def _of_references(look: Look) -> Iterator[Judged]:
    broken = broken_references(look)
    if not broken:
        return
    first = broken[0]
    actual = actual_of(look, first)
    message = (
        f"{first.algorithm} is {actual}{_said_of(look)}{_taken(look)}, and {printable(first.source)} says {first.value}"
        f"{_since(look)}{_affected(look)}"
    )
    yield Judged(
        "digest_mismatch",
        message,
        subject="artifact.sha256" if first.algorithm == "sha256" else "digests.git_sha1",
        expected=first.value,
        actual=actual,
        count=len(broken),
    )


def _taken(look: Look) -> str:
    known = _same_state(look)
    return "" if known is None else f" (taken on {known.recorded_at})"


def _said_of(look: Look) -> str:
    return ", the digest of nothing" if look.sha256 == DIGEST_OF_NOTHING else ""


def _since(look: Look) -> str:
    """Whether the file was written after its download."""
    return "; it was changed after its download" if _is_newer(look) else ""


def _affected(look: Look) -> str:
    """Who is affected: every name that people use for the file."""
    names = look.promise.names
    if not names:
        return ""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"; affected: {', '.join(printable(name, 200) for name in names[:_NAMES_SHOWN])}{more}"


def _of_silence(look: Look) -> Iterator[Judged]:
    same = None if look.earlier is None else look.earlier.same
    if same is None or not is_silent_change(look):
        return
    message = (
        f"sha256 was {same.sha256} on {same.recorded_at} and is {look.sha256} now{_confirmed(look)}; inode, size and "
        "times are the same"
    )
    yield Judged("silent_corruption", message, subject="artifact.sha256", expected=same.sha256, actual=look.sha256)


def _confirmed(look: Look) -> str:
    return ", confirmed by a second reading" if look.sha256_again == look.sha256 else ""


def _of_self_hash(look: Look) -> Iterator[Judged]:
    header, parts = look.header, look.parts
    if not isinstance(header, SafetensorsHeader) or parts is None or parts.tensor_data is None:
        return
    stated = (header.metadata or {}).get(SELF_HASH_KEY)
    if stated is None or look.identity != "unchanged":
        return
    if stated.lower().removeprefix("0x") != parts.tensor_data:
        yield Judged(
            "self_hash_differs",
            f"{SELF_HASH_KEY} is {printable(stated, 80)}, and the tensors hash to {parts.tensor_data}",
            subject=f"metadata.{SELF_HASH_KEY}",
            expected=printable(stated, 80),
            actual=parts.tensor_data,
        )


# -- what is another than before --------------------------------------------------------------------------


def _of_changes(look: Look) -> Iterator[Judged]:
    if look.earlier is not None and look.identity == "unchanged":
        yield from _of_templates(look, look.earlier.before)
        yield from _of_header(look, look.earlier)
        yield from _of_weights(look, look.earlier.hashed)
    if look.sha256 is not None and look.promise.references and not broken_references(look) and _is_newer(look):
        yield Judged("touched", "its time is newer than its download record, and its content is the published one")


def _is_newer(look: Look) -> bool:
    downloaded = look.promise.downloaded_ns
    return downloaded is not None and look.before is not None and int(look.before.mtime_ns) > downloaded + _TOUCH_NS


def _of_templates(look: Look, before: Seen | None) -> Iterator[Judged]:
    if before is None or before.templates is None:
        return
    if not isinstance(look.header, GgufHeader) or look.header.metadata_end is None:
        return
    changed = list(changed_templates(before.templates, look.header.templates))
    if changed:
        name, old, new = changed[0]
        how = "is gone" if new is None else "is new" if old is None else "is another"
        yield Judged(
            "template_changed",
            f"the chat template {printable(name, 80)} {how} since {before.recorded_at}",
            subject="gguf.chat_templates",
            expected=old,
            actual=new,
            count=len(changed),
        )


def _of_header(look: Look, earlier: Earlier) -> Iterator[Judged]:
    before = earlier.before
    if before is None or before.header_sha256 is None or look.header_sha256 in (None, before.header_sha256):
        return
    same = _same_weights(look, earlier.hashed)
    weights = {True: "; the tensor data is the same", False: "; the tensor data is another, too", None: ""}[same]
    yield Judged(
        "header_changed",
        f"the header is another than on {before.recorded_at}{weights}",
        subject="read.header_sha256",
        expected=before.header_sha256,
        actual=look.header_sha256,
    )


def _same_weights(look: Look, hashed: Seen | None) -> bool | None:
    """Whether the tensor data is that of an earlier look; None if that cannot be said."""
    if hashed is None or look.sha256 is None:
        return None
    now = None if look.parts is None else look.parts.tensor_data
    if hashed.tensor_data is not None and now is not None:
        return hashed.tensor_data == now
    if hashed.sha256 == look.sha256:
        return True
    # The same header before another file: what differs is behind it.
    return False if hashed.header_sha256 == look.header_sha256 is not None else None


def _of_weights(look: Look, hashed: Seen | None) -> Iterator[Judged]:
    if hashed is None or _same_weights(look, hashed) is not False:
        return
    now = None if look.parts is None else look.parts.tensor_data
    by_part = hashed.tensor_data is not None and now is not None
    yield Judged(
        "weights_changed",
        f"the tensor data is another than on {hashed.recorded_at}",
        subject="digests.tensor_data" if by_part else "artifact.sha256",
        expected=hashed.tensor_data if by_part else hashed.sha256,
        actual=now if by_part else look.sha256,
    )
