"""Stores made by hand, file by file, with digests from the standard library."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

MODEL: Final = "application/vnd.ollama.image.model"
PROJECTOR: Final = "application/vnd.ollama.image.projector"
ADAPTER: Final = "application/vnd.ollama.image.adapter"
LICENSE: Final = "application/vnd.ollama.image.license"
CONFIG: Final = "application/vnd.docker.container.image.v1+json"

COMMIT: Final = "1" * 40
OTHER_COMMIT: Final = "2" * 40


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def write(path: Path, content: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def blob(store: Path, content: bytes) -> Path:
    """A blob of an Ollama store under its right name."""
    return write(store / "blobs" / f"sha256-{sha256(content)}", content)


def layer(content: bytes, media_type: str = MODEL, **changed: Any) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{sha256(content)}", "size": len(content), **changed}


def manifest(store: Path, name: str, *layers: dict[str, Any], config: dict[str, Any] | None = None) -> Path:
    """A manifest at ``name``, ``registry/namespace/model/tag``."""
    document = {"schemaVersion": 2, "config": config, "layers": layers}
    return write(store / "manifests" / name, json.dumps(document).encode())


def library(model: str, tag: str = "latest") -> str:
    return f"registry.ollama.ai/library/{model}/{tag}"


def repository(hub: Path, name: str = "org/name") -> Path:
    path = hub / ("models--" + name.replace("/", "--"))
    path.mkdir(parents=True, exist_ok=True)
    return path


def snapshot(repo: Path, file: str, content: bytes, *, commit: str = COMMIT, etag: str | None = None) -> Path:
    """A blob, and the link in a snapshot that leads to it; the path of the link."""
    stored = write(repo / "blobs" / (etag or sha256(content)), content)
    link = repo / "snapshots" / commit / file
    link.parent.mkdir(parents=True, exist_ok=True)
    up = "../" * (2 + file.count("/"))
    link.symlink_to(f"{up}blobs/{stored.name}")
    return link


def ref(repo: Path, name: str = "main", commit: str = COMMIT) -> Path:
    return write(repo / "refs" / name, commit.encode())
