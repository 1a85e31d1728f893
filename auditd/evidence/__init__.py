"""The evidence record: its types, its findings, its canonical form. Pure, and the one place for each of them.

``record`` holds the frozen types from which ``config/evidence.schema.json`` is made, ``findings`` the table of
finding codes, ``compose`` the way from declarations and figures to a record, ``canonical`` the bytes that
``evidence_id`` is taken over.

``sets`` is the same for sets of files, ``dump`` a header alone as JSON, ``difference`` what two records say differently.
"""
