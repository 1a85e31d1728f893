"""The systemd unit, as systemd's own tools see it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "systemd" / "model-auditd.service"

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


def test_no_key_and_no_value_is_unknown(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/model-auditd/bin/model-auditd", "/bin/true"))
    done = analyze("verify", "--man=no", unit)
    # It exits with 0 on unknown keys and bad values, and tells of them.
    assert (done.returncode, done.stderr) == (0, "")


def test_exposure() -> None:
    done = analyze("security", "--offline=true", "--no-pager", UNIT)
    match = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert match, done.stderr
    assert float(match[1]) <= 0.4


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
            assert explained or line.startswith(("Description=", "Documentation=", "After=")), line
