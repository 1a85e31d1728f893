"""The evidence store: one SQLite file, one writer, and nothing said to the world before it is committed.

``store`` is the file, ``state`` the pure decision whether an artifact has to be read again, ``rows`` the values
that go in and out, ``schema`` the tables, ``chain`` the value that makes a removed record noticeable, ``lock`` the
guard that only one process writes.
"""
