"""Digests against what was published, against the last look, and against a second reading."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.expectation import Algorithm, Expectation, Reference, Remark
from auditd.evidence.history import Earlier, Seen
from auditd.evidence.record import Evidence
from auditd.formats.writer import Entry, Tensor, sketch, write_gguf
from auditd.inspection.inspector import inspect
from auditd.inspection.parts import Parts
from auditd.inspection.request import HashMode, Request
from tests.builders import PRODUCER, codes, finding

SKETCH = sketch().data


def put(directory: Path, data: bytes = SKETCH, name: str = "model.gguf") -> bytes:
    path = directory / name
    path.write_bytes(data)
    return os.fsencode(path)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def expected(*references: tuple[Algorithm, str], **more: Any) -> Expectation:
    return Expectation(
        references=tuple(Reference(name, value, "the blob's name") for name, value in references), **more
    )


def observation(
    path: bytes,
    expectation: Expectation | None = None,
    *,
    mode: HashMode = "expected",
    earlier: Earlier | None = None,
    parts: Parts = "none",
) -> Evidence:
    said = expectation or Expectation()
    return inspect(Request(path, PRODUCER, hash_mode=mode, expectations=lambda *_: said, earlier=earlier, parts=parts))


# -- references --------------------------------------------------------------------------------------------


def test_a_reference_that_is_kept(tmp_path: Path) -> None:
    evidence = observation(
        put(tmp_path), expected(("sha256", sha256(SKETCH)), store="ollama", names=("counts:latest",))
    )
    assert (evidence.outcome, evidence.verdict) == ("complete", "sound")
    assert (evidence.read.scope, evidence.artifact.sha256) == ("full", sha256(SKETCH))
    assert evidence.read.bytes_read == evidence.read.bytes_hashed == len(SKETCH)
    assert evidence.artifact.store == "ollama"
    assert evidence.artifact.names[0] == "counts:latest"
    assert [(each.algorithm, each.value, each.source) for each in evidence.artifact.expected] == [
        ("sha256", sha256(SKETCH), "the blob's name")
    ]


def test_without_a_reference_only_the_header_is_read(tmp_path: Path) -> None:
    evidence = observation(put(tmp_path))
    assert evidence.read.scope == "header"
    assert evidence.artifact.sha256 is None
    assert evidence.artifact.expected == []


def test_a_header_look_hashes_nothing_and_still_names_the_reference(tmp_path: Path) -> None:
    evidence = observation(put(tmp_path), expected(("sha256", "0" * 64)), mode="header")
    assert (evidence.read.scope, evidence.verdict) == ("header", "sound")
    assert evidence.artifact.expected[0].value == "0" * 64


def test_a_reference_that_is_not_kept(tmp_path: Path) -> None:
    evidence = observation(put(tmp_path), expected(("sha256", "ab" * 32), names=("one:latest", "two:latest")))
    found = finding(evidence, "digest_mismatch")
    assert (evidence.outcome, evidence.verdict) == ("complete", "mismatch")
    assert (found.severity, found.expected, found.actual) == ("critical", "ab" * 32, sha256(SKETCH))
    assert "the blob's name" in found.message
    assert "one:latest, two:latest" in found.message
    # The mismatch was confirmed by a second reading, and only the first one counts as hashed.
    assert evidence.read.bytes_read == 2 * len(SKETCH)
    assert evidence.read.bytes_hashed == len(SKETCH)
    assert evidence.digests is None


def test_git_names_a_blob_by_its_length_and_content(tmp_path: Path) -> None:
    # `printf 'what is up, doc?' | git hash-object --stdin`, as the Git book shows it.
    path = put(tmp_path, b"what is up, doc?", "blob")
    good = observation(path, expected(("git-sha1", "bd9dbf5aae1a3862dd1526723246b20206e5fc37"), role="other"))
    assert (good.verdict, good.outcome) == ("sound", "complete")
    assert good.digests is not None
    assert good.digests.git_sha1 == "bd9dbf5aae1a3862dd1526723246b20206e5fc37"
    bad = observation(path, expected(("git-sha1", "0" * 40), role="other"))
    assert bad.verdict == "mismatch"
    assert finding(bad, "digest_mismatch").actual == "bd9dbf5aae1a3862dd1526723246b20206e5fc37"


def test_a_part_of_a_store_that_is_no_model_is_never_foreign(tmp_path: Path) -> None:
    text = b"MIT License"
    evidence = observation(put(tmp_path, text, "licence"), expected(("sha256", sha256(text)), role="other"))
    assert (evidence.verdict, evidence.artifact.format, codes(evidence)) == ("sound", None, set())
    assert observation(put(tmp_path, text, "licence")).verdict == "foreign"


@pytest.mark.parametrize(("promised_size", "verdict"), [(409, "truncated"), (407, "mismatch")])
def test_a_size_that_was_not_published(tmp_path: Path, promised_size: int, verdict: str) -> None:
    evidence = observation(put(tmp_path), Expectation(size=promised_size))
    found = finding(evidence, "size_mismatch")
    assert (evidence.verdict, found.severity, found.expected, found.actual) == (
        verdict,
        "critical",
        promised_size,
        408,
    )
    assert observation(put(tmp_path), Expectation(size=408)).verdict == "sound"


def test_the_digest_of_nothing_is_named(tmp_path: Path) -> None:
    evidence = observation(put(tmp_path, b""), expected(("sha256", "ab" * 32)))
    assert evidence.verdict == "mismatch"
    assert "the digest of nothing" in finding(evidence, "digest_mismatch").message


def test_remarks_of_a_store_are_findings(tmp_path: Path) -> None:
    evidence = observation(put(tmp_path), Expectation(remarks=(Remark("orphan", "no manifest names it"),)))
    assert (evidence.verdict, finding(evidence, "orphan").message) == ("notice", "no manifest names it")


@pytest.mark.parametrize(("seconds", "touched"), [(0, False), (500, True)])
def test_touched_since_its_download(tmp_path: Path, seconds: int, touched: bool) -> None:
    path = put(tmp_path)
    downloaded = os.stat(path).st_mtime_ns - seconds * 1_000_000_000
    evidence = observation(path, expected(("sha256", sha256(SKETCH)), downloaded_ns=downloaded))
    assert evidence.verdict == "sound"
    assert ("touched" in codes(evidence)) is touched
    edited = observation(path, expected(("sha256", "ab" * 32), downloaded_ns=downloaded))
    assert ("changed after its download" in finding(edited, "digest_mismatch").message) is touched


# -- two readings ------------------------------------------------------------------------------------------


def unstable(monkeypatch: pytest.MonkeyPatch, reads: int) -> None:
    """The host flips a bit in every read of the data before the ``reads``-th."""
    real: Callable[..., int] = os.preadv
    count = 0

    def preadv(descriptor: int, buffers: list[bytearray], offset: int, flags: int = 0) -> int:
        nonlocal count
        length = real(descriptor, buffers, offset, flags)
        if offset:  # behind the first chunk, which has the header
            if length and count < reads:
                buffers[0][0] ^= 1
            count += 1
        return length

    monkeypatch.setattr(os, "preadv", preadv)


def large(directory: Path) -> bytes:
    """A file with data behind its first chunk, which is read apart."""
    tensor = Tensor("blk.0.weight", (1 << 16,), 0, bytes(range(256)) * 1024)
    return put(directory, write_gguf((Entry("general.architecture", "string", "x"),), (tensor,)).data)


def test_a_host_that_reads_differently_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = large(tmp_path)
    content = sha256(Path(os.fsdecode(path)).read_bytes())
    unstable(monkeypatch, reads=1)
    evidence = observation(path, expected(("sha256", content)))
    found = finding(evidence, "unstable_read")
    assert (evidence.verdict, found.severity, found.actual) == ("unknown", "critical", content)
    assert evidence.digests is not None
    assert evidence.digests.sha256_again == content
    assert "digest_mismatch" not in codes(evidence)
    # Neither digest is the file's: nothing may be held against it later.
    assert evidence.artifact.sha256 is None
    assert (evidence.outcome, evidence.coverage.digest.status) == ("partial", "partial")
    assert evidence.error is not None
    assert (evidence.error.code, evidence.error.category) == ("execution_failure", "host")


def test_a_stop_in_the_second_reading_leaves_the_digests_unknown(tmp_path: Path) -> None:
    path = large(tmp_path)
    said = expected(("sha256", "ab" * 32))
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    def stop() -> None:
        nonlocal calls
        calls -= 1
        if not calls:
            raise InspectionStopped("enough")

    request = Request(path, PRODUCER, hash_mode="expected", expectations=lambda *_: said)
    assert inspect(request, count).verdict == "mismatch"
    # The last checkpoint stands before the second comparison of identities.
    evidence = inspect(request, stop)
    assert (evidence.outcome, evidence.verdict) == ("partial", "unknown")
    assert (evidence.artifact.sha256, evidence.read.header_sha256) == (None, None)
    assert (evidence.identity.status, evidence.identity.after) == ("unverified", None)
    assert "digest_mismatch" not in codes(evidence)


def test_a_look_at_the_header_stands_against_the_digest_that_is_known(tmp_path: Path) -> None:
    path = put(tmp_path)
    same = Earlier(same=Seen.of(observation(path, mode="full")))
    evidence = observation(path, expected(("sha256", "ab" * 32)), mode="header", earlier=same)
    found = finding(evidence, "digest_mismatch")
    assert (evidence.verdict, evidence.read.scope, found.actual) == ("mismatch", "header", sha256(SKETCH))
    assert evidence.artifact.sha256 is None
    assert observation(path, expected(("sha256", sha256(SKETCH))), mode="header", earlier=same).verdict == "sound"


def test_silent_corruption_is_another_digest_of_the_same_state(tmp_path: Path) -> None:
    path = put(tmp_path)
    first = observation(path, mode="full")
    known = Seen.of(first)
    same = Earlier(same=Seen(known.evidence_id, known.recorded_at, known.identity, sha256="ab" * 32))
    evidence = observation(path, mode="full", earlier=same)
    found = finding(evidence, "silent_corruption")
    assert (evidence.verdict, found.severity, found.expected, found.actual) == (
        "mismatch",
        "critical",
        "ab" * 32,
        sha256(SKETCH),
    )
    assert "confirmed by a second reading" in found.message
    assert observation(path, mode="full", earlier=Earlier(same=known)).verdict == "sound"


# -- what is another than before ---------------------------------------------------------------------------


def model(*, name: str = "one", template: str = "{{ a }}", weights: bytes = bytes(32)) -> bytes:
    metadata = (
        Entry("general.architecture", "string", "x"),
        Entry("general.name", "string", name),
        Entry("tokenizer.chat_template", "string", template),
    )
    return write_gguf(metadata, (Tensor("blk.0.weight", (8,), 0, weights),)).data


CHANGES = {
    "nothing": (model(), set()),
    "a name": (model(name="two, longer than a whole block of padding"), {"header_changed"}),
    "the template": (model(template="{{ b }}"), {"header_changed", "template_changed"}),
    "the weights": (model(weights=b"\1" * 32), {"weights_changed"}),
    "both": (model(name="two", weights=b"\1" * 32), {"header_changed", "weights_changed"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_is_told_apart(tmp_path: Path, what: str) -> None:
    before = Seen.of(observation(put(tmp_path, model()), mode="full", parts="data"))
    data, expected = CHANGES[what]
    path = put(tmp_path, data, "again.gguf")
    evidence = observation(path, mode="full", parts="data", earlier=Earlier(before=before, hashed=before))
    assert codes(evidence) == expected
    if what == "a name":
        assert "the tensor data is the same" in finding(evidence, "header_changed").message


def test_without_digests_of_parts_weights_are_judged_only_behind_the_same_header(tmp_path: Path) -> None:
    before = Seen.of(observation(put(tmp_path, model()), mode="full"))
    earlier = Earlier(before=before, hashed=before)
    same_header = observation(put(tmp_path, CHANGES["the weights"][0]), mode="full", earlier=earlier)
    assert codes(same_header) == {"weights_changed"}
    other_header = observation(put(tmp_path, CHANGES["both"][0]), mode="full", earlier=earlier)
    assert codes(other_header) == {"header_changed"}


def test_a_header_look_tells_a_poisoned_template(tmp_path: Path) -> None:
    before = Seen.of(observation(put(tmp_path, model()), mode="header"))
    evidence = observation(put(tmp_path, model(template="{{ evil }}")), mode="header", earlier=Earlier(before=before))
    found = finding(evidence, "template_changed")
    assert (evidence.verdict, found.severity) == ("notice", "warning")
    assert (found.expected, found.actual) == (sha256(b"{{ a }}"), sha256(b"{{ evil }}"))


# -- parts -------------------------------------------------------------------------------------------------


def test_the_digest_of_the_tensor_data_and_of_each_tensor(tmp_path: Path) -> None:
    first, second = os.urandom(20), os.urandom(400_000)
    tensors = (Tensor("a", (5,), 0, first), Tensor("b", (100_000,), 0, second))
    for pad_tail in (False, True):
        written = write_gguf((), tensors, pad_tail=pad_tail).data
        evidence = observation(put(tmp_path, written), mode="full", parts="tensors")
        assert evidence.digests is not None
        # From the first tensor to the last one's end, with the twelve bytes of padding between them.
        assert evidence.digests.tensor_data == sha256(first + bytes(12) + second)
        assert evidence.digests.tensors is not None
        assert [(each.index, each.sha256) for each in evidence.digests.tensors] == [
            (0, sha256(first)),
            (1, sha256(second)),
        ]


@pytest.mark.parametrize(("cut", "known"), [(0, True), (1, False)])
def test_a_cut_file_has_no_digest_of_its_tensor_data(tmp_path: Path, cut: int, known: bool) -> None:
    data = model()
    evidence = observation(put(tmp_path, data[: len(data) - cut]), mode="full", parts="tensors")
    assert (evidence.digests is not None and evidence.digests.tensor_data is not None) is known


@pytest.mark.parametrize("stated", ["theirs", "another"])
def test_a_hash_that_the_file_carries_of_itself(tmp_path: Path, stated: str) -> None:
    data = bytes(range(16))
    carried = sha256(data) if stated == "theirs" else "ab" * 32
    header = (
        b'{"__metadata__":{"sshs_model_hash":"%b"},"x":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}}'
        % carried.encode()
    )
    path = put(tmp_path, len(header).to_bytes(8, "little") + header + data, "model.safetensors")
    evidence = observation(path, mode="full")
    assert ("self_hash_differs" in codes(evidence)) is (stated == "another")
    assert "self_hash_differs" not in codes(observation(path, mode="header"))
