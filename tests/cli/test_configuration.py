"""``check-config`` and what ``run`` refuses before it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from auditd.cli import configuration, run
from auditd.cli.configuration import load
from auditd.errors import SettingsError
from auditd.settings import Settings
from tests.support.commands import Command, Write


@pytest.fixture
def config(tmp_path: Path) -> Write:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "config.toml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_a_right_configuration(command: Command, config: Write, tmp_path: Path) -> None:
    path = config(f'[[root]]\npath = "{tmp_path}"\n')
    done = command("check-config", path)
    assert (done.status, done.out, done.err) == (0, f"{path}: right, 1 root\n", "")


def test_a_root_that_is_not_there_yet_is_noted(command: Command, config: Write) -> None:
    done = command("check-config", config('[[root]]\npath = "/no/such/place"\n'))
    assert done.status == 0
    assert "root[0].path: /no/such/place: there is no such directory now" in done.err


WRONG = {
    "a key": ("[[root]]\npath = 1\n", "root[0].path: must be an absolute path"),
    "no root": ("", "root: is missing"),
    "a form that is not written": ("[log]\nform = 'ecs'\n[[root]]\npath = '/a'\n", 'log.form: must be "plain"'),
    "not TOML": ("=", "is not TOML"),
    "not UTF-8": (b"\xff", "is not UTF-8: byte 0"),
}


@pytest.mark.parametrize("verb", [["check-config"], ["run", "--config"]], ids=" ".join)
@pytest.mark.parametrize(("content", "problem"), WRONG.values(), ids=WRONG)
def test_a_wrong_configuration(
    command: Command, config: Write, verb: list[str], content: str | bytes, problem: str
) -> None:
    path = config(content)
    done = command(*verb, path)
    assert (done.status, done.out) == (2, "")
    assert f"model-auditd: {path}: {problem}" in done.err


@pytest.mark.parametrize("verb", [["check-config"], ["run", "--config"]], ids=" ".join)
def test_a_missing_configuration(command: Command, tmp_path: Path, verb: list[str]) -> None:
    done = command(*verb, tmp_path / "none.toml")
    assert done.status == 2
    assert "none.toml: there is no such file" in done.err
    assert command(*verb, tmp_path).status == 2


def test_all_mistakes_are_said_each_with_its_place(command: Command, config: Write) -> None:
    path = config(
        "[inspect]\nhash = 1\nhas = 2\n[log]\nform = 'ecs'\n[other]\n"
        "[alert.severities]\nno_such = 'info'\nbool_value = 'bad'\n"
    )
    done = command("check-config", path)
    assert (done.status, done.out) == (2, "")
    places = [line.removeprefix(f"model-auditd: {path}: ").partition(": ")[0] for line in done.err.splitlines()]
    assert places == [
        "other",
        "inspect.hash",
        "inspect.has",
        "alert.severities.no_such",
        "alert.severities.bool_value",
        "log.form",
        "root",
    ]


def test_what_is_not_acted_upon_is_noted(command: Command, config: Write, tmp_path: Path) -> None:
    path = config(f"[notify]\nlisten = 'localhost:9100'\n[schedule]\nscrub_days = 7\n[[root]]\npath = '{tmp_path}'\n")
    done = command("check-config", path)
    assert done.status == 0
    assert done.err.splitlines() == [
        f"model-auditd: note: {path}: {key}: is taken, but this version does not act on it yet"
        for key in ("notify.listen",)
    ]


@pytest.mark.parametrize("verb", [["check-config"], ["run", "--config"]], ids=" ".join)
def test_who_has_no_configuration_is_led_to_the_sample(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert "sample" not in command(*verb, tmp_path / "none.toml").err
    sample = tmp_path / "share" / "model-auditd" / "config" / "config.toml"
    sample.parent.mkdir(parents=True)
    sample.touch()
    assert (
        f"none.toml: there is no such file; name another one, or start from the sample: {sample}\n"
        in command(*verb, tmp_path / "none.toml").err
    )


def test_the_default_place(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert configuration.DEFAULT_PATH == "/etc/model-auditd/config.toml"
    assert configuration.DEFAULT_PATH in command("run", "--help").out


def test_run_hands_over_a_loader_that_reads_again(
    command: Command, config: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config(f'[[root]]\npath = "{tmp_path}"\n')
    loaders: list[Callable[[], Settings]] = []

    def take(loader: Callable[[], Settings]) -> int:
        loaders.append(loader)
        return 0

    daemon = SimpleNamespace(run=take)
    monkeypatch.setitem(sys.modules, "auditd.service.daemon", daemon)
    monkeypatch.setattr(sys.modules.get("auditd.service", run), "daemon", daemon, raising=False)
    assert command("run", "--config", path).status == 0
    assert loaders[0]().roots[0].path == str(tmp_path)
    path.write_text("=")
    with pytest.raises(SettingsError):
        loaders[0]()


def test_a_name_with_escapes_is_shown_harmless(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refusal:
        load(str(tmp_path / "\x1b[2J"))
    assert str(refusal.value).isprintable()
