"""The command line: arguments in, exit status out, and no logic of its own.

A command is a module with ``configure(parser)`` and ``run(arguments, terminal)``, and a row in
:data:`auditd.cli.commands.COMMANDS`. Commands that inspect one file start fast: what they import brings
neither trio nor structlog nor sqlite3.
"""
