"""``dralab webhook``."""

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser

if TYPE_CHECKING:
    from dra_lab.webhookroute import Address


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("service", metavar="SERVICE", help="the service that webhook configurations refer to")
    parser.add_argument(
        "--url", type=_address, required=True, help="where the webhook listens: https://127.0.0.1:9443"
    )
    parser.add_argument("--namespace", "-n", default="default", help="the service's namespace (default)")
    parser.add_argument(
        "--certificates",
        type=Path,
        metavar="DIR",
        help="write tls.crt and tls.key for the service to this folder, and have the configurations trust them",
    )
    cluster_options(parser)


def _address(text: str) -> "Address":
    from dra_lab.webhookroute import parse_url

    try:
        return parse_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(chosen: argparse.Namespace) -> None:
    """Route the service's webhooks, and print what was done.

    Raises:
        UserError: no webhook refers to the service, or the folder cannot be used.
    """
    asyncio.run(_route(chosen))


async def _route(chosen: argparse.Namespace) -> None:
    from dra_lab import webhookroute

    async with chosen_cluster(chosen).client() as client:
        for line in await webhookroute.route(
            client, chosen.namespace, chosen.service, chosen.url, chosen.certificates
        ):
            print(line)
