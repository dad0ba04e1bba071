"""``dralab bundle``."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from dra_cli.access import chosen_cluster, cluster_options, moment_option
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        default=Path("dralab-bundle.tar.gz"),
        metavar="FILE",
        help="the file to write (default: dralab-bundle.tar.gz)",
    )
    parser.add_argument(
        "--secrets",
        choices=("keys", "values", "none"),
        default="keys",
        help="what to pack of Secrets: their keys with empty values (default), their values too, or nothing",
    )
    moment_option(parser)
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Write the archive and print its path. Report what could not be read on standard error."""
    from dra_cli import bundle

    # Clear the moment, so that requests read the current state. The bundle needs the history up to the moment, which
    # requests for a past moment cannot return.
    cluster = replace(chosen_cluster(chosen), at="")
    with cluster.reader() as reader:
        problems = bundle.write(reader, cluster.data, chosen.output, chosen.at, chosen.secrets)
    for problem in problems:
        print(f"dralab: {problem}", file=sys.stderr)
    print(chosen.output)
