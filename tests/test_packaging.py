"""What is declared is what is needed: dependencies, the command, the files that come along, the README's commands."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from auditd import __version__
from auditd.__main__ import main

PROJECT = Path(__file__).parents[1]
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())
RUNTIME = DECLARED["project"]["dependencies"]
EXTRAS = DECLARED["project"]["optional-dependencies"]
_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[a-z,]+\])?(?:>=([0-9.]+)(?:,<[0-9.]+)?)?")


def _parsed(requirement: str) -> tuple[str, str | None]:
    match = _REQUIREMENT.fullmatch(requirement)
    assert match, requirement
    return match[1].replace("-", "_").lower(), match[2]


def _third_party(folder: str) -> set[str]:
    """The import names from outside in all modules of a folder."""
    names: set[str] = set()
    for path in (PROJECT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"auditd", "tests"}


def test_every_dependency_has_a_lower_bound() -> None:
    for requirement in [*RUNTIME, *EXTRAS["test"]]:
        assert _parsed(requirement)[1], requirement


def test_dependencies_are_what_is_imported() -> None:
    assert _third_party("auditd") == {_parsed(requirement)[0] for requirement in RUNTIME}


def test_tests_import_only_what_the_test_extra_declares() -> None:
    declared = {_parsed(requirement)[0] for requirement in [*RUNTIME, *EXTRAS["test"]]}
    assert _third_party("tests") <= declared


def test_the_console_command() -> None:
    found = [entry.value for entry in entry_points(group="console_scripts", name="model-auditd")]
    assert set(found) <= {"auditd.__main__:main"}
    assert DECLARED["project"]["scripts"] == {"model-auditd": "auditd.__main__:main"}


def test_the_version_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"model-auditd {__version__}\n"
    assert DECLARED["project"]["dynamic"] == ["version"]


@pytest.mark.parametrize("name", ["config/config.toml", "systemd/model-auditd.service"])
def test_what_comes_along_is_there(name: str) -> None:
    shared = DECLARED["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert name.partition("/")[0] in shared
    assert (PROJECT / name).is_file()


def test_the_readmes_first_two_commands() -> None:
    commands = [line.strip() for line in (PROJECT / "README.md").read_text().splitlines() if "python3 -m venv" in line]
    assert commands[0].endswith("pip install . && .venv/bin/model-auditd audit ~/models")
    assert commands[1].endswith("pip install -e '.[test]' && .venv/bin/python -m pytest")
