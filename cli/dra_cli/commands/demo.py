"""``dralab demo``."""

import argparse
import asyncio
import contextlib
import os
from pathlib import Path

from dra_shared.optiontypes import number

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("DRALAB_DATA") or None,
        help="keep the cluster's directory here; otherwise it is deleted at the end",
    )
    parser.add_argument(
        "--filename", "-f", action="append", help="manifests to run instead of the quickstart"
    )
    parser.add_argument("--port", type=number(0, 65535), default=0, help="the API server's port; 0: any")
    parser.switch("--step", help="stop after each phase until Enter is pressed, on a terminal")


def run(chosen: argparse.Namespace) -> None:
    """Run the demo."""
    from dra_lab.forkserver import fork_servers

    with contextlib.ExitStack() as stack:
        # First of all: before any import that the services do not need, and before any thread is started.
        forks = [stack.enter_context(contextlib.closing(server)) for server in fork_servers()]
        from dra_lab.demo.story import tell

        asyncio.run(tell(chosen.data, chosen.filename, chosen.port, chosen.step, forks))
