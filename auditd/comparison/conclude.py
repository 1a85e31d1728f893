"""The conclusion of a comparison: one code, one sentence, and whether the two are the same.

The codes are tried in the order of :data:`_RULES`, the farthest-reaching difference first; what else differs stands
behind the colon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from auditd.comparison.difference import (
    Conclusion,
    ConclusionCode,
    FileDifference,
    MetadataDifference,
    TensorDifference,
)
from auditd.evidence.record import Evidence

#: Fields that say how everything else is to be read.
_FRAME: Final = frozenset({"version", "byte_order", "alignment"})
_ARCHITECTURE: Final = "general.architecture"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a conclusion is drawn from."""

    a: Evidence
    b: Evidence
    file: FileDifference
    metadata: MetadataDifference
    tensors: TensorDifference

    @property
    def matched(self) -> int:
        """Tensors that both have under one name."""
        return (self.tensors.a_count or 0) - self.tensors.removed

    @property
    def others(self) -> int:
        """Tensors that only one has, or that have another shape."""
        return self.tensors.added + self.tensors.removed + self.tensors.reshaped

    @property
    def entries(self) -> int:
        """Metadata entries that differ."""
        return self.metadata.added_count + self.metadata.removed_count + self.metadata.changed_count

    @property
    def reordered(self) -> bool:
        """Whether entries or tensors stand in another order."""
        return self.metadata.order_changed is True or self.tensors.order_changed is True

    @property
    def left_out(self) -> list[str]:
        """What could not be compared."""
        parts: list[str] = []
        if self.file.header_sha256 == "same":
            return parts
        if self.metadata.extent != "complete" or self.tensors.extent != "complete":
            parts.append("not all of both headers is known")
        if self.metadata.not_compared_count and self.metadata.extent == "complete":
            count = _counted(self.metadata.not_compared_count, "array")
            parts.append(f"of {count} only the first elements are in the record")
        return parts


def conclude(
    a: Evidence, b: Evidence, file: FileDifference, metadata: MetadataDifference, tensors: TensorDifference
) -> tuple[Conclusion, bool | None]:
    """The conclusion, and whether both are the same (None: nothing differs, and not all was compared)."""
    facts = _Facts(a, b, file, metadata, tensors)
    code, words, same = next((rule[1:] for rule in _RULES if rule[0](facts)), _UNDECIDED)
    if _formats(facts) == 1 and code == "other_format":
        return Conclusion(code=code, message=_no_model(facts)), same
    details = [*_details(facts, code), *_weights(facts, code), *facts.left_out]
    return Conclusion(code=code, message=words + (f": {'; '.join(details)}" if details else "")), same


def _is_other_model(facts: _Facts) -> bool:
    """Whether the tensors have little in common, or the files themselves say that they are not of one kind."""
    if not facts.others:
        return False
    names = [part.headline.get(_ARCHITECTURE) for part in (facts.a.gguf, facts.b.gguf) if part is not None]
    alike = facts.matched - facts.tensors.reshaped
    most = max(facts.tensors.a_count or 0, facts.tensors.b_count or 0)
    return (len(names) == 2 and None not in names and names[0] != names[1]) or alike * 2 < most  # noqa: PLR2004


def _formats(facts: _Facts) -> int:
    """How many of the two are of a format that is read."""
    return (facts.a.artifact.format is not None) + (facts.b.artifact.format is not None)


def _no_model(facts: _Facts) -> str:
    """Which side there is nothing to compare with."""
    name = "A" if facts.a.artifact.format is None else "B"
    return f"{name} is neither a GGUF nor a safetensors file, so there is no header of it to compare"


def _is_other_frame(facts: _Facts) -> bool:
    """Whether the header differs in a field of its own, or in what was not compared."""
    if any(field.name in _FRAME and None not in (field.a, field.b) for field in facts.file.fields):
        return True
    return facts.file.header_sha256 == "differs" and bool(facts.left_out)


def _same_so_far(facts: _Facts) -> bool:
    """Whether both are models whose headers are known to declare the same."""
    return _formats(facts) == 2 and not facts.left_out  # noqa: PLR2004


_Rule = tuple[Callable[[_Facts], bool], ConclusionCode, str, bool | None]

_UNDECIDED: Final[tuple[ConclusionCode, str, bool | None]] = (
    "undecided",
    "nothing that could be compared differs",
    None,
)

_RULES: Final[Sequence[_Rule]] = (
    (lambda f: f.file.sha256 == "same", "identical", "the same file, byte for byte", True),
    (lambda f: f.file.format == "differs", "other_format", "two formats", False),
    (lambda f: _formats(f) == 1, "other_format", "only one of the two is a GGUF or safetensors file", False),
    (_is_other_model, "other_model", "another model", False),
    (lambda f: f.others > 0, "other_tensors", "other tensors", False),
    (lambda f: f.tensors.requantized > 0, "requantized", "requantized, the same tensors and shapes", False),
    (lambda f: f.tensors.rewritten > 0, "other_weights", "the same tensors, other weights", False),
    (lambda f: f.tensors.moved > 0, "moved", "the same tensors at other places", False),
    (lambda f: f.entries > 0, "other_metadata", "the same tensors, another header", False),
    (lambda f: f.reordered, "reordered", "the same declarations in another order", False),
    (_is_other_frame, "other_header", "no declaration that was compared differs, and yet it is another header", False),
    (
        lambda f: f.file.size == "differs" and _same_so_far(f),
        "other_size",
        "the same declarations, another size",
        False,
    ),
    (lambda f: f.file.size == "differs", "other_size", "nothing that was compared differs but the size", False),
    (lambda f: f.file.tensor_data == "differs", "other_weights", "the same declarations, other weights", False),
    (lambda f: f.file.sha256 == "differs", "other_weights", "the same declarations, other bytes", False),
    (
        lambda f: f.file.header_sha256 == "same" and f.file.size == "same",
        "same_header",
        "the same header and the same size",
        True,
    ),
    (
        lambda f: f.file.header_sha256 == "differs" and _same_so_far(f) and f.file.size == "same",
        "same_declarations",
        "the same declarations, written in another way",
        True,
    ),
    (
        lambda f: _same_so_far(f) and f.file.size == "same",
        "same_declarations",
        "the same declarations and the same size",
        True,
    ),
)


def _details(facts: _Facts, code: ConclusionCode) -> Iterator[str]:
    """The differences, counted."""
    if code in {"identical", "same_header", "other_format"}:
        return
    tensors, metadata = facts.tensors, facts.metadata
    counts = (
        ("added", tensors.added),
        ("removed", tensors.removed),
        ("reshaped", tensors.reshaped),
        ("with another type", tensors.requantized),
        ("with other bytes", tensors.rewritten),
        ("moved", tensors.moved),
    )
    told = [f"{count:,} {word}" for word, count in counts if count]
    if told:
        total = max(tensors.a_count or 0, tensors.b_count or 0)
        yield f"of {_counted(total, 'tensor')} {_listed(told)}"
    if facts.entries:
        yield f"{_counted(facts.entries, 'metadata entry', 'metadata entries')} {_how(metadata)}"
    if metadata.templates_changed:
        yield "chat template " + _how_templates(metadata)
    if facts.file.size_change:
        more = "more" if facts.file.size_change > 0 else "fewer"
        yield f"B has {_counted(abs(facts.file.size_change), 'byte')} {more}"


def _how(metadata: MetadataDifference) -> str:
    counts = (
        ("added", metadata.added_count),
        ("removed", metadata.removed_count),
        ("changed", metadata.changed_count),
    )
    told = [(word, count) for word, count in counts if count]
    if len(told) == 1:
        return told[0][0]
    return f"differ ({_listed([f'{count:,} {word}' for word, count in told])})"


def _how_templates(metadata: MetadataDifference) -> str:
    kinds = sorted({template.change for template in metadata.templates})
    return _listed(kinds)


def _weights(facts: _Facts, code: ConclusionCode) -> Iterator[str]:
    """What is known of the weights, where the declarations do not say already that they differ."""
    if code in {"identical", "other_format", "other_model", "other_tensors", "requantized", "other_weights"}:
        return
    if facts.file.tensor_data == "same":
        yield "the weights are the same"
    elif facts.file.tensor_data == "differs":
        yield "the weights differ, too"
    elif facts.file.header_sha256 == facts.file.size == "same" or code in {"same_declarations", "other_metadata"}:
        yield "the weights were not compared"


def _listed(texts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
