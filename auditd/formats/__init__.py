"""Readers that turn a model file's first bytes into declarations, and nothing else.

Pure: no reader here opens a file, knows a path or looks at a clock. Each one is fed bytes in file order,
in pieces of any size, and can be asked at any moment for what is complete so far. A new format is a module
beside ``gguf`` and ``safetensors`` and a row in :mod:`auditd.formats.detection`; a new tensor type or
released layout is a row in :mod:`auditd.formats.layouts`.
"""
