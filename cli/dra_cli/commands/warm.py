"""``dralab warm``: run a command whose clusters are forked from a process that has imported all modules."""

import argparse
import asyncio
import sys

from dra_shared.errors import UserError

from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add no options: the command takes only the words after ``--``."""


def run(chosen: argparse.Namespace) -> int:
    """Run the command that follows ``--``, and return its exit code.

    Raises:
        UserError: there is no command, or it cannot be started.
    """
    from dra_lab.around import run as run_command
    from dra_lab.warm import Warm

    if not chosen.rest:
        raise UserError("say what to run: dralab warm -- COMMAND", 2)
    # Forking works on Linux only. On other systems clusters start as usual.
    if sys.platform != "linux":
        return asyncio.run(run_command(chosen.rest, {}))
    with Warm() as process:
        return asyncio.run(run_command(chosen.rest, process.environment))
