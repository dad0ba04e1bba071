"""``dralab kubeconfig``."""

import argparse

from dra_cli.access import data_option
from dra_cli.cluster import Cluster
from dra_cli.commandline import Parser
from dra_cli.errors import CommandError


def options(parser: Parser) -> None:
    """Declare what it takes."""
    data_option(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the path.

    Raises:
        CommandError: there is no kubeconfig.
    """
    cluster = Cluster(chosen.data)
    if not cluster.kubeconfig.exists():
        raise CommandError(f"no cluster was ever started in {cluster.data}")
    print(cluster.kubeconfig)
