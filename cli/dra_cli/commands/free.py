"""``dralab free``."""

import argparse
import asyncio

from dra_cli.access import chosen_cluster, cluster_options, moment_option, warn_uncertain
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("--output", "-o", default="", help="json or yaml instead of tables")
    parser.add_argument(
        "--from", dest="source", metavar="SOURCE", help="a dump of a cluster; see docs/plan.md"
    )
    moment_option(parser)
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print what is free."""
    from dra_worlds import insight

    free = insight.free(chosen_cluster(chosen), chosen.output, chosen.source, warn=warn_uncertain)
    print(asyncio.run(free))
