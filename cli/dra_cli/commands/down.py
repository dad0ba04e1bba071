"""``dralab down``."""

import argparse

from dra_cli.access import data_option
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    data_option(parser)


def run(chosen: argparse.Namespace) -> None:
    """Stop the cluster."""
    from dra_lab import run as processes

    processes.down(chosen.data)
    print("stopped")
