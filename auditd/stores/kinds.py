"""The table of sources: a new kind of store or sidecar is a module and a row here."""

from __future__ import annotations

from typing import Final

from auditd.stores.huggingface import HubRepository
from auditd.stores.huggingface_shared import SharedBlobs
from auditd.stores.local_dir import Downloads, LocalDirectory
from auditd.stores.ollama import OllamaStore
from auditd.stores.sidecar import Sidecars
from auditd.stores.standing import Source, Store

#: Directories that say how everything in them stands.
STORES: Final[tuple[type[Store], ...]] = (OllamaStore, HubRepository, LocalDirectory)

#: Everybody who is asked about a file. What the first ones say goes first.
SOURCES: Final[tuple[type[Source], ...]] = (OllamaStore, HubRepository, Downloads, SharedBlobs, Sidecars)
