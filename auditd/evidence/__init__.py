"""The evidence record: its types, its findings, its canonical form. Pure, and the one place for each of them.

``record`` holds the frozen types from which ``config/evidence.schema.json`` is made, ``findings`` the table of
finding codes, ``compose`` the way from declarations and figures to a record, ``canonical`` the bytes that
``evidence_id`` is taken over.

The modules ``set_*`` are the same for sets of files: ``set_names`` and ``set_index`` say what belongs together,
``set_assess`` whether it is there, ``set_findings`` is the table of codes, ``set_record`` the types.
"""
