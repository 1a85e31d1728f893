"""The configuration file: reads it for ``run`` and ``check-config``."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Final

from auditd.errors import SettingsError
from auditd.evidence.text import printable
from auditd.settings import Review, Settings, review

DEFAULT_PATH: Final = "/etc/model-auditd/config.toml"
#: Where an installation puts the sample, below its prefix.
_SAMPLE: Final = "share/model-auditd/config/config.toml"


def load(path: str) -> Settings:
    """The settings in the file, which names at least one root. Raises ``SettingsError``, whatever is wrong with it."""
    found = examine(path)
    if found.settings is None:
        raise found.mistakes[0]
    return found.settings


def examine(path: str) -> Review:
    """All that is to be said about the file. Raises ``SettingsError`` if there is no text in it to speak of."""
    found = review(_text(path), path)
    if found.has_root:
        return found
    missing = SettingsError(printable(path), "root", "is missing: the daemon needs at least one [[root]] with a path")
    return dataclasses.replace(found, settings=None, mistakes=(*found.mistakes, missing))


def _text(path: str) -> str:
    source = printable(path)
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(source, "", f"is not UTF-8: byte {error.start}") from None
    except FileNotFoundError:
        raise SettingsError(source, "", f"there is no such file; {_remedy()}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(source, "", f"cannot be read: {reason}") from None


def _remedy() -> str:
    sample = os.path.join(sys.prefix, _SAMPLE)
    if os.path.isfile(sample):
        return f"name another one, or start from the sample: {printable(sample)}"
    return "name another one"
