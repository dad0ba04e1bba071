"""``dralab status``."""

import argparse
import asyncio

from dra_shared.errors import UserError

from dra_cli.access import data_option
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("--output", "-o", default="", help="json or yaml instead of text")
    data_option(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the processes and whether they are ready.

    Raises:
        UserError: no cluster runs there, a service is not ready, or the output is unknown.
    """
    from dra_lab import status

    if chosen.output not in ("", "json", "yaml"):
        raise UserError(f"unknown output {chosen.output!r}: choose json or yaml, or leave it out", 2)
    asyncio.run(status.show(chosen.data, chosen.output))
