"""``dralab kubeconfig``."""

import argparse
import sys

from dra_kube.cluster import Cluster
from dra_shared.errors import UserError

from dra_cli.access import data_option
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    data_option(parser)
    parser.add_argument(
        "--client-name", metavar="USER", help="print a kubeconfig with a new certificate for this user"
    )
    parser.add_argument(
        "--org",
        action="append",
        default=[],
        metavar="GROUP",
        help="with --client-name: a group; may be repeated",
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        help="with --client-name: the API server's URL (default: as in the cluster's own kubeconfig)",
    )


def run(chosen: argparse.Namespace) -> None:
    """Print the path, or a new kubeconfig.

    Raises:
        UserError: there is no kubeconfig, or no certificate authority to sign for a new one.
    """
    cluster = Cluster(chosen.data)
    if not cluster.kubeconfig.exists():
        raise UserError(f"no cluster was ever started in {cluster.data}")
    if chosen.client_name:
        from dra_lab.protection import user_kubeconfig

        sys.stdout.write(user_kubeconfig(cluster, chosen.client_name, chosen.org, chosen.server).decode())
        return
    if chosen.org or chosen.server:
        raise UserError("--org and --server are for --client-name", 2)
    print(cluster.kubeconfig)
