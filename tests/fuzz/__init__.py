"""Fuzzing: hostile bytes by the thousand, held to one invariant. ``python -m tests.fuzz --seconds 900``.

The invariant. For any bytes, in pieces of any size, an inspection ends in a record - of the published schema, under
the identifier that its content has, equal to itself when it is read back, its summary one line of at most 16 KiB, its
residue the difference of its parts - or in a record with one typed refusal inside. Never an exception, never an
integer that JSON readers round, never a character that a terminal acts upon; reader steps, processor time and memory
in proportion to the bytes. What is said does not depend on how the bytes came. Whatever else reads text from outside
(manifests, checksum lists, signatures, indexes, bundles, dumps, views, archives) returns a value or raises the one
error that it declares.

Layout: ``seeds`` has what is changed, ``changes`` and its neighbours change it knowing its grammar, ``invariant`` and
``readings`` judge, ``arcs`` sees which code was reached, ``targets`` is the table of all that is fuzzed, ``campaign``
keeps what reaches new code and goes on from there. ``peers`` asks two other readers about the same files.
"""
