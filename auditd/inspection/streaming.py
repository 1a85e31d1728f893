"""Everything that is watched while a whole file streams by, behind its header: one way in for all of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Protocol

from auditd.accounting.account import Account
from auditd.accounting.zero_runs import Appended, AppendedScan, ZeroRuns, ZeroScan
from auditd.evidence.expectation import Expectation
from auditd.evidence.observation import PartDigests, Scanned
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.inspection.parts import Parts, hasher, tensor_data_end
from auditd.inspection.unowned import UnownedScan, ranges_of


class Digester:
    """The digests of all that is read, in order: SHA-256, and git's name for a blob where somebody promised one."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self._git: _Hash | None = None
        self.hashed = 0

    def expect(self, expectation: Expectation, size: int) -> None:
        """Take the digests that ``promise`` speaks of; before the first byte of a file of ``size`` bytes."""
        if any(reference.algorithm == "git-sha1" for reference in expectation.references):
            self._git = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._sha256.update(data)
        if self._git is not None:
            self._git.update(data)
        self.hashed += len(data)

    @property
    def sha256(self) -> str:
        """SHA-256 of what was taken so far."""
        return self._sha256.hexdigest()

    @property
    def git_sha1(self) -> str | None:
        """Git's name for the blob; None if nobody asked."""
        return None if self._git is None else self._git.hexdigest()


class _Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


class _Scan(Protocol):
    def feed(self, begin: int, data: bytes | bytearray, size: int) -> None: ...


class Rest:
    """Fed the file's bytes in order from the end of its header on, or from its first byte if it has none."""

    def __init__(
        self, header: GgufHeader | SafetensorsHeader | None, account: Account | None, size: int, parts: Parts
    ) -> None:
        header_end = None if header is None else header.header_end
        data = None if account is None else account.data_offset
        end = None if header is None or account is None else tensor_data_end(header, account)
        self._unowned = UnownedScan(ranges_of(account, header_end, size))
        self._parts = hasher(parts, header, account)
        #: A header that is broken says nothing of what should follow it.
        self._zeros = ZeroScan(0) if header is None else None if data is None else ZeroScan(data)
        self._appended = None if end is None or end >= size else AppendedScan(end, size)
        self._scans = [*self._all()]

    def _all(self) -> Iterator[_Scan]:
        for scan in (self._unowned, self._parts, self._zeros, self._appended):
            if scan is not None:
                yield scan

    def feed(self, begin: int, data: bytes | bytearray, size: int) -> None:
        """The file's bytes from ``begin`` on: the first ``size`` of ``data``."""
        for scan in self._scans:
            scan.feed(begin, data, size)

    @property
    def scanned(self) -> Scanned:
        """What the bytes that no tensor owns hold."""
        return self._unowned.result()

    @property
    def parts(self) -> PartDigests | None:
        """Digests of parts, None if none were asked for."""
        return None if self._parts is None else self._parts.result()

    @property
    def zeros(self) -> ZeroRuns | None:
        """The zeros at either end of the data."""
        return None if self._zeros is None else self._zeros.result()

    @property
    def appended(self) -> Appended | None:
        """A second header behind the data."""
        return None if self._appended is None else self._appended.result()
