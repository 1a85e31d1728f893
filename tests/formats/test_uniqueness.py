"""Names that were there before: found among few and among very many, and nothing else taken for one."""

from __future__ import annotations

import pytest

from auditd.formats.uniqueness import NameRegister, Seen

#: More names than are kept plainly.
MANY = (1 << 16) + 2000


@pytest.fixture(scope="module")
def seen() -> Seen:
    names = Seen()
    assert all(names.add(b"%d" % index) for index in range(MANY))
    return names


@pytest.mark.parametrize("name", [b"0", b"7", b"65535", b"65536", b"%d" % (MANY - 1)])
def test_a_name_among_very_many_is_known(seen: Seen, name: bytes) -> None:
    assert name in seen
    assert not seen.add(name)


@pytest.mark.parametrize("name", [b"", b"00", b"-1", b"%d" % MANY, b"\0", b"65536\0"])
def test_another_name_is_not(seen: Seen, name: bytes) -> None:
    assert name not in seen


def test_digests_have_a_key_of_their_own() -> None:
    """Nobody can make names whose digests meet: the same name stands under another digest in each set."""
    one, other = Seen(), Seen()
    assert one._find(b"name")[0] != other._find(b"name")[0]
    assert one._find(b"name")[0] == one._find(b"name")[0]


def test_a_name_is_an_alias_of_what_it_equals_up_to_a_nul() -> None:
    register = NameRegister()
    names = [b"a", b"a\0b", b"c\0d", b"c", b"a", b"c\0e", b"d"]
    assert [register.judge(name) for name in names] == ["new", "alias", "new", "alias", "duplicate", "alias", "new"]
