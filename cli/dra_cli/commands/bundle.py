"""``dralab bundle``."""

import argparse
import sys
from pathlib import Path

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        default=Path("dralab-bundle.tar.gz"),
        metavar="FILE",
        help="where to (default: dralab-bundle.tar.gz)",
    )
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Write the archive and print its path; what could not be read is named on standard error."""
    from dra_cli import bundle

    cluster = chosen_cluster(chosen)
    with cluster.reader() as reader:
        problems = bundle.write(reader, cluster.data, chosen.output)
    for problem in problems:
        print(f"dralab: {problem}", file=sys.stderr)
    print(chosen.output)
