"""One open file: what is past every offset that a file can have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditd.inspection.descriptor import Descriptor


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("offset", [5, 2**63 - 1, 2**63, 2**64 + 1])
def test_past_the_end_there_is_no_byte(tmp_path: Path, offset: int, cached: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    descriptor = Descriptor(os.fsencode(path))
    if cached:
        descriptor.prepare(5)
    try:
        assert descriptor.read_at(offset, 10) == b""
        descriptor.offset = offset
        assert descriptor.read(10) == b""
        assert descriptor.read_into(bytearray(10)) == 0
        assert descriptor.offset == offset
        assert descriptor.read_at(1, 3) == b"yte"
    finally:
        descriptor.close()
