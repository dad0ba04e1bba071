"""``dralab console``."""

import argparse
import asyncio
import contextlib
import webbrowser
from dataclasses import replace
from urllib.parse import urlencode

from dra_kube.cluster import Cluster, own_console
from dra_shared.errors import UserError
from dra_shared.optiontypes import number

from dra_cli.access import chosen_cluster, cluster_options, moment_option
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--port",
        type=number(0, 65535),
        help="the console's port (any free one); only for a cluster that serves no console itself",
    )
    parser.switch(
        "--write",
        default=None,
        help="let the console of such a cluster change objects, with the user's permissions",
    )
    parser.switch("--open", default=True, help="open the browser")
    moment_option(parser)
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Open the cluster's own console, or serve one for a cluster that has none, until Ctrl-C.

    Raises:
        UserError: there is no such cluster, or the console's packages are missing.
    """
    # The moment is passed to the page, which reads the past itself and lets the user choose another moment.
    cluster = replace(chosen_cluster(chosen), at="")
    own = None if cluster.data is None else own_console(Cluster(cluster.data))
    if own is not None:
        if chosen.port is not None or chosen.write is not None:
            raise UserError(
                f"--port and --write are for a cluster that has no console; this one has {own}", 2
            )
        address = f"{own}?{urlencode({'at': chosen.at})}" if chosen.at else own
        print(address)
        if chosen.open:
            webbrowser.open(address)
        return
    try:
        from dra_lab.console.server import serve
    except ModuleNotFoundError as error:
        raise UserError(f"the console needs {error.name}: pip install 'dralab[console]'") from error
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(cluster, chosen.port or 0, bool(chosen.write), chosen.open, chosen.at))
