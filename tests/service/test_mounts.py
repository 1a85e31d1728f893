"""The mount table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditd.service.watching import mounts

TABLE = rb"""22 1 0:20 / / rw shared:1 - ext4 /dev/vda rw
30 22 0:40 / /srv rw,noatime shared:2 master:1 - xfs /dev/vdb rw
31 30 0:41 / /srv/models rw - nfs4 server:/models rw
32 30 0:42 / /srv/with\040space rw - fuse.sshfs host: rw
33 22 0:43 / /twice rw - nfs4 server:/under rw
34 22 0:44 / /twice rw - tmpfs tmpfs rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"/home/me", "ext4"),
        (b"/srv/other", "xfs"),
        (b"/srv/models", "nfs4"),
        (b"/srv/models/a/b", "nfs4"),
        (b"/srv/models-not", "xfs"),
        (b"/srv/with space/x", "fuse.sshfs"),
        (b"/twice", "tmpfs"),
    ],
)
def test_the_longest_and_last_mount_point_decides(path: bytes, kind: str) -> None:
    assert mounts.type_of(path, TABLE) == kind


def test_no_table_says_nothing() -> None:
    assert mounts.type_of(b"/", b"") == ""


def test_this_machine() -> None:
    assert mounts.type_of(b"/proc", mounts.read()) == "proc"
    assert not mounts.silent_type(b"/proc")


def test_an_escape_that_is_no_byte_stays_as_it_is() -> None:
    table = rb"""22 1 0:20 / / rw - xfs /dev/vda rw
23 22 0:21 / /mnt\777 rw - ext4 /dev/vdb rw"""
    assert mounts.type_of(rb"/mnt\777/x", table) == "ext4"


@pytest.mark.parametrize(
    ("kind", "silent"),
    [
        ("nfs", "nfs"),
        ("fuse.sshfs", "fuse.sshfs"),
        ("virtiofs", "virtiofs"),
        ("ext4", ""),
        ("tmpfs", ""),
        ("overlay", ""),
    ],
)
def test_where_no_events_come_from(kind: str, silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "read", f"1 0 0:1 / / rw - {kind} source rw\n".encode)
    assert mounts.silent_type(b"/") == silent


def test_a_link_onto_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to("share")
    share = os.path.realpath(tmp_path / "share")
    table = f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {share} rw - cifs //server/share rw\n"
    monkeypatch.setattr(mounts, "read", table.encode)
    assert mounts.silent_type(os.fsencode(tmp_path / "link")) == "cifs"
    assert mounts.silent_type(os.fsencode(tmp_path)) == ""
