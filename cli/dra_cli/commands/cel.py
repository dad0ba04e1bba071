"""``dralab cel``."""

import argparse
import asyncio

from dra_cli.access import chosen_cluster, cluster_options, warn_uncertain
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("expression", help="a CEL expression about `device`, as a DeviceClass has it")
    parser.add_argument("--output", "-o", default="", help="json or yaml instead of a table")
    parser.add_argument(
        "--from", dest="source", metavar="SOURCE", help="a dump of a cluster; see docs/plan.md"
    )
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> int:
    """Print the result of the expression for the devices. Return 1 if it matches none."""
    from dra_worlds import workbench

    cluster = chosen_cluster(chosen)
    report = workbench.cel(cluster, chosen.expression, chosen.output, chosen.source, warn_uncertain)
    text, matches = asyncio.run(report)
    print(text)
    return 0 if matches else 1
