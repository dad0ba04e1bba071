"""``dralab status``."""

import argparse
import asyncio

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

    from dra_cli.outputs import check_data_output

    check_data_output(chosen.output)
    asyncio.run(status.show(chosen.data, chosen.output))
