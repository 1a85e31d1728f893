"""The configuration file: reads it for ``run`` and ``check-config``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from auditd.errors import SettingsError
from auditd.evidence.text import printable
from auditd.settings import Settings, parse

DEFAULT_PATH: Final = "/etc/model-auditd/config.toml"


def load(path: str) -> Settings:
    """The settings in the file, which names at least one root. Raises ``SettingsError``, whatever is wrong with it."""
    source = printable(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(source, "", f"is not UTF-8: byte {error.start}") from None
    except FileNotFoundError:
        raise SettingsError(source, "", "there is no such file; name another one, or start from the sample") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(source, "", f"cannot be read: {reason}") from None
    settings = parse(text, path)
    if not settings.roots:
        raise SettingsError(source, "root", "is missing: the daemon needs at least one [[root]] with a path")
    return settings
