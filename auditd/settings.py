"""The settings: TOML text in, frozen values out. Pure; whoever has the file reads it.

:func:`parse` refuses what it does not know and says where: the file, the dotted key and what is allowed.
Each setting is declared twice and nowhere else: its name, type and default in a dataclass, what is allowed
in :data:`_TABLES`. Units stand in the names. A duration or a rate of 0 means none where 0 is allowed.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from auditd.choices import HASH_CHOICES, LAYOUT_CHOICES, choices_digest
from auditd.errors import SettingsError
from auditd.evidence.findings import FINDINGS, SEVERITY_ORDER
from auditd.evidence.record import Severity
from auditd.evidence.text import printable, quoted
from auditd.inspection.request import HashMode

WatchMode: TypeAlias = Literal["auto", "events", "poll"]
LogForm: TypeAlias = Literal["plain", "ecs"]
Seconds: TypeAlias = int | float
Severities: TypeAlias = Mapping[str, Severity]


def _no_severities() -> Severities:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Root:
    """A directory that the daemon watches; ``hash`` and ``layout`` None mean as in ``[inspect]``.

    ``path`` is absolute, without ``..`` and without a slash at its end. ``severity`` overrides
    ``[alert] severities`` below this root.
    """

    path: str
    recursive: bool = True
    watch: WatchMode = "auto"
    follow_links: bool = False
    hash: HashMode | None = None
    layout: str | None = None
    exclude: tuple[str, ...] = ()
    severity: Severities = field(default_factory=_no_severities)


@dataclass(frozen=True, slots=True)
class InspectSettings:
    """How one file is looked at. ``stall_seconds`` is the longest wait for a single read."""

    hash: HashMode = "expected"
    layout: str = "auto"
    stall_seconds: Seconds = 60
    inspection_seconds: Seconds = 0
    read_bytes_per_second: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """When files are looked at. ``scrub_days`` 0 turns the slow re-hash of everything off."""

    settle_seconds: Seconds = 10
    rescan_seconds: Seconds = 300
    poll_seconds: Seconds = 60
    queue: int = 10_000
    scrub_days: Seconds = 30
    scrub_bytes_per_second: int = 52_428_800


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """What raises an alert; ``repeat_hours`` and ``pass_overdue_hours`` 0 mean never."""

    severity: Severity = "warning"
    repeat_hours: Seconds = 24
    pass_overdue_hours: Seconds = 24
    severities: Severities = field(default_factory=_no_severities)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where evidence is kept; ``path`` None means where systemd or XDG puts state."""

    path: str | None = None
    retention_days: Seconds = 365


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The JSON Lines log of summaries; ``path`` None means where systemd puts logs, else beside the store."""

    path: str | None = None
    form: LogForm = "plain"


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """``textfile`` is the file for node_exporter's textfile collector, or nothing."""

    textfile: str = ""


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """For the second process, the only one that uses the network; nothing means off."""

    webhook: str = ""
    listen: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """One configuration. Roots are in the order of the file."""

    roots: tuple[Root, ...] = ()
    inspect: InspectSettings = field(default_factory=InspectSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    alert: AlertSettings = field(default_factory=AlertSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    log: LogSettings = field(default_factory=LogSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    notify: NotifySettings = field(default_factory=NotifySettings)


# --- what is allowed -------------------------------------------------------------------------------------


class _RefusedError(Exception):
    """A value that a rule does not take: what it allows, and the part of the key below the setting's own."""

    def __init__(self, allowed: str, below: str = "") -> None:
        self.allowed = allowed
        self.below = below


#: Takes what TOML gave and returns what the dataclass holds, or raises :class:`_RefusedError`.
_Rule: TypeAlias = Callable[[object], object]


def _rule(allowed: str, accepts: Callable[[Any], bool], *types: type) -> _Rule:
    """A rule for exactly the TOML ``types`` (``bool`` is not ``int`` here) that ``accepts`` returns true for."""

    def read(value: object) -> object:
        if type(value) not in types or not accepts(value):
            raise _RefusedError(allowed)
        return value

    return read


def _number(low: int, high: int, *types: type, none: bool = False) -> _Rule:
    """A number from ``low`` to ``high``; with ``none`` also 0, which is below ``low`` then."""
    kind = "a number" if float in types else "an integer"
    allowed = f"{'0 (none) or ' if none else ''}{kind} from {low:,} to {high:,}"
    return _rule(
        allowed, lambda value: math.isfinite(value) and (low <= value <= high or (none and value == 0)), *types
    )


def _duration(low: int, high: int) -> _Rule:
    return _number(low, high, int, float)


def _one_of(*choices: str) -> _Rule:
    return _rule("one of " + ", ".join(f'"{choice}"' for choice in choices), choices.__contains__, str)


def _is_path(value: str) -> bool:
    return value.startswith("/") and "\0" not in value and ".." not in value.split("/")


def _is_url(value: str) -> bool:
    try:
        url = urlsplit(value)
        return url.scheme in {"http", "https"} and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        return False


_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_HIGHEST_PORT: Final = 65_535


def _is_address(value: str) -> bool:
    match = _ADDRESS.fullmatch(value)
    return match is not None and 0 < int(match[1]) <= _HIGHEST_PORT


def _directory(value: object) -> str:
    """An absolute path without superfluous slashes and dots, so that two roots can be compared."""
    return "/" + posixpath.normpath(str(_PATH(value))).lstrip("/")


def _patterns(value: object) -> tuple[str, ...]:
    allowed = "a list of name patterns, none of them empty"
    if not isinstance(value, list):
        raise _RefusedError(allowed)
    for index, item in enumerate(value):
        if not isinstance(item, str) or not item or "\0" in item:
            raise _RefusedError(allowed, f"[{index}]")
    return tuple(value)


def _severities(value: object) -> Severities:
    if not isinstance(value, dict):
        raise _RefusedError("a table of finding codes and severities")
    for code, severity in value.items():
        if code not in FINDINGS:
            raise _RefusedError("a finding code: " + ", ".join(sorted(FINDINGS)), f".{printable(code, 80)}")
        if severity not in SEVERITY_ORDER:
            raise _RefusedError("one of " + ", ".join(f'"{name}"' for name in SEVERITY_ORDER), f".{code}")
    return MappingProxyType(dict(value))


_BOOLEAN: Final = _rule("true or false", lambda _: True, bool)
_PATH: Final = _rule('an absolute path without ".."', _is_path, str)
_HASH: Final = _one_of(*HASH_CHOICES)
_LAYOUT: Final = _one_of(*LAYOUT_CHOICES)
_DAY: Final = 86_400
_CENTURY_DAYS: Final = 36_500
_YEAR_HOURS: Final = 8_784
#: A rate under a quarter of a chunk a second would look like a stalled disk.
_RATE: Final = _number(65_536, 2**53 - 1, int, none=True)

_TABLES: Final[dict[str, tuple[type, dict[str, _Rule]]]] = {
    "inspect": (
        InspectSettings,
        {
            "hash": _HASH,
            "layout": _LAYOUT,
            "stall_seconds": _duration(1, _DAY),
            "inspection_seconds": _number(1, 30 * _DAY, int, float, none=True),
            "read_bytes_per_second": _RATE,
        },
    ),
    "schedule": (
        ScheduleSettings,
        {
            "settle_seconds": _duration(0, _DAY),
            "rescan_seconds": _duration(1, 30 * _DAY),
            "poll_seconds": _duration(1, _DAY),
            "queue": _number(1, 10_000_000, int),
            "scrub_days": _duration(0, _CENTURY_DAYS),
            "scrub_bytes_per_second": _RATE,
        },
    ),
    "alert": (
        AlertSettings,
        {
            "severity": _one_of(*SEVERITY_ORDER),
            "repeat_hours": _duration(0, _YEAR_HOURS),
            "pass_overdue_hours": _duration(0, _YEAR_HOURS),
            "severities": _severities,
        },
    ),
    "store": (StoreSettings, {"path": _PATH, "retention_days": _duration(1, _CENTURY_DAYS)}),
    "log": (LogSettings, {"path": _PATH, "form": _one_of(*get_args(LogForm))}),
    "metrics": (
        MetricsSettings,
        {"textfile": _rule('"" (none) or an absolute path', lambda value: not value or _is_path(value), str)},
    ),
    "notify": (
        NotifySettings,
        {
            "webhook": _rule('"" (none) or an http or https URL', lambda value: not value or _is_url(value), str),
            "listen": _rule('"" (none) or HOST:PORT', lambda value: not value or _is_address(value), str),
        },
    ),
}

_ROOT_RULES: Final[dict[str, _Rule]] = {
    "path": _directory,
    "recursive": _BOOLEAN,
    "watch": _one_of(*get_args(WatchMode)),
    "follow_links": _BOOLEAN,
    "hash": _HASH,
    "layout": _LAYOUT,
    "exclude": _patterns,
    "severity": _severities,
}


# --- reading ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads tables of one file, so that every refusal names it."""

    source: str

    def refuse(self, key: str, problem: str) -> SettingsError:
        return SettingsError(printable(self.source), key, problem)

    def table(self, value: object, key: str, rules: Mapping[str, _Rule]) -> dict[str, Any]:
        """The settings that are given in one table, read by its rules."""
        if not isinstance(value, dict):
            raise self.refuse(key, f"must be a table [{key}], not {_shown(value)}")
        return {name: self.value(item, name, key, rules) for name, item in value.items()}

    def value(self, value: object, name: str, table: str, rules: Mapping[str, _Rule]) -> object:
        key = f"{table}.{printable(name, 80)}"
        rule = rules.get(name)
        if rule is None:
            raise self.refuse(key, f"no such setting; [{table}] knows {', '.join(rules)}")
        try:
            return rule(value)
        except _RefusedError as refused:
            problem = f"must be {refused.allowed}"
            raise self.refuse(key + refused.below, f"{problem}; found {_shown(value)}") from None

    def root(self, value: object, index: int) -> Root:
        key = f"root[{index}]"
        given = self.table(value, key, _ROOT_RULES)
        if "path" not in given:
            raise self.refuse(f"{key}.path", "is missing; must be an absolute path")
        return Root(**given)

    def roots(self, value: object) -> tuple[Root, ...]:
        if not isinstance(value, list):
            raise self.refuse("root", f"must be tables [[root]], not {_shown(value)}")
        roots = tuple(self.root(item, index) for index, item in enumerate(value))
        for (inner_index, inner), (outer_index, outer) in permutations(enumerate(roots), 2):
            if _claims(outer, inner) and (inner.path != outer.path or inner_index > outer_index):
                problem = f"lies within root[{outer_index}], {quoted(outer.path)}: a file must have one root"
                remedy = "exclude it there by its path below that root, or leave one of them out"
                raise self.refuse(f"root[{inner_index}].path", f"{problem}; {remedy}")
        return roots


def _shown(value: object) -> str:
    """A value of the file in a message: what it is, cut short."""
    return quoted(value) if isinstance(value, str) else printable(json.dumps(value, default=str), 80)


def _claims(outer: Root, inner: Root) -> bool:
    """Whether files below ``inner`` would belong to ``outer``, too: it reaches there and does not pass it over."""
    if inner.path == outer.path:
        return True
    above = outer.path.rstrip("/") + "/"
    excluded = {pattern.strip("/") for pattern in outer.exclude}
    return outer.recursive and inner.path.startswith(above) and inner.path.removeprefix(above) not in excluded


def parse(text: str, source: str) -> Settings:
    """The settings in ``text``; ``source`` is the file's name for messages. Raises ``SettingsError``."""
    reader = _Reader(source)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise reader.refuse("", f"is not TOML: {printable(str(error), 200)}") from None
    for name in document:
        if name != "root" and name not in _TABLES:
            problem = f"no such table; allowed are [[root]], {', '.join(f'[{table}]' for table in _TABLES)}"
            raise reader.refuse(printable(name, 80), problem)
    parts = {
        name: values(**reader.table(document[name], name, rules))
        for name, (values, rules) in _TABLES.items()
        if name in document
    }
    return Settings(roots=reader.roots(document.get("root", [])), **parts)


# --- what applies to a file ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Applied:
    """What holds for files below one root, or for a path that is below none."""

    hash: HashMode
    layout: str
    severities: Severities


def applied(settings: Settings, root: Root | None = None) -> Applied:
    """The root's own settings before the general ones."""
    general = settings.inspect
    if root is None:
        return Applied(general.hash, general.layout, settings.alert.severities)
    severities = MappingProxyType({**settings.alert.severities, **root.severity})
    return Applied(root.hash or general.hash, root.layout or general.layout, severities)


def configuration_digest(settings: Settings, root: Root | None = None) -> str:
    """SHA-256 of the settings that change what an inspection looks at: how much is hashed, and the layout.

    Evidence with another digest is out of date. Severities are not among them: they change what is said
    about a file, which needs no second look at it.
    """
    what = applied(settings, root)
    return choices_digest(what.hash, what.layout)
