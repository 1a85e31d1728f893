"""The installation that the unit expects, made of what this interpreter has: no network, and nothing is built."""

from __future__ import annotations

import compileall
import importlib.metadata
import re
import shutil
import sys
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[2]

#: Where the unit has it.
PREFIX: Final = "/opt/model-auditd"

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")

_COMMAND: Final = """#!{python}
import sys

sys.path.insert(0, "{prefix}/site")
from auditd.__main__ import main

sys.exit(main())
"""


def install(folder: Path) -> dict[Path, str]:
    """Make it in ``folder``; what has to be shown in the container, and where."""
    site = folder / "site"
    shutil.copytree(PROJECT / "auditd", site / "auditd")
    for name in sorted(_needed("model-auditd")):
        _copy(importlib.metadata.distribution(name), site)
    folder.chmod(0o755)  # the service is somebody else
    compileall.compile_dir(site, quiet=2)
    (folder / "python").mkdir()
    command = folder / "bin" / "model-auditd"
    command.parent.mkdir()
    command.write_text(_COMMAND.format(python=python(), prefix=PREFIX))
    command.chmod(0o755)
    base = {} if _is_of_the_system() else {Path(sys.base_prefix): f"{PREFIX}/python"}
    return {folder: PREFIX} | base


def _is_of_the_system() -> bool:
    return sys.base_prefix == "/usr"


def python() -> str:
    """The interpreter, in a place that a service without home directories sees."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return f"/usr/bin/{name}" if _is_of_the_system() else f"{PREFIX}/python/bin/{name}"


def _needed(name: str) -> set[str]:
    """The distributions that one needs, and that these need, without its extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for requirement in importlib.metadata.distribution(waiting.pop()).requires or ():
            match = _NAME.match(requirement)
            if match and "extra ==" not in requirement and match[0].lower() not in found and _is_here(match[0]):
                found.add(match[0].lower())
                waiting.append(match[0])
    return found


def _is_here(name: str) -> bool:
    """A requirement of another system, or of an older Python, is not."""
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _copy(distribution: importlib.metadata.Distribution, site: Path) -> None:
    """What it installed below its own names; the commands beside them are not needed."""
    for file in distribution.files or ():
        source = Path(str(distribution.locate_file(file)))
        if ".." not in file.parts and source.is_file():
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
