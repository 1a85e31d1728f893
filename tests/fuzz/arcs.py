"""Which code was reached: arcs between lines of the package's parsers, cheaply enough for a fuzzer.

With ``sys.monitoring`` (Python 3.12 and later) lines and branches are reported once each and cost nothing afterwards;
before it, ``sys.settrace`` follows each line of the watched files. Either way :class:`Arcs` gives the number of arcs
that a stretch of code reached for the first time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

PACKAGE: Final = Path(__file__).resolve().parents[2] / "auditd"

#: Files, or directories, whose code is watched: what interprets bytes from outside.
WATCHED: Final = (
    "formats",
    "accounting",
    "inspection/embedded.py",
    "stores/checked_json.py",
    "stores/ollama_manifests.py",
    "stores/sidecar.py",
    "stores/signing.py",
    "evidence/sets/index.py",
    "evidence/sets/names.py",
    "evidence/dump",
    "evidence/view.py",
    "archive/admission.py",
    "archive/bundle.py",
    "archive/records.py",
)

#: ``sys.monitoring``, which the type checker's oldest Python lacks.
_MONITORING: Final[Any] = getattr(sys, "monitoring", None)

#: An identifier that no debugger, profiler or coverage tool has.
_TOOL: Final = 4

_PREFIXES: Final = tuple(str(PACKAGE / name) for name in WATCHED)

#: Code, the line before, the line.
Arc: TypeAlias = tuple[CodeType, int, int]


class Arcs:
    """All arcs reached so far; ``lines`` counts the lines run under :meth:`watch`, where the tracer sees each."""

    def __init__(self, prefixes: tuple[str, ...] = _PREFIXES) -> None:
        self.reached: set[Arc] = set()
        self.lines = 0
        self._prefixes = prefixes
        self._watched: dict[CodeType, bool] = {}
        #: Where a branch of the code went, by its origin.
        self._ends: dict[tuple[CodeType, int], set[int]] = {}

    def __len__(self) -> int:
        return len(self.reached)

    def _is_watched(self, code: CodeType) -> bool:
        known = self._watched.get(code)
        if known is None:
            known = self._watched[code] = code.co_filename.startswith(self._prefixes)
        return known

    @contextmanager
    def watch(self, *, every_line: bool = False) -> Iterator[None]:
        """Watch what runs inside; with ``every_line`` count lines, which only the tracer can."""
        follow = self._trace if every_line or _MONITORING is None else self._monitor
        with follow():
            yield

    # -- before 3.12 --------------------------------------------------------------------------------

    @contextmanager
    def _trace(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        return _Follower(self, code).line if self._is_watched(code) else None

    # -- 3.12 and later -----------------------------------------------------------------------------

    @contextmanager
    def _monitor(self) -> Iterator[None]:
        events, tool = _MONITORING.events, _TOOL
        if _MONITORING.get_tool(tool) is None:
            _MONITORING.use_tool_id(tool, "fuzz")
        _MONITORING.register_callback(tool, events.LINE, self._line)
        _MONITORING.register_callback(tool, events.BRANCH, self._branch)
        _MONITORING.set_events(tool, events.LINE | events.BRANCH)
        try:
            yield
        finally:
            _MONITORING.set_events(tool, 0)

    def _line(self, code: CodeType, line: int) -> Any:
        if self._is_watched(code):
            self.reached.add((code, 0, line))
        return _MONITORING.DISABLE

    def _branch(self, code: CodeType, origin: int, destination: int) -> Any:
        """One end of a branch. A place is left alone once both of its ends were seen."""
        if not self._is_watched(code):
            return _MONITORING.DISABLE
        ends = self._ends.setdefault((code, origin), set())
        ends.add(destination)
        self.reached.add((code, -1 - origin, destination))
        return None if len(ends) == 1 else _MONITORING.DISABLE


class _Follower:
    """The lines of one call."""

    __slots__ = ("_arcs", "_code", "_last")

    def __init__(self, arcs: Arcs, code: CodeType) -> None:
        self._arcs = arcs
        self._code = code
        self._last = 0

    def line(self, frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        """The local trace function."""
        if event == "line":
            line = frame.f_lineno
            self._arcs.lines += 1
            self._arcs.reached.add((self._code, self._last, line))
            self._last = line
        return self.line
