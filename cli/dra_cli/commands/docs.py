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
    """Add the options."""
    parser.add_argument("--port", type=number(0, 65535), default=0, help="port; 0: any (0)")
    parser.add_argument(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address to listen on; 0.0.0.0 in a container (127.0.0.1)",
    )
    parser.switch("--open", default=True, help="open the browser")


def run(chosen: argparse.Namespace) -> None:
    """Serve the documentation until Ctrl-C or SIGTERM.

    Raises:
        UserError: this installation has no documentation, or it cannot listen there.
    """
    from dra_cli.documentation.server import find, serve

    # The first process of a container ignores signals without a handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with (
        tempfile.TemporaryDirectory(prefix="dralab-docs-") as scratch,
        serve(partial(find, Path(scratch)), chosen.port, chosen.listen) as server,
    ):
        print(f"The documentation is at {server.url} until Ctrl-C", flush=True)
        if chosen.open:
            import webbrowser

            webbrowser.open(server.url)
        server.wait()
