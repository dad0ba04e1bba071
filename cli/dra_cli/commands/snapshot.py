"""``dralab snapshot``: save a whole cluster, and restore it later."""

import argparse
from typing import TYPE_CHECKING

from dra_shared.errors import UserError
from dra_shared.optiontypes import number

from dra_cli.access import data_option
from dra_cli.commandline import Parser

if TYPE_CHECKING:
    from dra_lab.snapshots import Snapshots

_ACTIONS = ("save", "restore", "list", "delete")
_TIMEOUT = 60.0


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("action", choices=_ACTIONS, help=", ".join(_ACTIONS))
    parser.add_argument("name", nargs="?", default="", help="the snapshot's name")
    parser.add_argument(
        "--at",
        default="",
        metavar="MOMENT",
        help="save: the cluster at a moment in the past: -5m, a time or a revision; see docs/history.md",
    )
    parser.switch("--force", help="save: replace a snapshot of the same name")
    parser.add_argument(
        "--timeout", type=number(0, None, float), help="restore: how long to wait for pods, in seconds (60)"
    )
    data_option(parser)


def run(chosen: argparse.Namespace) -> None:
    """Save, restore, list or delete snapshots.

    Raises:
        UserError: no name is given, there is no such snapshot, or it cannot be restored here.
    """
    from dra_lab.snapshots import Snapshots
    from dra_shared.plurals import count

    _check_options(chosen)
    snapshots = Snapshots(chosen.data)
    if chosen.action == "list":
        _list(snapshots)
        return
    if not chosen.name:
        raise UserError(f"say which: dralab snapshot {chosen.action} NAME", 2)
    if chosen.action == "save":
        saved = snapshots.save(chosen.name, chosen.at, force=chosen.force)
        print(f"snapshot {chosen.name} saved: {count(saved, 'object')}")
    elif chosen.action == "delete":
        snapshots.delete(chosen.name)
        print(f"snapshot {chosen.name} deleted")
    else:
        done = snapshots.restore(chosen.name, _TIMEOUT if chosen.timeout is None else chosen.timeout)
        print(
            f"snapshot {chosen.name} restored in {done.seconds:.2f} s: {count(done.added, 'object')} added, "
            f"{done.changed} changed, {done.removed} removed; {count(done.pods, 'pod')} started again"
        )


def _check_options(chosen: argparse.Namespace) -> None:
    """Reject options that have no effect on the action."""
    given = (
        ("--at", "save", bool(chosen.at)),
        ("--force", "save", chosen.force),
        ("--timeout", "restore", chosen.timeout is not None),
    )
    for option, action, is_given in given:
        if is_given and chosen.action != action:
            raise UserError(f"{option} is for dralab snapshot {action}", 2)
    if chosen.action == "list" and chosen.name:
        raise UserError("dralab snapshot list takes no name", 2)


def _list(snapshots: "Snapshots") -> None:
    from dra_kube.tables import Table

    found = snapshots.list()
    if not found:
        print("No snapshots found.")
        return
    rows = [[one.name, one.time, one.revision, one.kubernetes, f"{one.size >> 10} KiB"] for one in found]
    print(Table(["NAME", "TIME", "REVISION", "KUBERNETES", "SIZE"]).text(rows))
