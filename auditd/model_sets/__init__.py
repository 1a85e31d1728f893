"""Sets of files and their evidence.

``names``, ``index`` and ``candidate`` say what belongs together, ``assess`` whether it is there, ``judge`` what is wrong
with it, from the table in ``findings``; ``compose`` makes the ``record``.
"""
