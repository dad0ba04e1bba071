"""``dralab bench``: the words after a benchmark's name are its own, ``--help`` among them."""

import argparse

from dra_cli.commandline import Parser

#: Its words are not options of this command.
TAKES_ALL = True


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument(
        "name",
        help="allocator, apiserver, cluster, console, dump, everyday, hints, history, nodes, plan, podstart, "
        "running, scaling, scheduling, servers",
    )
    parser.add_argument("arguments", nargs="...", help="the benchmark's own options")


def run(chosen: argparse.Namespace) -> None:
    """Run it."""
    from dra_lab import checkout

    checkout.run_benchmark(chosen.name, chosen.arguments)
