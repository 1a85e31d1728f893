"""The settings: what is allowed, what is refused and how, and that the sample says the truth."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from auditd.errors import SettingsError
from auditd.settings import InspectSettings, Root, Settings, applied, configuration_digest, parse, review

SAMPLE = Path(__file__).parents[1] / "config" / "config.toml"
_SETTING = re.compile(r"#([a-z_]+ = .*|\[\[root\]\])")
#: Settings without a fixed default; the sample shows an example.
_EXAMPLES = {"root": {"path"}, "store": {"path"}, "log": {"path"}}


def test_nothing_given_is_every_default() -> None:
    assert parse("", "f") == Settings()


def test_every_setting_is_taken() -> None:
    settings = parse(
        """
        [[root]]
        path = "/srv//models/"
        recursive = false
        watch = "poll"
        follow_links = true
        hash = "full"
        layout = "strict"
        exclude = ["*.bak"]
        severity = { padding_nonzero = "critical" }
        [schedule]
        settle_seconds = 0.25
        [alert.severities]
        unowned_bytes = "warning"
        """,
        "f",
    )
    assert settings.roots == (
        Root("/srv/models", False, "poll", True, "full", "strict", ("*.bak",), {"padding_nonzero": "critical"}),
    )
    assert settings.schedule.settle_seconds == 0.25
    assert settings.alert.severities == {"unowned_bytes": "warning"}


REFUSED = [
    ("x = 1", "x", "[[root]], [inspect]"),
    ("[other]", "other", "[[root]], [inspect]"),
    ("[inspect]\nhas = 1", "inspect.has", "hash, layout, digests, stall_seconds"),
    ("[inspect]\nhash = 1", "inspect.hash", '"header", "expected", "full"'),
    ("[inspect]\nhash = 'all'", "inspect.hash", '"header", "expected", "full"'),
    ("[inspect]\nlayout = 'k65'", "inspect.layout", '"auto", "strict", "ggml-current"'),
    ("[inspect]\nstall_seconds = 0", "inspect.stall_seconds", "a number from 5 to 86,400"),
    ("[inspect]\nstall_seconds = true", "inspect.stall_seconds", "a number from 5 to 86,400"),
    ("[inspect]\nstall_seconds = '5'", "inspect.stall_seconds", "a number from 5 to 86,400"),
    ("[inspect]\nstall_seconds = nan", "inspect.stall_seconds", "a number from 5 to 86,400"),
    ("[inspect]\ninspection_seconds = inf", "inspect.inspection_seconds", "0 (none) or a number from 1"),
    ("[inspect]\nread_bytes_per_second = 100", "inspect.read_bytes_per_second", "0 (none) or an integer from 65,536"),
    ("[inspect]\nread_bytes_per_second = 1e6", "inspect.read_bytes_per_second", "0 (none) or an integer from 65,536"),
    ("[schedule]\nqueue = 0", "schedule.queue", "an integer from 1 to 10,000,000"),
    ("[schedule]\nsettle_seconds = -1", "schedule.settle_seconds", "a number from 0"),
    ("[alert]\nseverity = 'fatal'", "alert.severity", '"info", "notice", "warning", "critical"'),
    ("[alert.severities]\nother = 'info'", "alert.severities.other", "a finding code: "),
    ("[alert.severities]\nbool_value = 'bad'", "alert.severities.bool_value", '"info", "notice", "warning"'),
    ("[alert.severities]\nbool_value = ['info']", "alert.severities.bool_value", '"info", "notice", "warning"'),
    ("[alert]\nseverities = []", "alert.severities", "a table of finding codes"),
    ("[store]\npath = 'a.sqlite'", "store.path", "an absolute path"),
    ("[store]\nretention_days = 0", "store.retention_days", "a number from 1 to 36,500"),
    ("[inspect]\nstall_seconds = 4.9", "inspect.stall_seconds", "a number from 5 to 86,400"),
    ("[log]\nform = 'ecs'", "log.form", '"plain", the only form'),
    ("[metrics]\ntextfile = 'a.prom'", "metrics.textfile", "an absolute path"),
    ("[notify]\nwebhook = 'ftp://host/'", "notify.webhook", "an http or https URL"),
    ("[notify]\nwebhook = 'http://[::1'", "notify.webhook", "an http or https URL"),
    ("[notify]\nlisten = '9100'", "notify.listen", "HOST:PORT"),
    ("[notify]\nlisten = 'localhost:99999'", "notify.listen", "HOST:PORT"),
    ("root = 1", "root", "tables [[root]]"),
    ("root = [1]", "root[0]", "a table"),
    ("inspect = []", "inspect", "a table [inspect]"),
    ("[[root]]", "root[0].path", "an absolute path"),
    ("[[root]]\npath = 'models'", "root[0].path", "an absolute path"),
    ("[[root]]\npath = '/a/../b'", "root[0].path", 'without ".."'),
    ('[[root]]\npath = "/a\\u0000"', "root[0].path", "an absolute path"),
    ("[[root]]\npath = '/a'\nrecursive = 1", "root[0].recursive", "true or false"),
    ("[[root]]\npath = '/a'\nwatch = 'inotify'", "root[0].watch", '"auto", "events", "poll"'),
    ("[[root]]\npath = '/a'\nexclude = '*.bak'", "root[0].exclude", "a list of name patterns"),
    ("[[root]]\npath = '/a'\nexclude = ['a', '']", "root[0].exclude[1]", "a list of name patterns"),
    ("[[root]]\npath = '/a'\n[[root]]\npath = '/a/'", "root[1].path", "a file must have one root"),
    ("[[root]]\npath = '/a'\n[[root]]\npath = '/a/b'", "root[1].path", "within root[0]"),
    ("[[root]]\npath = '/a/b'\n[[root]]\npath = '/a'", "root[0].path", "within root[1]"),
    ("[[root]]\npath = '/'\n[[root]]\npath = '/a'", "root[1].path", "within root[0]"),
]


@pytest.mark.parametrize(("text", "key", "allowed"), REFUSED)
def test_refusal_names_file_key_and_what_is_allowed(text: str, key: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse(text, "/etc/x.toml")
    assert refusal.value.source == "/etc/x.toml"
    assert refusal.value.key == key
    assert allowed in refusal.value.problem
    assert str(refusal.value).startswith(f"/etc/x.toml: {key}: ")


def test_a_review_finds_all_mistakes() -> None:
    text = """
        [[root]]
        path = "/a"
        exclude = ["", "b", 1]
        watch = "inotify"
        [[root]]
        path = "b"
        [[root]]
        path = "/c"
        [[root]]
        path = "/c/d"
        """
    found = review(text, "f")
    assert found.settings is None
    assert [mistake.key for mistake in found.mistakes] == [
        "root[0].exclude[0]",
        "root[0].exclude[2]",
        "root[0].watch",
        "root[1].path",
        "root[3].path",
    ]
    assert "found 1" in found.mistakes[1].problem
    assert 'within root[2], "/c"' in found.mistakes[-1].problem


def test_a_review_knows_what_is_not_acted_upon() -> None:
    found = review("[schedule]\nscrub_bytes_per_second = 0\n[notify]\nwebhook = ''\n[alert]\nrepeat_hours = 1\n", "f")
    assert (found.mistakes, found.without_effect) == ((), ("notify.webhook",))
    assert (found.settings is not None, found.has_root) == (True, False)


@pytest.mark.parametrize("text", ["=", "a = " + "[" * 5000, "a = 1\na = 2", '[inspect]\nhash = "\x1b"'])
def test_what_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^f: is not TOML: "):
        parse(text, "f")


def test_hostile_text_in_a_refusal_is_printable() -> None:
    with pytest.raises(SettingsError) as refusal:
        parse('[inspect]\n"\\u001b[2J\\n" = "\\u202e"', "f\x1b")
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize(
    "outer",
    ["path = '/a'\nrecursive = false", "path = '/a'\nexclude = ['b/c/']", "path = '/a/b/c-other'"],
    ids=["not recursive", "excluded", "only a common prefix"],
)
def test_roots_that_share_no_file_may_stand_together(outer: str) -> None:
    assert len(parse(f"[[root]]\n{outer}\n[[root]]\npath = '/a/b/c'", "f").roots) == 2


def test_root_goes_before_the_general_settings() -> None:
    settings = parse(
        "[inspect]\nhash='full'\n[alert.severities]\nbool_value='info'\nbig_endian='info'\n"
        "[[root]]\npath='/a'\nlayout='k64'\nseverity={bool_value='critical'}\n[[root]]\npath='/b'",
        "f",
    )
    own = applied(settings, settings.roots[0])
    assert (own.hash, own.layout) == ("full", "k64")
    assert own.severities == {"bool_value": "critical", "big_endian": "info"}
    assert applied(settings, settings.roots[1]) == applied(settings)


def test_digest_changes_with_what_is_looked_at_and_only_with_that() -> None:
    plain = Settings()
    full = Settings(inspect=InspectSettings(hash="full"))
    slow = Settings(inspect=InspectSettings(read_bytes_per_second=100_000))
    assert configuration_digest(plain) == configuration_digest(slow)
    assert configuration_digest(plain) != configuration_digest(full)
    assert configuration_digest(plain, Root("/a", hash="full")) == configuration_digest(full)


def _uncommented() -> str:
    return "\n".join(_SETTING.sub(r"\1", line) for line in SAMPLE.read_text().splitlines())


def test_sample_is_accepted_as_it_is() -> None:
    assert parse(SAMPLE.read_text(), "sample") == Settings()


def test_sample_shows_every_setting_with_its_default() -> None:
    shown = parse(_uncommented(), "sample")
    defaults = Settings(roots=(Root("/"),))
    for part in dataclasses.fields(Settings):
        name = part.name.removesuffix("s") if part.name == "roots" else part.name
        given, default = getattr(shown, part.name), getattr(defaults, part.name)
        if name == "root":
            given, default = given[0], default[0]
        for setting in dataclasses.fields(given):
            line = re.search(rf"^#?{setting.name} = ", _section(name), re.MULTILINE)
            assert line, f"{name}.{setting.name} is not in the sample"
            if setting.name not in _EXAMPLES.get(name, set()) and (name, setting.name) not in _INHERITED:
                assert getattr(given, setting.name) == getattr(default, setting.name), f"{name}.{setting.name}"


#: A root's own come from [inspect] when they are left out; the sample shows what holds then.
_INHERITED = {("root", "hash"), ("root", "layout")}


def _section(name: str) -> str:
    heading = re.escape("[[root]]" if name == "root" else f"[{name}]")
    found = re.search(rf"^#?{heading}$(.*?)(?=^#?\[|\Z)", SAMPLE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"[{name}] is not in the sample"
    return found[1]
