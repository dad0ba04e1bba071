"""``dralab run``: run a command with a cluster that lives as long as the command."""

import argparse

from dra_shared.errors import UserError

from dra_cli.commandline import Parser
from dra_cli.commands import up


def options(parser: Parser) -> None:
    """Add the options of ``up`` with other defaults: a temporary directory, and any free port."""
    up.options(parser)
    parser.set_defaults(data=None, port=0, relaxed=True)


def run(chosen: argparse.Namespace) -> int:
    """Run the command that follows ``--``, and return its exit code.

    Raises:
        UserError: there is no command, or it cannot be started.
    """
    from dra_lab.around import around

    if not chosen.rest:
        raise UserError("say what to run: dralab run [OPTIONS] -- COMMAND", 2)
    if chosen.detach:
        raise UserError("the cluster of `run` ends with its command: leave out --detach", 2)
    return around(up.read_options(chosen), chosen.data, chosen.rest)
