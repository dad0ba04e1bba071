"""``dralab bench``: run a benchmark. All words after its name are its own, even ``--help``."""

import argparse

from dra_cli.commandline import Parser

#: The words are passed on unparsed.
TAKES_ALL = True


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "name",
        help="allocator, apiserver, cluster, console, dump, everyday, hints, history, nodes, plan, podstart, "
        "running, scaling, scheduling, servers",
    )
    parser.add_argument("arguments", nargs="...", help="the benchmark's own options")


def run(chosen: argparse.Namespace) -> None:
    """Run the benchmark."""
    from dra_lab import checkout

    checkout.run_benchmark(chosen.name, chosen.arguments)
