"""``dralab docs``."""

import argparse
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from dra_shared.optiontypes import number

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument("--port", type=number(0, 65535), default=0, help="port; 0: any (0)")
    parser.add_argument(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen; 0.0.0.0 in a container (127.0.0.1)",
    )
    parser.switch("--open", default=True, help="open the browser")


def run(chosen: argparse.Namespace) -> None:
    """Serve the documentation until Ctrl-C or SIGTERM.

    Raises:
        UserError: this installation has none, or it cannot listen there.
    """
    from dra_cli.documentation.server import find, serve

    # A container's first process ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with (
        tempfile.TemporaryDirectory(prefix="dralab-docs-") as scratch,
        serve(partial(find, Path(scratch)), chosen.port, chosen.listen) as server,
    ):
        print(f"{server.url} has the documentation, until Ctrl-C", flush=True)
        if chosen.open:
            import webbrowser

            webbrowser.open(server.url)
        server.wait()
