"""Checksum lists, download records and signed lists beside a file."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.evidence.expectation import NOTHING, Expectation, Reference
from auditd.model_stores.sidecar import LISTS, parse_list
from auditd.model_stores.signing import parse_bundle
from auditd.model_stores.stores import ModelStores
from tests.builders import property_test
from tests.model_stores.trees import COMMIT, git_sha1, sha256, write

Asked = Callable[[Path], Expectation]

CONTENT = b"the content"
DIGEST = sha256(CONTENT)
OTHER = sha256(b"other")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "model.gguf", CONTENT)


def said(path: Path, value: str = DIGEST) -> Reference:
    return Reference("sha256", value, str(path))


# --- <file>.sha256


@pytest.mark.parametrize(
    "text",
    [
        DIGEST,
        f"{DIGEST}\n",
        DIGEST.upper(),
        f"{DIGEST}  model.gguf\n",
        f"{DIGEST} *model.gguf\n",
        f"{DIGEST}  /build/out/model.gguf\r\n",
        f"SHA256 (model.gguf) = {DIGEST}\n",
        f"# made by hand\n{OTHER}  else.gguf\n{DIGEST}  model.gguf\n",
    ],
)
def test_a_sidecar_gives_the_digest(text: str, file: Path, expectation: Asked) -> None:
    sidecar = write(file.with_name("model.gguf.sha256"), text.encode())
    assert expectation(file) == Expectation(references=(said(sidecar),))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model.gguf",
        DIGEST[:-1],
        f"{DIGEST}  other.gguf\n",
        f"{DIGEST}  model.gguf\n{OTHER}  model.gguf\n",
        f"MD5 (model.gguf) = {DIGEST}",
        f"{DIGEST}{DIGEST}  model.gguf",
        f"\\{DIGEST}  model.gg\\uf",
        f"{DIGEST}\0",
    ],
)
def test_a_sidecar_that_says_something_else_says_nothing(text: str, file: Path, expectation: Asked) -> None:
    write(file.with_name("model.gguf.sha256"), text.encode())
    assert expectation(file) == NOTHING


# --- lists


@pytest.mark.parametrize("name", [name.decode() for name in LISTS])
def test_a_list_speaks_of_its_own_directory_and_of_those_below(name: str, tmp_path: Path, expectation: Asked) -> None:
    deep = write(tmp_path / "a" / "b" / "model.gguf", CONTENT)
    text = f"{OTHER}  ./else.gguf\n{DIGEST} *./a/b/model.gguf\n"
    top = write(tmp_path / name, text.encode())
    near = write(tmp_path / "a" / "b" / name, f"{DIGEST}  model.gguf\n".encode())
    assert expectation(deep).references == (said(near), said(top))


@pytest.mark.parametrize("name", ["../model.gguf", "/model.gguf", "a/../model.gguf", ".//model.gguf", "./"])
def test_a_path_that_leads_elsewhere_is_passed_over(name: str, file: Path, expectation: Asked) -> None:
    write(file.with_name("SHA256SUMS"), f"{DIGEST}  {name}\n".encode())
    assert expectation(file) == NOTHING


def test_a_list_that_says_two_things_of_a_name_says_nothing_of_it() -> None:
    text = f"{DIGEST}  a\n{OTHER}  a\n{DIGEST}  b\n{DIGEST}  b\n{DIGEST}  a\n"
    assert parse_list(text.encode()) == {b"b": DIGEST}


NAMES = [b"plain", b"two  spaces", b"back\\slash", b"line\nend", b"carriage\rreturn", b"\xff\xfe", b"(a) = b"]


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no coreutils here")
@pytest.mark.parametrize("options", [[], ["--binary"], ["--tag"]])
def test_every_form_that_coreutils_writes_is_read(options: list[str], tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name.decode("utf-8", "surrogateescape")).write_bytes(name)
    command = [b"sha256sum", *(option.encode() for option in options), b"--", *NAMES]
    listed = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    assert parse_list(listed) == {name: sha256(name) for name in NAMES}


def test_a_list_past_its_bound_keeps_what_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditd.model_stores.checksum_files.LIST_FILES", 2)
    text = f"{DIGEST}  a\n{DIGEST}  b\n{DIGEST}  c\n{OTHER}  a\n"
    assert parse_list(text.encode()) == {b"a": DIGEST, b"b": DIGEST}


# --- .dl-meta


def test_a_download_record_of_comfyui_gives_size_and_digest(file: Path, expectation: Asked) -> None:
    meta = write(
        file.with_name("model.gguf.dl-meta"), json.dumps({"expectedSize": 123, "etag": f'"{DIGEST}"'}).encode()
    )
    assert expectation(file) == Expectation(references=(said(meta),), size=123)


@pytest.mark.parametrize(
    "meta",
    [
        b"",
        b"[]",
        b'{"expectedSize": -1}',
        b'{"expectedSize": "123"}',
        b'{"expectedSize": 9223372036854775808}',
        b'{"expectedSize": 1, "expectedSize": 2}',
        b'{"etag": "d41d8cd98f00b204e9800998ecf8427e"}',
        b'{"etag": 5}',
        b"[" * 60_000,
    ],
)
def test_a_download_record_of_something_else_says_nothing(meta: bytes, file: Path, expectation: Asked) -> None:
    write(file.with_name("model.gguf.dl-meta"), meta)
    assert expectation(file) == NOTHING


def test_a_download_with_aria2_says_how_much_is_on_the_disk(tmp_path: Path, stores: ModelStores) -> None:
    path = tmp_path / "model.gguf"
    with path.open("wb") as sparse:
        sparse.write(bytes(4096))
        sparse.truncate(1 << 30)
    write(tmp_path / "model.gguf.aria2", b"\0\1")
    write(tmp_path / "alone.gguf.aria2", b"\0\1")
    found = {item.path: item for item in stores.survey(bytes(tmp_path))}
    unfinished, leftover = found[bytes(path)], found[bytes(tmp_path / "alone.gguf.aria2")]
    assert (unfinished.kind, unfinished.size, leftover.kind) == ("unfinished", 1 << 30, "leftover")
    assert f"{path.stat().st_blocks * 512:,} of 1,073,741,824" in unfinished.message


# --- local_dir


def record(home: Path, file: str, *lines: str) -> Path:
    return write(home / ".cache" / "huggingface" / "download" / f"{file}.metadata", "\n".join(lines).encode())


def test_a_download_record_gives_digest_and_time(tmp_path: Path, expectation: Asked) -> None:
    path = write(tmp_path / "sub" / "model.gguf", CONTENT)
    written = record(tmp_path, "sub/model.gguf", COMMIT, DIGEST, "1700000000.1234567", "")
    assert expectation(path) == Expectation(
        store="huggingface_local",
        references=(said(written),),
        downloaded_ns=1_700_000_000_123_456_700,
    )


def test_a_small_file_has_the_digest_that_git_gives(tmp_path: Path, expectation: Asked) -> None:
    path = write(tmp_path / "config.json", b"{}")
    record(tmp_path, "config.json", COMMIT, git_sha1(b"{}"), "1700000000")
    known = expectation(path)
    assert [(item.algorithm, item.value) for item in known.references] == [("git-sha1", git_sha1(b"{}"))]
    assert (known.role, known.downloaded_ns) == ("other", 1_700_000_000_000_000_000)


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (COMMIT, DIGEST),
        ("main", DIGEST, "1700000000.0"),
        (COMMIT, DIGEST, "inf"),
        (COMMIT, DIGEST, "-1.0"),
        (COMMIT, DIGEST, "1e400"),
        (COMMIT, DIGEST, "9" * 100),
        (COMMIT, DIGEST, "1700000000.0" + " " * 5000),
    ],
)
def test_a_record_that_is_none_says_nothing(lines: tuple[str, ...], file: Path, expectation: Asked) -> None:
    record(file.parent, "model.gguf", *lines)
    assert expectation(file) == NOTHING


def test_an_unfinished_download_into_a_directory_is_told(tmp_path: Path, stores: ModelStores) -> None:
    record(tmp_path, "sub/model.gguf", COMMIT, DIGEST, "1700000000.0")
    path = write(tmp_path / ".cache" / "huggingface" / "download" / "sub" / f"abc.{DIGEST}.incomplete", b"part")
    (found,) = stores.survey(bytes(tmp_path))
    assert (found.kind, found.path, found.size) == ("unfinished", bytes(path), 4)


# --- model.sig

SIGNED = "https://model_signing/signature/v1.0"


def statement(predicate_type: str = SIGNED, **parts: Any) -> dict[str, Any]:
    return {"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate_type, **parts}


def resources(*rows: tuple[str, str], method: str = "files", algorithm: str = "sha256") -> dict[str, Any]:
    return statement(
        subject=[{"name": "model", "digest": {"sha256": OTHER}}],
        predicate={
            "serialization": {"method": method, "hash_type": "sha256", "allow_symlinks": False},
            "resources": [{"name": name, "algorithm": algorithm, "digest": digest} for name, digest in rows],
        },
    )


def envelope(payload: dict[str, Any], kind: str = "application/vnd.in-toto+json") -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(payload).encode()).decode()
    return {"payload": encoded, "payloadType": kind, "signatures": [{"sig": "AAAA"}]}


def bundle(payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "x"}},
        "dsseEnvelope": envelope(payload),
    }


@pytest.mark.parametrize(
    "document",
    [
        bundle(resources(("model.gguf", DIGEST), ("else.gguf", OTHER))),
        envelope(resources(("model.gguf", DIGEST))),
        bundle(
            statement(
                "https://model_signing/Digests/v0.1", subject=[{"name": "model.gguf", "digest": {"sha256": DIGEST}}]
            )
        ),
    ],
)
def test_a_signed_list_is_a_list_and_says_that_it_was_not_checked(
    document: dict[str, Any], file: Path, expectation: Asked
) -> None:
    path = write(file.with_name("model.sig"), json.dumps(document).encode())
    (reference,) = expectation(file).references
    assert reference == Reference("sha256", DIGEST, f"{path} (its signature was not checked)")


def test_a_signed_list_speaks_of_the_directories_below(tmp_path: Path, expectation: Asked) -> None:
    path = write(tmp_path / "sub" / "model.gguf", CONTENT)
    write(tmp_path / "model.sig", json.dumps(bundle(resources(("sub/model.gguf", DIGEST)))).encode())
    assert [item.value for item in expectation(path).references] == [DIGEST]


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        envelope(resources(("model.gguf", DIGEST)), "text/plain"),
        {"payload": "%%%", "payloadType": "application/vnd.in-toto+json"},
        bundle(resources(("../model.gguf", DIGEST))),
        bundle(resources(("/model.gguf", DIGEST))),
        bundle(resources(("model.gguf", DIGEST), ("model.gguf", OTHER))),
        bundle(resources(("model.gguf", DIGEST.upper()))),
        bundle(resources(("model.gguf", DIGEST), method="shards")),
        bundle(resources(("model.gguf", DIGEST), algorithm="blake2b")),
        bundle(statement(subject=[{"name": "model.gguf", "digest": {"sha256": DIGEST}}], predicate="nothing")),
    ],
)
def test_a_bundle_of_something_else_says_nothing(document: Any, file: Path, expectation: Asked) -> None:
    write(file.with_name("model.sig"), json.dumps(document).encode())
    assert expectation(file) == NOTHING


# --- any bytes

LINES = st.lists(
    st.tuples(st.sampled_from([DIGEST, OTHER, DIGEST.upper(), "\\" + DIGEST, "SHA256 (", ""]), st.text(max_size=12)),
    max_size=8,
)


@property_test(60)
@given(st.binary(max_size=200) | LINES.map(lambda lines: "\n".join(f"{head}  {name}" for head, name in lines).encode()))
def test_any_bytes_are_a_list_of_digests_by_paths_that_lead_down(raw: bytes) -> None:
    for name, digest in parse_list(raw).items():
        assert re.fullmatch("[0-9a-f]{64}", digest)
        assert not {b"", b".", b".."} & set(name.split(b"/"))
        assert b"\0" not in name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from([DIGEST, SIGNED, "sha256"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["subject", "predicate", "resources", "name", "digest", "algorithm"]), inner)
    ),
    max_leaves=12,
)


@property_test(60)
@given(
    st.binary(max_size=100)
    | JSON.map(lambda part: json.dumps({**bundle({"predicateType": SIGNED, "predicate": part})}).encode())
)
def test_any_bytes_are_a_signed_list_or_none(raw: bytes) -> None:
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in parse_bundle(raw).values())
