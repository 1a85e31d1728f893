"""What a look really looked at, aspect by aspect, and why not the rest."""

from __future__ import annotations

from collections.abc import Sequence

from auditd.evidence.observation import Observation
from auditd.evidence.record import Cover, Coverage
from auditd.evidence.rows import established_length
from auditd.formats.declarations import GgufHeader, SafetensorsHeader

_ROWS_LEFT_OUT = "rows past the retained 32 MiB are counted and not kept"


def coverage_part(observation: Observation) -> Coverage:
    """The eight aspects of a look."""
    reason = _why_not(observation)
    return Coverage(
        header=_header(observation, reason),
        metadata=_metadata(observation, reason),
        tensors=_tensors(observation, reason),
        storage_sizes=_sizes(observation, reason),
        ranges=_ranges(observation, reason),
        padding=_padding(observation, reason),
        digest=_digest(observation, reason),
        identity=_identity(observation, reason),
    )


def _why_not(observation: Observation) -> str:
    """Why anything at all is not complete."""
    if observation.skipped:
        return "not read: its name says that a download is under way"
    if observation.stop is not None:
        return observation.stop.message
    if observation.foreign is not None:
        return "neither GGUF nor safetensors"
    if observation.header is not None and observation.header.stopped is not None:
        return observation.header.stopped.message
    return "the header was not read to its end"


def _share(done: int, declared: int | None, *, kept: bool, complete: bool, reason: str) -> Cover:
    """Coverage of a collection of rows: all of it, its beginning, or nothing."""
    if complete:
        return Cover(status="complete") if kept else Cover(status="partial", reason=_ROWS_LEFT_OUT)
    if not done:
        return Cover(status="none", reason=reason)
    return Cover(status="partial", reason=f"{done} of {declared}: {reason}")


def _header(observation: Observation, reason: str) -> Cover:
    header = observation.header
    if header is None:
        return Cover(status="none", reason=reason)
    if header.complete:
        return Cover(status="complete")
    begun = isinstance(header, GgufHeader) and header.version is not None
    return Cover(status="partial" if begun else "none", reason=reason)


def _metadata(observation: Observation, reason: str) -> Cover:
    header = observation.header
    if isinstance(header, GgufHeader):
        complete = header.metadata_end is not None
        kept = len(header.metadata) == header.metadata_done
        return _share(header.metadata_done, header.metadata_count, kept=kept, complete=complete, reason=reason)
    if isinstance(header, SafetensorsHeader) and header.complete:
        return Cover(status="complete") if header.metadata_kept else Cover(status="partial", reason=_ROWS_LEFT_OUT)
    return Cover(status="none", reason=reason)


def _tensors(observation: Observation, reason: str) -> Cover:
    header = observation.header
    if isinstance(header, GgufHeader):
        done = len(header.columns)
        kept = len(header.tensors) == done
        return _share(done, header.tensor_count, kept=kept, complete=header.complete, reason=reason)
    if isinstance(header, SafetensorsHeader) and header.complete:
        done = header.tensor_count or 0
        return _share(done, done, kept=header.rows_complete, complete=True, reason=reason)
    return Cover(status="none", reason=reason)


def _sizes(observation: Observation, reason: str) -> Cover:
    header = observation.header
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


def _ranges(observation: Observation, reason: str) -> Cover:
    account = observation.account
    if account is None:
        return Cover(status="none", reason=reason)
    if account.data_offset is None:
        return Cover(status="partial", reason="the data start is unknown, so no extent has a place")
    if account.figures.residue is None:
        return Cover(status="partial", reason="tensors without a size, or sizes on which the layouts differ")
    if account.basis in (None, "established"):
        return Cover(status="complete")
    return Cover(status="partial", reason=f"the ends of some extents rest on the layout {account.layout}")


def _padding(observation: Observation, reason: str) -> Cover:
    if observation.scope == "header":
        return Cover(status="not_requested", reason="read in full mode only")
    if observation.scanned is None:
        return Cover(status="none", reason=reason)
    return Cover(status="complete") if observation.scanned.complete else Cover(status="partial", reason=reason)


def _digest(observation: Observation, reason: str) -> Cover:
    if observation.scope == "header":
        return Cover(status="not_requested", reason="the header's digest says nothing of the weights")
    if observation.sha256 is not None and observation.sha256_again not in (None, observation.sha256):
        return Cover(status="partial", reason="two readings gave two digests")
    if observation.sha256 is not None:
        return Cover(status="complete")
    if observation.identity in ("modified", "replaced"):
        return Cover(status="none", reason="the file changed while it was read")
    if not observation.bytes_hashed:
        return Cover(status="none", reason=reason)
    return Cover(status="partial", reason=f"{observation.bytes_hashed} of {observation.size} bytes: {reason}")


def _identity(observation: Observation, reason: str) -> Cover:
    if observation.before is None:
        return Cover(status="none", reason=reason)
    if observation.after is None:
        return Cover(status="partial", reason=f"seen before the reading only: {reason}")
    return Cover(status="complete")
