"""model-auditd: evidence about the model files on a machine's disks.

The floors, lowest first; an import goes down only (``tests/test_architecture.py`` holds it):

=============  ====================================================================
``formats``    bytes in, declarations and faults out (pure)
``accounting`` declarations and a file size in, an owner for every byte out (pure)
``evidence``   the record, its findings, its canonical form (pure)
``inspection`` the only floor that opens a model file
``archive``    the store of evidence
``report``     what people look at
``service``    the only floor with trio and watchfiles
``cli``        arguments and exit statuses
=============  ====================================================================
"""

__version__ = "0.1.0"
