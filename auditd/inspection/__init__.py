"""The only floor that opens a model file: descriptor, identity, inspector. Blocking, and without trio.

A caller passes a checkpoint, which is called before every read and may raise
:class:`auditd.errors.InspectionStopped`; the inspection then closes its descriptor and returns what it knows.
"""
