"""``dralab run``: a cluster for as long as a command runs."""

import argparse

from dra_shared.errors import UserError

from dra_cli.commandline import Parser
from dra_cli.commands import up


def options(parser: Parser) -> None:
    """Declare what it takes: what ``up`` does, but a directory of its own and any free port."""
    up.options(parser)
    parser.set_defaults(data=None, port=0, relaxed=True)


def run(chosen: argparse.Namespace) -> int:
    """Run the command that follows ``--``; gives its exit code.

    Raises:
        UserError: there is no command, or it cannot be started.
    """
    from dra_lab.around import around

    if not chosen.rest:
        raise UserError("say what to run: dralab run [OPTIONS] -- COMMAND", 2)
    if chosen.detach:
        raise UserError("a cluster of `run` ends with its command: leave out --detach", 2)
    return around(up.asked(chosen), chosen.data, chosen.rest)
