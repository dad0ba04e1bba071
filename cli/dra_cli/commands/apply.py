"""``dralab apply``."""

import argparse
import asyncio

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument(
        "--filename",
        "-f",
        action="append",
        required=True,
        help="manifest: a file, a folder, or - for standard input; may be repeated",
    )
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Apply the manifests and say what became of each object."""
    from dra_cli import manifests

    loaded = manifests.load(chosen.filename)
    asyncio.run(_apply(chosen, loaded))


async def _apply(chosen: argparse.Namespace, loaded: list[dict[str, object]]) -> None:
    from dra_cli import objects
    from dra_cli.discovery import Discovery

    async with chosen_cluster(chosen).client() as client:
        discovery = await Discovery.read(client)
        for where, outcome in await objects.apply(client, discovery, loaded, chosen.namespace):
            print(f"{where} {outcome}")
