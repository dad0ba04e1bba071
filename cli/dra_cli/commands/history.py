"""``dralab history``."""

import argparse

from dra_shared.errors import UserError
from dra_shared.optiontypes import number

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "what", nargs="*", help="KIND/NAME, KIND NAME, KIND for all of a kind, or device/POOL/NAME"
    )
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument("--all-namespaces", "-A", action="store_true", help="objects of all namespaces")
    parser.add_argument("--from", dest="begin", default="", metavar="MOMENT", help="the first moment: -5m, …")
    parser.add_argument(
        "--to", dest="end", default="", metavar="MOMENT", help="the last moment (default: now)"
    )
    parser.add_argument(
        "--limit", type=number(1), default=500, help="show at most this many changes, the newest ones (500)"
    )
    parser.switch("--net", help="show what differs between --from and --to; without KIND, of all kinds")
    parser.add_argument("--output", "-o", default="", help="json or yaml: with complete values and authors")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the changes, oldest first.

    Raises:
        UserError: there is no such kind, or options contradict each other.
    """
    from dra_cli.outputs import check_data_output, format_data

    check_data_output(chosen.output)
    if chosen.net and not chosen.begin:
        raise UserError("--net compares two moments: give --from", 2)
    if not chosen.what and not chosen.net:
        raise UserError("say what: KIND/NAME, KIND or device/POOL/NAME", 2)
    from dra_kube.changes import Wanted, changes, lines

    wanted = Wanted(
        chosen.what,
        None if chosen.all_namespaces else chosen.namespace or "default",
        chosen.begin,
        chosen.end,
        chosen.limit,
        chosen.net,
    )
    with chosen_cluster(chosen).reader() as reader:
        found = changes(reader, wanted)
    if chosen.output:
        print(format_data({"kind": "List", "items": found}, chosen.output))
        return
    for line in lines(found) if found else ("No changes found.",):
        print(line)
