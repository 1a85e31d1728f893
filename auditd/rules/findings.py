"""Every finding code, once: its severity, the verdict it makes, what it means and what to do.

A new finding is a row in :data:`FINDINGS`; a new rule is a member of ``auditd.formats.faults.Constraint`` and
a row in :data:`CONSTRAINTS`. The README's tables and the alerts read from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from auditd.formats.faults import Constraint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from auditd.evidence.record import Severity, Verdict

#: Worst first. ``in_progress`` stands alone: an unfinished download is neither good nor bad.
VERDICT_ORDER: Final[tuple[Verdict, ...]] = (
    "mismatch",
    "malformed",
    "truncated",
    "residue",
    "unsupported",
    "foreign",
    "unknown",
    "undetermined",
    "notice",
    "sound",
)

#: Mildest first.
SEVERITY_ORDER: Final[tuple[Severity, ...]] = ("info", "notice", "warning", "critical")

VERDICT_MEANINGS: Final[dict[Verdict, str]] = {
    "sound": "everything that was looked at is as it should be",
    "notice": "no rule is broken, and there is something that a person should know",
    "undetermined": "looked at, and the sizes of some tensors cannot be established from the file",
    "unknown": "could not be looked at, or not to the end",
    "in_progress": "a download that is not finished",
    "foreign": "not a GGUF or safetensors file",
    "unsupported": "a version of the format that this program does not read",
    "residue": "bytes in the file that belong to nothing",
    "truncated": "bytes that the header promises are not there",
    "malformed": "the header breaks a rule of its format",
    "mismatch": "the content is not what was published",
}


@dataclass(frozen=True, slots=True)
class FindingKind:
    """One row: ``verdict`` is what the artifact is called when nothing worse is found."""

    severity: Severity
    verdict: Verdict
    meaning: str
    advice: str


_AGAIN = "Fetch the file again and compare its size and digest with the publisher's."
_NOTHING = "Nothing to do."

FINDINGS: Final[dict[str, FindingKind]] = {
    "digest_mismatch": FindingKind(
        "critical", "mismatch", "the content is not what was published under this name", "Do not load it. " + _AGAIN
    ),
    "silent_corruption": FindingKind(
        "critical",
        "mismatch",
        "the content changed, and the file system says that nobody wrote to it",
        "Do not load it. Check the disk and the memory of this host, then fetch the file again.",
    ),
    "size_mismatch": FindingKind(
        "critical", "mismatch", "the size is not the one that was published", "Do not load it. " + _AGAIN
    ),
    "unstable_read": FindingKind(
        "critical",
        "unknown",
        "two readings of an unchanged file gave two contents: this host reads it differently each time",
        "Suspect this host, not the file: test its memory, look at its kernel log, and read the file elsewhere.",
    ),
    "header_malformed": FindingKind(
        "critical", "malformed", "the header breaks a rule of its format", "Do not load it. " + _AGAIN
    ),
    "header_truncated": FindingKind(
        "critical", "truncated", "the file ends inside its own header", "The download did not finish. " + _AGAIN
    ),
    "tensor_bytes_missing": FindingKind(
        "critical", "truncated", "tensors reach past the end of the file", "The download did not finish. " + _AGAIN
    ),
    "tensor_overlap": FindingKind(
        "critical", "malformed", "two tensors claim the same bytes", "Do not load it. " + _AGAIN
    ),
    "extent_out_of_range": FindingKind(
        "critical", "malformed", "a tensor's place in the file is past 2^53 - 1", "Do not load it. " + _AGAIN
    ),
    "offset_misaligned": FindingKind(
        "warning",
        "malformed",
        "a tensor begins at an offset that is no multiple of the alignment",
        "Stock loaders refuse it. Convert the model again.",
    ),
    "unowned_bytes": FindingKind(
        "critical",
        "residue",
        "bytes that no tensor and no padding owns",
        "Compare its size with the publisher's: something may have been appended. Inspecting it lists the places.",
    ),
    "residue_under_every_layout": FindingKind(
        "critical",
        "residue",
        "the bytes come out under no released layout, and the offsets agree with none",
        "Do not load it. " + _AGAIN,
    ),
    "unsupported_version": FindingKind(
        "warning", "unsupported", "a GGUF version that is not read here", "Convert the model to GGUF 3."
    ),
    "not_a_model": FindingKind(
        "warning", "foreign", "neither GGUF nor safetensors", "Look at what it really is before anything loads it."
    ),
    "resource_limit": FindingKind(
        "warning",
        "undetermined",
        "a declaration is larger than this program follows",
        "No real model is known to need this. Check where the file comes from.",
    ),
    "size_unestablished": FindingKind(
        "notice",
        "undetermined",
        "the size of some tensors is not established",
        "If you know the program that wrote it, name its layout with --layout or in the configuration.",
    ),
    "read_failed": FindingKind(
        "warning", "unknown", "the file could not be read to the end", "Check the disk and the kernel log of this host."
    ),
    "read_abandoned": FindingKind(
        "warning", "unknown", "a read did not return in time", "Check the mount that the file is on."
    ),
    "path_unavailable": FindingKind(
        "warning", "unknown", "the path cannot be opened", "Check that it exists and that this program may read it."
    ),
    "identity_changed": FindingKind(
        "warning",
        "unknown",
        "the file changed while it was read",
        "It is looked at again when it stands still; if this stays, find out what writes to it.",
    ),
    "template_changed": FindingKind(
        "warning",
        "notice",
        "a chat template is another than at the last look",
        "A template steers the model without touching a weight. Compare it with the publisher's.",
    ),
    "weights_changed": FindingKind(
        "warning",
        "notice",
        "the tensor data is another than at the last look",
        "If nobody replaced the model, compare its digest with the publisher's.",
    ),
    "header_changed": FindingKind(
        "notice", "notice", "the header is another than at the last look", "Compare the two looks to see what changed."
    ),
    "zero_run": FindingKind(
        "notice",
        "notice",
        "a long run of zeros where a model has its weights",
        "Compare the digest with the publisher's: the download may have stopped after its space was set aside.",
    ),
    "self_hash_differs": FindingKind(
        "notice",
        "notice",
        "the hash that the file carries of its own tensors is not theirs",
        "It was edited since, or hashed in another way.",
    ),
    "orphan": FindingKind(
        "notice", "notice", "a blob that nothing in its store names", "Nobody lists it: its store can remove it."
    ),
    "leftover": FindingKind("notice", "notice", "a rest of a download that nothing resumes", "It can be removed."),
    "padding_nonzero": FindingKind(
        "warning",
        "notice",
        "padding holds something other than zeros",
        "Padding is where hidden bytes fit. Compare the digest with the publisher's.",
    ),
    "name_alias": FindingKind(
        "warning",
        "notice",
        "two keys or names are equal up to a NUL, and some readers take one for the other",
        "A key can hide another this way. Do not load it before you know why.",
    ),
    "block_count_mismatch": FindingKind(
        "warning",
        "notice",
        "the declared block count is not the number of blocks that are there",
        "Loaders run it without complaint and compute another model. Convert or download it again.",
    ),
    "blocks_incomplete": FindingKind(
        "warning",
        "notice",
        "a block lacks tensors that the blocks around it have",
        "A loader stops there, or runs without them. Convert or download it again.",
    ),
    "vocabulary_mismatch": FindingKind(
        "notice", "notice", "the vocabulary and the embedding table have different lengths", "Check the conversion."
    ),
    "width_mismatch": FindingKind(
        "notice", "notice", "a declared width is not the width of the tensors", "Check the conversion."
    ),
    "token_id_out_of_range": FindingKind(
        "notice", "notice", "a token id is past the end of the vocabulary", "Check the conversion."
    ),
    "layout_derived": FindingKind(
        "notice",
        "notice",
        "the bytes come out only under an older or other released layout",
        "Current loaders read it wrongly or refuse it. Convert the model again if you can.",
    ),
    "removed_type": FindingKind(
        "notice",
        "notice",
        "a tensor type that current loaders have removed",
        "Download a version that is quantized to a current type.",
    ),
    "directory_order": FindingKind(
        "notice",
        "notice",
        "tensors stand in another order than the directory lists them",
        "llama.cpp refuses this; other loaders do not mind.",
    ),
    "empty_tensor_offset": FindingKind(
        "notice", "notice", "an empty tensor's offset is not where llama.cpp expects it", "llama.cpp refuses this."
    ),
    "alignment_not_multiple_of_8": FindingKind(
        "notice", "notice", "the declared alignment is no multiple of 8", "The GGUF specification asks for one."
    ),
    "alignment_not_power_of_two": FindingKind(
        "notice", "notice", "the declared alignment is no power of two", "llama.cpp refuses this; the format allows it."
    ),
    "key_spelling": FindingKind(
        "notice", "notice", "a metadata key is spelled in a way the specification does not know", _NOTHING
    ),
    "key_too_long": FindingKind("notice", "notice", "a metadata key is longer than 65,535 bytes", _NOTHING),
    "name_too_long": FindingKind(
        "notice", "notice", "a tensor name of 64 bytes or more", "llama.cpp refuses names over 63 bytes."
    ),
    "nested_array": FindingKind("notice", "notice", "an array of arrays in the metadata", "llama.cpp refuses this."),
    "bool_value": FindingKind("notice", "notice", "a bool that is neither 0 nor 1", _NOTHING),
    "big_endian": FindingKind(
        "notice", "notice", "a big-endian file", "It does not load on little-endian machines; convert it there."
    ),
    "name_not_utf8": FindingKind("notice", "notice", "a key or tensor name that is not UTF-8", _NOTHING),
    "unknown_type": FindingKind(
        "notice",
        "notice",
        "an empty GGUF tensor of an unknown type, or a safetensors dtype that is not known",
        "Stock loaders refuse the file; check which program wrote it.",
    ),
    "dimension_beyond_int64": FindingKind("notice", "notice", "a dimension of 2^63 or more", "llama.cpp refuses this."),
    "empty_tensor_row": FindingKind(
        "notice", "notice", "an empty tensor whose rows are not whole blocks of its type", "llama.cpp refuses this."
    ),
    "json_number": FindingKind(
        "notice", "notice", "a number in the JSON that no double holds", "The reference reader refuses the file."
    ),
    "text_not_utf8": FindingKind("info", "sound", "a text value that is not UTF-8", _NOTHING),
    "data_unaligned": FindingKind(
        "info", "sound", "tensor data at an unaligned place", "It is copied when loaded instead of mapped."
    ),
    "touched": FindingKind("info", "sound", "its time is newer than its download, its content is the same", _NOTHING),
    "no_tensors": FindingKind("info", "sound", "metadata only", _NOTHING),
    "architecture_absent": FindingKind("info", "sound", "no general.architecture", _NOTHING),
    "json_white_space": FindingKind("info", "sound", "unusual white space around the JSON", _NOTHING),
    "unfinished": FindingKind(
        "info", "in_progress", "a download that is not finished", "Inspect it all the same with --unfinished."
    ),
}

CONSTRAINTS: Final[dict[Constraint, str]] = {
    Constraint.MAGIC: "the file opens with the mark of its format",
    Constraint.VERSION: "a version that is read here",
    Constraint.BYTE_ORDER: "little-endian, or big-endian GGUF 3",
    Constraint.LENGTH_PAST_END: "a length fits into the bytes that are left",
    Constraint.COUNT_PAST_END: "as many items as are counted fit into the bytes that are left",
    Constraint.VALUE_TYPE: "a value type is one of the thirteen",
    Constraint.NESTING: "at most 32 containers inside each other",
    Constraint.DIMENSIONS: "at most four dimensions",
    Constraint.SHAPE_OVERFLOW: "the product of the dimensions, in order, is below 2^64",
    Constraint.ROW_BLOCKS: "the first dimension is a whole number of blocks",
    Constraint.DUPLICATE_KEY: "no metadata key twice",
    Constraint.DUPLICATE_NAME: "no tensor name twice",
    Constraint.ALIGNMENT: "general.alignment is one u32 above 0",
    Constraint.PARTIAL_GAP: "a file without tensors ends at its directory or reaches the aligned offset",
    Constraint.STRING_LENGTH: "a string has at most 64 MiB",
    Constraint.JSON: "the header is strict JSON, an object",
    Constraint.JSON_DUPLICATE: "no name twice in an object",
    Constraint.JSON_ENCODING: "the JSON is UTF-8 without lone surrogates",
    Constraint.ENTRY_FIELDS: "an entry is an object with dtype, shape and data_offsets",
    Constraint.METADATA_VALUES: "__metadata__ is an object of strings",
    Constraint.RANGE_ORDER: "a range begins before it ends",
    Constraint.RANGE_GAP: "no byte between two tensors",
    Constraint.RANGE_OVERLAP: "no byte in two tensors",
    Constraint.RANGE_PAST_END: "a range ends within the file",
    Constraint.RANGE_TRAILING: "no byte after the last tensor",
    Constraint.RANGE_SIZE: "shape and dtype give the length of the range",
    Constraint.END_OF_FILE: "a field is whole",
    Constraint.HEADER_LENGTH: "a header has at most 100,000,000 bytes",
    Constraint.TENSOR_COUNT: "at most 16,777,216 tensors",
}


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that decides; ``sound`` if there is none, ``in_progress`` whenever it is among them."""
    found = set(verdicts)
    if "in_progress" in found:
        return "in_progress"
    return next((verdict for verdict in VERDICT_ORDER if verdict in found), "sound")


def at_least(severity: Severity, threshold: Severity) -> bool:
    """Whether ``severity`` is ``threshold`` or worse."""
    return SEVERITY_ORDER.index(severity) >= SEVERITY_ORDER.index(threshold)


def severity_of(code: str, overrides: Mapping[str, Severity]) -> Severity:
    """The configured severity of a finding code, else its own."""
    return overrides.get(code, FINDINGS[code].severity)
