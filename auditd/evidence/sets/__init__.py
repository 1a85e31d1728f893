"""Sets of files and their evidence: what belongs together (``names``, ``index``, ``candidate``), whether it is there
(``assess``), what is wrong with it (``judge``, from the table in ``findings``), and the record (``compose``, ``record``).
"""
