"""What a look really looked at, aspect by aspect, and why not the rest."""

from __future__ import annotations

from collections.abc import Sequence

from auditd.evidence.look import Look
from auditd.evidence.record import Cover, Coverage
from auditd.evidence.rows import established_length
from auditd.formats.declarations import GgufHeader, SafetensorsHeader

_ROWS_LEFT_OUT = "rows past the retained 32 MiB are counted and not kept"


def coverage_part(look: Look) -> Coverage:
    """The eight aspects of a look."""
    reason = _why_not(look)
    return Coverage(
        header=_header(look, reason),
        metadata=_metadata(look, reason),
        tensors=_tensors(look, reason),
        storage_sizes=_sizes(look, reason),
        ranges=_ranges(look, reason),
        padding=_padding(look, reason),
        digest=_digest(look, reason),
        identity=_identity(look, reason),
    )


def _why_not(look: Look) -> str:
    """Why anything at all is not complete."""
    if look.skipped:
        return "not read: its name says that a download is under way"
    if look.stop is not None:
        return look.stop.message
    if look.foreign is not None:
        return "neither GGUF nor safetensors"
    if look.header is not None and look.header.stopped is not None:
        return look.header.stopped.message
    return "the header was not read to its end"


def _share(done: int, declared: int | None, *, kept: bool, complete: bool, reason: str) -> Cover:
    """Coverage of a collection of rows: all of it, its beginning, or nothing."""
    if complete:
        return Cover(status="complete") if kept else Cover(status="partial", reason=_ROWS_LEFT_OUT)
    if not done:
        return Cover(status="none", reason=reason)
    return Cover(status="partial", reason=f"{done} of {declared}: {reason}")


def _header(look: Look, reason: str) -> Cover:
    header = look.header
    if header is None:
        return Cover(status="none", reason=reason)
    if header.complete:
        return Cover(status="complete")
    begun = isinstance(header, GgufHeader) and header.version is not None
    return Cover(status="partial" if begun else "none", reason=reason)


def _metadata(look: Look, reason: str) -> Cover:
    header = look.header
    if isinstance(header, GgufHeader):
        complete = header.metadata_end is not None
        kept = len(header.metadata) == header.metadata_done
        return _share(header.metadata_done, header.metadata_count, kept=kept, complete=complete, reason=reason)
    if isinstance(header, SafetensorsHeader) and header.complete:
        return Cover(status="complete") if header.metadata_kept else Cover(status="partial", reason=_ROWS_LEFT_OUT)
    return Cover(status="none", reason=reason)


def _tensors(look: Look, reason: str) -> Cover:
    header = look.header
    if isinstance(header, GgufHeader):
        done = len(header.columns)
        kept = len(header.tensors) == done
        return _share(done, header.tensor_count, kept=kept, complete=header.complete, reason=reason)
    if isinstance(header, SafetensorsHeader) and header.complete:
        done = header.tensor_count or 0
        return _share(done, done, kept=header.rows_complete, complete=True, reason=reason)
    return Cover(status="none", reason=reason)


def _sizes(look: Look, reason: str) -> Cover:
    header = look.header
    if header is None or not header.tensors:
        return (
            Cover(status="complete") if header is not None and header.complete else Cover(status="none", reason=reason)
        )
    if isinstance(header, GgufHeader):
        known: Sequence[bool] = [established_length(tensor) is not None for tensor in header.tensors]
    else:
        known = [tensor.validation == "consistent" for tensor in header.tensors]
    if all(known) and header.complete and header.rows_complete:
        return Cover(status="complete")
    unknown = f"{len(known) - sum(known)} of {len(known)} kept rows have a size that is not established"
    return Cover(
        status="partial", reason=unknown if not all(known) else reason if not header.complete else _ROWS_LEFT_OUT
    )


def _ranges(look: Look, reason: str) -> Cover:
    account = look.account
    if account is None:
        return Cover(status="none", reason=reason)
    if account.data_offset is None:
        return Cover(status="partial", reason="the data start is unknown, so no extent has a place")
    if account.figures.residue is None:
        return Cover(status="partial", reason="tensors without a size, or sizes on which the layouts differ")
    if account.basis in (None, "established"):
        return Cover(status="complete")
    return Cover(status="partial", reason=f"the ends of some extents rest on the layout {account.layout}")


def _padding(look: Look, reason: str) -> Cover:
    if look.scope == "header":
        return Cover(status="not_requested", reason="read in full mode only")
    if look.scanned is None:
        return Cover(status="none", reason=reason)
    return Cover(status="complete") if look.scanned.complete else Cover(status="partial", reason=reason)


def _digest(look: Look, reason: str) -> Cover:
    if look.scope == "header":
        return Cover(status="not_requested", reason="the header's digest says nothing of the weights")
    if look.sha256 is not None and look.sha256_again not in (None, look.sha256):
        return Cover(status="partial", reason="two readings gave two digests")
    if look.sha256 is not None:
        return Cover(status="complete")
    if look.identity in ("modified", "replaced"):
        return Cover(status="none", reason="the file changed while it was read")
    if not look.bytes_hashed:
        return Cover(status="none", reason=reason)
    return Cover(status="partial", reason=f"{look.bytes_hashed} of {look.size} bytes: {reason}")


def _identity(look: Look, reason: str) -> Cover:
    if look.before is None:
        return Cover(status="none", reason=reason)
    if look.after is None:
        return Cover(status="partial", reason=f"seen before the reading only: {reason}")
    return Cover(status="complete")
