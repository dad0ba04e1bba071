"""``dralab warm``: clusters that a command starts need no imports."""

import argparse
import asyncio
import sys

from dra_shared.errors import UserError

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes: the command after ``--`` alone."""


def run(chosen: argparse.Namespace) -> int:
    """Run the command that follows ``--``; gives its exit code.

    Raises:
        UserError: there is no command, or it cannot be started.
    """
    from dra_lab.around import run as run_command
    from dra_lab.warm import Warm

    if not chosen.rest:
        raise UserError("say what to run: dralab warm -- COMMAND", 2)
    # Elsewhere nothing is forked: clusters start as they do without.
    if sys.platform != "linux":
        return asyncio.run(run_command(chosen.rest, {}))
    with Warm() as process:
        return asyncio.run(run_command(chosen.rest, process.environment))
