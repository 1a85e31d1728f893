"""What a record cannot say, and why: its limitations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from auditd.accounting.account import Account
from auditd.evidence.exactness import is_exact
from auditd.evidence.observation import Observation
from auditd.evidence.record import Limitation
from auditd.evidence.rows import established_length
from auditd.formats import layouts
from auditd.formats.declarations import GgufHeader, GgufTensor, SafetensorsHeader
from auditd.formats.dtypes import DTYPE_BITS
from auditd.formats.quoting import shown

#: Subjects that a limitation names; its count is exact.
SUBJECTS: Final = 1000

#: Bytes that one element takes at most, in any type.
_WIDEST: Final = 8


def limitations_part(observation: Observation) -> list[Limitation]:
    """The limitations of a look, in a fixed order."""
    if observation.identity in ("modified", "replaced"):
        message = "the file changed while it was read: what was read may belong to two files"
        return [_plain("identity_changed", message), *_of_owner(observation)]
    return [
        *_of_types(observation),
        *_of_rows(observation),
        *_of_integers(observation),
        *_of_place(observation),
        *_of_owner(observation),
        *_of_close(observation),
    ]


def _plain(code: str, message: str, subjects: Sequence[str] = (), count: int = 1) -> Limitation:
    return Limitation(code=code, message=message, subjects=list(subjects[:SUBJECTS]), count=count)


def _of_types(observation: Observation) -> Iterator[Limitation]:
    if isinstance(observation.header, GgufHeader):
        by_type: dict[int, list[GgufTensor]] = {}
        for tensor in observation.header.tensors:
            by_type.setdefault(tensor.type_id, []).append(tensor)
        for type_id in sorted(by_type):
            limitation = _of_type(type_id, by_type[type_id])
            if limitation is not None:
                yield limitation
    elif isinstance(observation.header, SafetensorsHeader):
        yield from _of_dtypes(observation.header)


def _of_type(type_id: int, tensors: list[GgufTensor]) -> Limitation | None:
    """Why tensors of a type have no established size, or no established name."""
    everyone = [f"tensors[{tensor.index}]" for tensor in tensors]
    sized = [f"tensors[{tensor.index}]" for tensor in tensors if tensor.elements != 0]
    if type_id in layouts.SHIFTED_IDS:
        meanings = "; ".join(f"{name} in {releases}" for name, releases in layouts.released_meanings(type_id))
        message = f"type {type_id} has had several released meanings: {meanings}. The file does not say which"
        return _plain("ambiguous_type", message, everyone, len(everyone))
    if not sized or type_id in layouts.ESTABLISHED:
        return None
    return _plain(*_unsized(type_id), sized, len(sized))


def _unsized(type_id: int) -> tuple[str, str]:
    if type_id == layouts.Q8_1:
        return "ambiguous_size", "Q8_1 takes 40 bytes per 32 elements in b1500 and 36 now; the file does not say which"
    if type_id in layouts.K_IDS:
        new, old = layouts.CURRENT[type_id], layouts.LAYOUTS["k64"].sizings[type_id]
        message = (
            f"{new.name} takes {new.size} bytes per {new.block} elements, or {old.size} per {old.block} in builds with "
            "64-element super-blocks (b1500 up to before b3001); the file does not say which"
        )
        return "ambiguous_size", message
    if layouts.is_contested(type_id):
        return "contested_type", f"type {type_id} is claimed by forks; its meaning is not settled"
    if layouts.is_removed(type_id):
        return (
            "removed_type",
            f"type {type_id} ({layouts.REMOVED[type_id]}) was removed from ggml; its size is not established",
        )
    return "unknown_type", f"no release knows type {type_id}"


def _of_dtypes(header: SafetensorsHeader) -> Iterator[Limitation]:
    unknown: dict[str, list[str]] = {}
    for index, tensor in enumerate(header.tensors):
        if tensor.dtype not in DTYPE_BITS:
            unknown.setdefault(tensor.dtype, []).append(f"tensors[{index}]")
    for dtype, subjects in unknown.items():
        message = f"the dtype {shown(dtype)} is not known: its range is taken, its shape cannot be checked against it"
        yield _plain("unknown_dtype", message, subjects, len(subjects))


def _of_rows(observation: Observation) -> Iterator[Limitation]:
    header = observation.header
    if header is None or (isinstance(header, SafetensorsHeader) and not header.complete):
        return
    if not header.rows_complete or (isinstance(header, SafetensorsHeader) and not header.metadata_kept):
        yield _plain(
            "rows_not_kept", "the declarations are larger than the 32 MiB that are kept; figures cover all of them"
        )


def _of_integers(observation: Observation) -> Iterator[Limitation]:
    """Integers that no JSON reader would take exactly: null in their place."""
    account = observation.account
    if observation.size is not None and not is_exact(observation.size):
        yield _plain("integer_range", "the file is larger than 2^53 - 1 bytes, so its size is null", ["artifact.size"])
    large = [*_large_counts(observation.header), *_large_figures(account)]
    tensors = _large_tensors(observation.header)
    count = len(tensors)
    if account is not None and account.out_of_range is not None:
        tensors = sorted({*tensors, account.out_of_range.first})
        count = max(len(tensors), account.out_of_range.count)
    if large or tensors:
        yield _plain(
            "integer_range",
            "figures past 2^53 - 1 are null: not every reader takes them exactly",
            [*large, *(f"tensors[{index}]" for index in tensors[:SUBJECTS])],
            len(large) + count,
        )


def _large_counts(header: GgufHeader | SafetensorsHeader | None) -> Iterator[str]:
    """Fields of a header itself: what is declared there need not be in the file."""
    if isinstance(header, GgufHeader):
        for name in ("tensor_count", "metadata_count"):
            if not is_exact(getattr(header, name) or 0):
                yield f"gguf.{name}"


def _large_figures(account: Account | None) -> list[str]:
    names = ("tensor_bytes", "alignment_padding", "remainder", "surplus", "missing", "overlap", "residue")
    figures = None if account is None else account.figures
    return [f"accounting.{name}" for name in names if not is_exact(getattr(figures, name, None) or 0)]


def _large_tensors(header: GgufHeader | SafetensorsHeader | None) -> list[int]:
    """Kept rows whose place, end or length is null for this reason, empty tensors among them."""
    if header is None:
        return []
    begin = header.data_offset or 0
    if isinstance(header, SafetensorsHeader):
        ends = ((index, begin + max(tensor.begin, tensor.end)) for index, tensor in enumerate(header.tensors))
        return [index for index, end in ends if not is_exact(end)]
    return [
        tensor.index
        for tensor in header.tensors
        if not is_exact(begin + tensor.offset)
        or (not is_exact((tensor.elements or 0) * _WIDEST) and not is_exact(established_length(tensor) or 0))
    ]


def _of_place(observation: Observation) -> Iterator[Limitation]:
    if observation.account is not None and observation.account.data_offset is None:
        yield _plain("data_offset_unknown", "the data start cannot be computed, so no tensor has a place in the file")


def _of_owner(observation: Observation) -> Iterator[Limitation]:
    """Owners that the user namespace of the inspecting process has no number for: null, not the kernel's stand-in."""
    seen = {"before": observation.before, "after": observation.after}
    subjects = [
        f"identity.{when}.{name}"
        for when, identity in seen.items()
        if identity is not None
        for name, number in (("uid", identity.uid), ("gid", identity.gid))
        if number is None
    ]
    if subjects:
        message = "the user namespace of the inspecting process has no number for the owner, so it is null"
        yield _plain("owner_unmapped", message, subjects, len(subjects))


def _of_close(observation: Observation) -> Iterator[Limitation]:
    if observation.close_errno is not None:
        yield _plain(
            "close_failed", f"closing the file failed (errno {observation.close_errno}); it is not tried again"
        )
