"""The console command ``model-auditd``. Imports next to nothing itself, so that Ctrl-C is quiet from the first moment on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

#: :attr:`auditd.cli.status.Status.NOT_SEEN`, which takes long to import.
_NOT_SEEN: Final = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; ``argv`` is without the program's name. Returns the exit status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        # Here and not above: only what is imported within this function can be interrupted without a traceback.
        from auditd.cli import signals  # noqa: PLC0415

        signals.guard(arguments)
        from auditd.cli.application import run  # noqa: PLC0415

        return run(arguments)
    except KeyboardInterrupt:
        return _NOT_SEEN
    except RuntimeError as error:
        # How Python 3.11 passes on what interrupts the making of a class.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        return _NOT_SEEN


if __name__ == "__main__":
    sys.exit(main())
