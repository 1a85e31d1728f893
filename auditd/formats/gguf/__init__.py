"""GGUF: ``reader`` is the way in, ``wire`` has the numbers of the grammar.

``cursor`` reads fields, ``metadata`` and ``directory`` walk the two collections, ``strings`` walks
vocabularies fast, ``places`` says in words where a field is.
"""
