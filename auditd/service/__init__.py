"""The daemon: the only floor with trio, watchfiles and structlog.

``daemon`` starts every task and owns the one nursery. A file's way: ``watching`` sees it and offers it, ``reading`` waits
until it stands still and inspects it in its turn, one at a time, ``recording`` makes what was found durable, then known,
and judges what is worth an alarm. Beside them: events, status, metrics, and the word to systemd.
"""

import ctypes.util


def _library_without_search(name: str) -> str | None:  # noqa: ARG001 - it is asked for by that name
    """The C library, which has what is looked for."""
    return "libc.so.6"


def _import_trio() -> None:
    """Trio, as it is imported, runs ``ldconfig`` or a compiler to find what names threads; here no program is run."""
    search, ctypes.util.find_library = ctypes.util.find_library, _library_without_search
    try:
        import trio  # noqa: F401, PLC0415 - for whoever imports it next
    finally:
        ctypes.util.find_library = search


_import_trio()
