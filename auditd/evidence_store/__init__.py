"""The evidence store: one SQLite file, one writer, and nothing said to the world before it is committed.

``store`` is what the daemon writes through, ``connection`` how anybody opens the file, ``schema`` its tables,
``migration`` the way from older ones, ``lock`` the guard that only one process writes, ``places`` where it is.
``records`` are the bytes of a record, ``columns`` what is kept beside them, ``rows`` the values of the daemon,
``statements`` what changes several tables at once, ``chain`` the value that makes a removed record noticeable.
``listing`` finds records, ``verifying`` tells whether all is as it was written, ``pruning`` what need not be kept.
``bundle`` is what records look like in files, ``admission`` which of them are taken in, ``importing`` takes them in.
``state`` is the pure decision whether an artifact has to be read again.
"""
