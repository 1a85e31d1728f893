"""Caches that the hub's own library fills from a server on this machine, and its own account of them."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from auditd.evidence.expectation import Reference
from auditd.model_stores.homes import Homes
from auditd.model_stores.locate import locate
from auditd.model_stores.stores import ModelStores
from tests.model_stores.trees import COMMIT, git_sha1, sha256
from tests.support import models

hub: Any = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")

FILES = {"sub/model.gguf": models.gguf(), "config.json": b"{}"}
ETAGS = {"sub/model.gguf": sha256(FILES["sub/model.gguf"]), "config.json": git_sha1(b"{}")}
ALGORITHMS = {"sub/model.gguf": "sha256", "config.json": "git-sha1"}


class _Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub as one download asks for."""

    protocol_version = "HTTP/1.1"
    files: ClassVar[dict[str, bytes]] = FILES

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        name = self.path.partition("?")[0].partition("/resolve/")[2].partition("/")[2]
        content = self.files.get(name)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        if content is not None:
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{ETAGS[name]}"')
        self.end_headers()
        if body:
            self.wfile.write(content or b"")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Quiet."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def download(endpoint: str, name: str, **where: Any) -> Path:
    return Path(hub.hf_hub_download("org/name", name, endpoint=endpoint, token=False, **where))


def test_a_cache_is_read_as_the_library_reads_it(endpoint: str, tmp_path: Path, stores: ModelStores) -> None:
    links = {name: download(endpoint, name, cache_dir=tmp_path) for name in FILES}
    (repo,) = hub.scan_cache_dir(tmp_path).repos
    (revision,) = repo.revisions
    (facts,) = stores.models(bytes(tmp_path))
    assert facts.name == f"{repo.repo_id}@{revision.commit_hash[:12]}"
    assert {(item.path, item.size) for item in facts.members} == {
        (os.fsencode(file.blob_path), file.size_on_disk) for file in revision.files
    }
    assert list(stores.survey(bytes(tmp_path))) == []
    for name, link in links.items():
        known = stores.expectation(bytes(link.resolve()), given=bytes(link))
        (reference,) = known.references
        assert (reference.algorithm, reference.value) == (ALGORITHMS[name], ETAGS[name])
        assert known.names == (f"org/name@{COMMIT[:12]}/{name}", f"org/name@main/{name}")
        assert locate(f"hf:org/name/{name}", Homes(huggingface=(bytes(tmp_path),))) == bytes(link)


def test_a_directory_is_read_as_the_library_wrote_it(endpoint: str, tmp_path: Path, stores: ModelStores) -> None:
    for name in FILES:
        path = download(endpoint, name, local_dir=tmp_path)
        known = stores.expectation(bytes(path))
        assert [item.value for item in known.references] == [ETAGS[name]]
        assert known.downloaded_ns is not None
        # The record is written when the file is there.
        assert 0 <= known.downloaded_ns - path.stat().st_mtime_ns < 60 * 10**9


def test_a_blob_that_the_library_shares_keeps_its_digest(endpoint: str, tmp_path: Path, stores: ModelStores) -> None:
    sharing = pytest.importorskip("huggingface_hub.utils._shared_blobs", reason="the library shares no blobs yet")
    name = "sub/model.gguf"
    blob = download(endpoint, name, cache_dir=tmp_path).resolve()
    size = len(FILES[name])
    assert sharing.publish_blob_to_shared_store(
        blob_path=str(blob), xet_hash="ab" * 32, cache_dir=str(tmp_path), expected_size=size
    )
    stored = tmp_path / "blobs" / "ab" / ("ab" * 32)
    assert blob.is_symlink()
    assert blob.resolve() == stored
    known = stores.expectation(bytes(stored))
    assert known.references == (Reference("sha256", ETAGS[name], "blob name"),)
    assert known.names == (f"org/name@{COMMIT[:12]}/{name}", f"org/name@main/{name}")
    assert list(stores.survey(bytes(tmp_path))) == []
