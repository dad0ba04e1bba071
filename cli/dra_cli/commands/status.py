"""``dralab status``."""

import argparse
import asyncio

from dra_cli.access import data_option
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes."""
    data_option(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print what runs."""
    from dra_lab import run as processes

    asyncio.run(processes.status(chosen.data))
