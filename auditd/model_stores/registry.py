"""The table of sources: a new kind of store or sidecar is a module and a row here."""

from __future__ import annotations

from typing import Final

from auditd.model_stores.huggingface import HubRepository
from auditd.model_stores.huggingface_shared import SharedBlobs
from auditd.model_stores.local_dir import Downloads, LocalDirectory
from auditd.model_stores.ollama import OllamaStore
from auditd.model_stores.sidecar import Sidecars
from auditd.model_stores.status import ModelStore, Source

#: Directories that say how everything in them stands.
STORES: Final[tuple[type[ModelStore], ...]] = (OllamaStore, HubRepository, LocalDirectory)

#: Everybody who is asked about a file. What the first ones say goes first.
SOURCES: Final[tuple[type[Source], ...]] = (OllamaStore, HubRepository, Downloads, SharedBlobs, Sidecars)
