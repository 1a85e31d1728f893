"""The settings: TOML text in, frozen values out. Pure; whoever has the file reads it.

:func:`parse` refuses what it does not know and says where: the file, the dotted key and what is allowed;
:func:`review` finds all such mistakes.
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
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from auditd.choices import HASH_CHOICES, LAYOUT_CHOICES, PARTS_CHOICES, choices_digest
from auditd.errors import SettingsError
from auditd.evidence.record import Severity
from auditd.evidence.text import printable, quoted
from auditd.inspection.parts import Parts
from auditd.inspection.request import HashMode
from auditd.rules.findings import SEVERITY_ORDER
from auditd.rules.severities import SEVERITIES

WatchMode: TypeAlias = Literal["auto", "events", "poll"]
#: The Elastic Common Schema is not written by this version.
LogForm: TypeAlias = Literal["plain"]
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
    digests: Parts = "none"
    stall_seconds: Seconds = 60
    inspection_seconds: Seconds = 0
    read_bytes_per_second: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """When files are looked at. ``scrub_days`` is the period in which everything is hashed again, 0 for never."""

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
    """For the second process, which is not in this version: nothing acts upon these yet. Nothing means off."""

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


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A value that a rule does not take: what it allows, and the part of the key below the setting's own."""

    allowed: str
    found: object
    below: str = ""


class _RefusedError(Exception):
    """All that a rule does not take in one value."""

    def __init__(self, *refusals: _Refusal) -> None:
        self.refusals = refusals


#: Takes what TOML gave and returns what the dataclass holds, or raises :class:`_RefusedError`.
_Rule: TypeAlias = Callable[[object], object]


def _rule(allowed: str, accepts: Callable[[Any], bool], *types: type) -> _Rule:
    """A rule for exactly the TOML ``types`` (``bool`` is not ``int`` here) that ``accepts`` returns true for."""

    def read(value: object) -> object:
        if type(value) not in types or not accepts(value):
            raise _RefusedError(_Refusal(allowed, value))
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
        raise _RefusedError(_Refusal(allowed, value))
    refusals = [
        _Refusal(allowed, item, f"[{index}]")
        for index, item in enumerate(value)
        if not isinstance(item, str) or not item or "\0" in item
    ]
    if refusals:
        raise _RefusedError(*refusals)
    return tuple(value)


def _severities(value: object) -> Severities:
    if not isinstance(value, dict):
        raise _RefusedError(_Refusal("a table of finding codes and severities", value))
    refusals = []
    for code, severity in value.items():
        if code not in SEVERITIES:
            allowed = "a finding code: " + ", ".join(sorted(SEVERITIES))
            refusals.append(_Refusal(allowed, code, f".{printable(code, 80)}"))
        if severity not in SEVERITY_ORDER:
            allowed = "one of " + ", ".join(f'"{name}"' for name in SEVERITY_ORDER)
            refusals.append(_Refusal(allowed, severity, f".{printable(code, 80)}"))
    if refusals:
        raise _RefusedError(*refusals)
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
            "digests": _one_of(*PARTS_CHOICES),
            # Less is not told from a disk that spins up.
            "stall_seconds": _duration(5, _DAY),
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
    "log": (
        LogSettings,
        {
            "path": _PATH,
            "form": _rule('"plain", the only form that this version writes', lambda value: value == "plain", str),
        },
    ),
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

#: Settings that are taken, and that nothing in this version acts upon.
WITHOUT_EFFECT: Final = frozenset({"notify.webhook", "notify.listen"})

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
    """Reads tables of one file and keeps what is wrong with them, each mistake with its place."""

    source: str
    mistakes: list[SettingsError] = field(default_factory=list)
    #: The dotted keys of the settings that were given and taken.
    given: list[str] = field(default_factory=list)

    def mistake(self, key: str, problem: str) -> None:
        self.mistakes.append(SettingsError(printable(self.source), key, problem))

    def table(self, value: object, key: str, rules: Mapping[str, _Rule]) -> dict[str, Any]:
        """The settings that are given in one table, read by its rules, without those that are wrong."""
        if not isinstance(value, dict):
            self.mistake(key, f"must be a table [{key}], not {_shown(value)}")
            return {}
        taken: dict[str, Any] = {}
        for name, item in value.items():
            place = f"{key}.{printable(name, 80)}"
            rule = rules.get(name)
            if rule is None:
                self.mistake(place, f"no such setting; [{key}] knows {', '.join(rules)}")
                continue
            try:
                taken[name] = rule(item)
            except _RefusedError as refused:
                for refusal in refused.refusals:
                    self.mistake(place + refusal.below, f"must be {refusal.allowed}; found {_shown(refusal.found)}")
            else:
                self.given.append(place)
        return taken

    def root(self, value: object, index: int) -> Root | None:
        key = f"root[{index}]"
        taken = self.table(value, key, _ROOT_RULES)
        if isinstance(value, dict) and "path" not in value:
            self.mistake(f"{key}.path", "is missing; must be an absolute path")
        return Root(**taken) if "path" in taken else None

    def roots(self, value: object) -> tuple[Root, ...]:
        if not isinstance(value, list):
            self.mistake("root", f"must be tables [[root]], not {_shown(value)}")
            return ()
        read = [(index, self.root(item, index)) for index, item in enumerate(value)]
        roots = [(index, root) for index, root in read if root is not None]
        for inner_index, inner in roots:
            self.place(inner_index, inner, roots)
        return tuple(root for _, root in roots)

    def place(self, index: int, inner: Root, roots: list[tuple[int, Root]]) -> None:
        """Whether another root claims the files of this one; of two with the same path the later one is wrong."""
        for outer_index, outer in roots:
            if outer_index == index or not _claims(outer, inner):
                continue
            if inner.path != outer.path or index > outer_index:
                problem = f"lies within root[{outer_index}], {quoted(outer.path)}: a file must have one root"
                remedy = "exclude it there by its path below that root, or leave one of them out"
                self.mistake(f"root[{index}].path", f"{problem}; {remedy}")
                return


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


@dataclass(frozen=True, slots=True)
class Review:
    """What is to be said about a configuration; ``settings`` None if it is refused."""

    settings: Settings | None
    mistakes: tuple[SettingsError, ...] = ()
    #: The settings given that are among :data:`WITHOUT_EFFECT`.
    without_effect: tuple[str, ...] = ()
    #: Whether a ``[[root]]`` is given, right or wrong.
    has_root: bool = True


def review(text: str, source: str) -> Review:
    """All that is wrong with the settings in ``text``; ``source`` is the file's name for messages."""
    reader = _Reader(source)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reader.mistake("", f"is not TOML: {printable(str(error), 200)}")
        return Review(None, tuple(reader.mistakes))
    for name in document:
        if name != "root" and name not in _TABLES:
            problem = f"no such table; allowed are [[root]], {', '.join(f'[{table}]' for table in _TABLES)}"
            reader.mistake(printable(name, 80), problem)
    parts = {
        name: values(**reader.table(document[name], name, rules))
        for name, (values, rules) in _TABLES.items()
        if name in document
    }
    settings = Settings(roots=reader.roots(document.get("root", [])), **parts)
    without_effect = tuple(key for key in reader.given if key in WITHOUT_EFFECT)
    return Review(
        None if reader.mistakes else settings, tuple(reader.mistakes), without_effect, document.get("root", []) != []
    )


def parse(text: str, source: str) -> Settings:
    """The settings in ``text``; ``source`` is the file's name for messages. Raises the first mistake: ``SettingsError``."""
    reviewed = review(text, source)
    if reviewed.settings is None:
        raise reviewed.mistakes[0]
    return reviewed.settings


# --- what applies to a file ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Applied:
    """What holds for files below one root, or for a path that is below none."""

    hash: HashMode
    layout: str
    severities: Severities
    digests: Parts


def applied(settings: Settings, root: Root | None = None) -> Applied:
    """The root's own settings before the general ones."""
    general = settings.inspect
    if root is None:
        return Applied(general.hash, general.layout, settings.alert.severities, general.digests)
    severities = MappingProxyType({**settings.alert.severities, **root.severity})
    return Applied(root.hash or general.hash, root.layout or general.layout, severities, general.digests)


def configuration_digest(settings: Settings, root: Root | None = None) -> str:
    """SHA-256 of the settings that change what an inspection looks at: how much is hashed, and the layout.

    Evidence with another digest is out of date. Severities are not among them: they change what is said
    about a file, which needs no second look at it.
    """
    what = applied(settings, root)
    return choices_digest(what.hash, what.layout, what.digests)
