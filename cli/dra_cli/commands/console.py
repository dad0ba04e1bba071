"""``dralab console``."""

import argparse
import asyncio
import contextlib
import webbrowser

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.cluster import Cluster, own_console
from dra_cli.commandline import Parser, number
from dra_cli.errors import CommandError


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument(
        "--port", type=number(0), default=0, help="for a cluster that has no console (any free one)"
    )
    parser.switch("--write", help="let the console change such a cluster, as far as the user may")
    parser.switch("--open", default=True, help="open the browser")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Open the cluster's own console, or serve one for a cluster that has none, until Ctrl-C.

    Raises:
        CommandError: there is no such cluster, or the console's packages are missing.
    """
    cluster = chosen_cluster(chosen)
    own = None if cluster.data is None else own_console(Cluster(cluster.data))
    if own is not None:
        print(own)
        if chosen.open:
            webbrowser.open(own)
        return
    try:
        from dra_cli.console.server import serve
    except ModuleNotFoundError as error:
        raise CommandError(f"the console needs {error.name}: pip install 'dralab[console]'") from error
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(cluster, chosen.port, chosen.write, chosen.open))
