"""``dralab create``."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser
from dra_cli.targets import read_output, recursive_option, stored_output_option


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--filename",
        "-f",
        action="append",
        default=[],
        help="manifest: a file, a folder, or - for standard input; may be repeated",
    )
    recursive_option(parser)
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    stored_output_option(parser)
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Create the objects and print the name of each.

    Raises:
        UserError: no manifests are given, or the server rejects some of the objects.
    """
    from dra_kube import manifests

    if not chosen.filename:
        raise UserError("say what to create: --filename FILE; see dralab create --help", 2)
    asyncio.run(_create(chosen, manifests.load(chosen.filename, recursive=chosen.recursive)))


async def _create(chosen: argparse.Namespace, loaded: Sequence[dict[str, Any]]) -> None:
    from dra_kube import objects
    from dra_kube.discovery import Discovery
    from dra_kube.warnings import WarningWriter

    shown = read_output(chosen.output)

    def report(where: objects.Target, stored: JsonObject) -> None:
        print(shown([(str(where), stored)], True) if shown else f"{where} created\n", end="", flush=True)

    async with chosen_cluster(chosen).client() as client:
        discovery = await Discovery.read(client)
        warn = WarningWriter(lambda text: print(text, file=sys.stderr))
        await objects.create(client, discovery, loaded, chosen.namespace, report, warn)
