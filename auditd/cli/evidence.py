"""``model-auditd evidence ACTION``: the records that are kept."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from auditd.cli.evidence_keeping import import_, prune, verify
from auditd.cli.evidence_reading import export, list_, show, view
from auditd.cli.status import Status
from auditd.cli.terminal import Terminal
from auditd.rules.findings import VERDICT_ORDER

_TARGET = "the beginning of an evidence_id, or a file's path: its latest record"


def configure(parser: ArgumentParser) -> None:
    """Declare the actions and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    where = _where()

    below = actions.add_parser("list", help="the records, the newest first", parents=[where])
    below.add_argument("--path", metavar="GLOB", help="only paths that match, and all below a directory that does")
    verdicts = (*VERDICT_ORDER, "in_progress")
    below.add_argument(
        "--verdict",
        metavar="VERDICT",
        choices=verdicts,
        action="append",
        default=[],
        help=f"only records with this verdict, or with one of several; there are {', '.join(verdicts)}",
    )
    below.add_argument("--since", metavar="RFC3339", help="only looks from this time on")
    below.add_argument("--limit", metavar="N", type=int, help="at most so many (default: all)")
    below.add_argument("--json", action="store_true", help="print one JSON object a line and nothing else")
    below.set_defaults(act=list_)

    below = actions.add_parser("show", help="one record", parents=[where])
    below.add_argument("target", metavar="ID|PATH", type=os.fsencode, help=_TARGET)
    below.add_argument("--json", action="store_true", help="print the record as one line of JSON and nothing else")
    below.add_argument("--detail", choices=("summary", "complete"), help="how much of it is shown")
    below.set_defaults(act=show)

    below = actions.add_parser("view", help="a page of a record's rows", parents=[where])
    below.add_argument(
        "target", metavar="ID|PATH|FILE", type=os.fsencode, help=f"{_TARGET}; or a file with one exported record"
    )
    below.add_argument("--view", metavar="JSON", required=True, help='such as \'{"collection": "tensors"}\'')
    below.add_argument("--json", action="store_true", help="print the page as one line of JSON and nothing else")
    below.set_defaults(act=view)

    below = actions.add_parser("export", help="records as they are stored, byte for byte", parents=[where])
    below.add_argument("targets", metavar="ID", nargs="*", type=os.fsencode, help=_TARGET)
    below.add_argument("--all", action="store_true", help="every record (with --bundle)")
    below.add_argument("--bundle", action="store_true", help="any number of records behind a manifest; without it: one")
    below.add_argument("--output", metavar="FILE", type=os.fsencode, help="(default: standard output)")
    below.set_defaults(act=export)

    below = actions.add_parser("import", help="take exported records in: all or none", parents=[where])
    below.add_argument(
        "files", metavar="FILE", nargs="+", type=os.fsencode, help="one record each; - is standard input"
    )
    below.add_argument("--bundle", action="store_true", help="the files are bundles")
    below.set_defaults(act=import_)

    below = actions.add_parser("verify", help="check a store, or exported files, to the last bit", parents=[where])
    below.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        type=os.fsencode,
        help="a record, a bundle or a store (default: the configuration's store)",
    )
    below.add_argument("--json", action="store_true", help="print what was found as one JSON object and nothing else")
    below.set_defaults(act=verify)

    below = actions.add_parser("prune", help="let go of old records that nothing needs", parents=[where])
    below.add_argument("--retention-days", metavar="N", type=float, help="(default: [store] retention_days, else 365)")
    below.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    below.set_defaults(act=prune)


def _where() -> ArgumentParser:
    """The options that say which store is meant."""
    options = ArgumentParser(add_help=False)
    options.add_argument("--store", metavar="DIR", help="the directory of the store (default: the configuration's)")
    options.add_argument(
        "--config", metavar="FILE", help="the daemon's configuration (default: the usual one, if it is there)"
    )
    return options


def run(arguments: Namespace, terminal: Terminal) -> Status:
    """Do one of the actions."""
    status: Status = arguments.act(arguments, terminal)
    return status
