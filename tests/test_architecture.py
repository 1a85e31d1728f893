"""The floors of the house: who may import whom, who may touch the world, and what stays cheap to start."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "auditd"
MODULES = sorted(PACKAGE.rglob("*.py"))

#: Lowest first. A module imports from its own floor and from those before it, never from a later one.
FLOORS = (
    "errors",
    "formats",
    "accounting",
    "model",
    "evidence",
    "rules",
    "header_dump",
    "comparison",
    "model_sets",
    "model_stores",
    "inspection",
    "evidence_store",
    "choices",
    "settings",
    "report",
    "service",
    "cli",
    "__main__",
)
#: Values in, values out.
PURE = {
    "errors",
    "formats",
    "accounting",
    "model",
    "evidence",
    "rules",
    "header_dump",
    "comparison",
    "model_sets",
    "choices",
    "settings",
    "report",
}
WORLD = {
    "asyncio",
    "ctypes",
    "fcntl",
    "glob",
    "io",
    "mmap",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "select",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "trio",
}
#: They cost more time to import than a header takes to inspect.
SERVICE_ONLY = {"trio", "watchfiles", "structlog"}
#: Loading something from a file could run it.
NEVER = {"pickle", "marshal", "shelve", "torch", "requests", "urllib.request", "http"}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def _floor(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _imports(path: Path) -> Iterator[str]:
    """The absolute names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "auditd":
                yield from (f"auditd.{alias.name}" for alias in node.names if alias.name != "__version__")
            else:
                yield node.module or ""


def _statements(path: Path) -> Iterator[ast.stmt]:
    """A module's statements without what is done only when it is run as a program."""
    for statement in ast.parse(path.read_text()).body:
        if not (isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"):
            yield statement


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_go_down_only(path: Path) -> None:
    own = _floor(_name(path))
    if own == "__init__":
        own = FLOORS[0]
    for module in _imports(path):
        if module.startswith("auditd."):
            floor = _floor(module)
            assert floor in FLOORS, f"{module} has no floor"
            assert FLOORS.index(floor) <= FLOORS.index(own), f"{own} imports {module}"


@pytest.mark.parametrize("path", [path for path in MODULES if _floor(_name(path)) in PURE], ids=_name)
def test_pure_floors_touch_nothing(path: Path) -> None:
    touched = {module.partition(".")[0] for module in _imports(path)} & WORLD
    assert not touched
    nodes = (node for statement in _statements(path) for node in ast.walk(statement))
    calls = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not calls & {"open", "print", "input", "exec", "eval", "__import__"}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_only_the_service_imports_what_is_slow_to_import(path: Path) -> None:
    roots = {module.partition(".")[0] for module in _imports(path)}
    if _floor(_name(path)) != "service":
        assert not roots & SERVICE_ONLY
    assert not roots & NEVER


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "no docstring"


def test_standard_library_of_the_oldest_python_suffices() -> None:
    known = sys.stdlib_module_names | {"auditd", "msgspec", *SERVICE_ONLY}
    for path in MODULES:
        assert {module.partition(".")[0] for module in _imports(path)} <= known, path
