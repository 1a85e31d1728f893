"""The systemd unit and its drop-ins, as systemd's own tools see them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).parents[2] / "systemd"
UNIT = SYSTEMD / "model-auditd.service"

#: What each drop-in may cost in isolation: ``systemd-analyze security`` counts from 0 to 10.
EXPOSURES = {
    "capability.conf": 0.6,
    "group.conf": 0.2,
    "home.conf": 0.3,
    "metrics.conf": 0.2,
    "mounts.conf": 0.2,
    "static-user.conf": 0.2,
}

#: What names itself.
SELF_EXPLAINING = ("Description=", "Documentation=", "After=")

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


def installed(folder: Path, *drop_ins: str) -> Path:
    """The unit with drop-ins, and with a command that is there."""
    unit = folder / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/model-auditd/bin/model-auditd", "/bin/true"))
    for name in drop_ins:
        place = folder / f"{UNIT.name}.d" / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes((SYSTEMD / "drop-ins" / name).read_bytes())
    return unit


def exposure(unit: Path) -> float:
    done = analyze("security", "--offline=true", "--no-pager", unit)
    match = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert match, done.stderr
    return float(match[1])


def test_every_drop_in_has_an_exposure() -> None:
    assert {path.name for path in (SYSTEMD / "drop-ins").iterdir()} == set(EXPOSURES)


@needs_systemd
@pytest.mark.parametrize("drop_ins", [(), tuple(EXPOSURES)])
def test_no_key_and_no_value_is_unknown(tmp_path: Path, drop_ins: tuple[str, ...]) -> None:
    done = analyze("verify", "--man=no", installed(tmp_path, *drop_ins))
    # It exits with 0 on unknown keys and bad values, and tells of them.
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_verify_would_tell(tmp_path: Path) -> None:
    unit = installed(tmp_path)
    unit.write_text(unit.read_text().replace("ProtectHome=yes", "ProtectHome=perhaps\nProtectHouse=yes"))
    told = analyze("verify", "--man=no", unit).stderr
    assert "perhaps" in told
    assert "ProtectHouse" in told


@needs_systemd
def test_exposure(tmp_path: Path) -> None:
    assert exposure(installed(tmp_path)) <= 0.2


@needs_systemd
@pytest.mark.parametrize(("name", "most"), EXPOSURES.items())
def test_exposure_with_a_drop_in(tmp_path: Path, name: str, most: float) -> None:
    assert exposure(installed(tmp_path, name)) <= most


@pytest.mark.parametrize("name", EXPOSURES)
def test_a_drop_in_says_first_what_it_is_for(name: str) -> None:
    assert (SYSTEMD / "drop-ins" / name).read_text().startswith("# ")


def test_every_directive_stands_under_a_reason() -> None:
    explained = False
    for line in UNIT.read_text().splitlines():
        if line.startswith("#"):
            explained = True
        elif not line or line == "[Unit]":
            explained = False
        elif line.startswith("["):
            explained = line in {"[Service]", "[Install]"}
        else:
            assert explained or line.startswith(SELF_EXPLAINING), line
