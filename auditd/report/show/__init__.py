"""What ``show`` prints: for each kind a sheet (frozen figures, also the JSON) and its lines for a terminal.

Every module has ``sheet(look, ...)``, which computes, and ``lines(sheet, columns, paint)``, which sets; neither opens a
file, so both work the same on a file that was just read and on a dumped header.
"""
