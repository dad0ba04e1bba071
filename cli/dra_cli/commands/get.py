"""``dralab get``."""

import argparse
import asyncio

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser
from dra_cli.errors import CommandError

_OUTPUTS = ("", "wide", "yaml", "json", "name")


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument("kind", help="kind, plural or short name; KIND/NAME too")
    parser.add_argument("name", nargs="?", help="only the one of this name")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument("--all-namespaces", "-A", action="store_true", help="objects of all namespaces")
    parser.add_argument("--output", "-o", default="", help="wide, yaml, json or name")
    parser.add_argument("--selector", "-l", help="label selector")
    parser.add_argument("--field-selector", help="field selector")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the objects.

    Raises:
        CommandError: no such output.
    """
    if chosen.output not in _OUTPUTS:
        raise CommandError(f"unknown output {chosen.output!r}: choose wide, yaml, json or name", 2)
    asyncio.run(_get(chosen))


async def _get(chosen: argparse.Namespace) -> None:
    from dra_cli import objects
    from dra_cli.discovery import Discovery

    kind, _, inline = chosen.kind.partition("/")
    async with chosen_cluster(chosen).client() as client:
        resource = (await Discovery.read(client)).named(kind)
        everywhere = chosen.all_namespaces or not resource.namespaced
        query = objects.Query(
            resource,
            chosen.name or inline or None,
            None if everywhere else chosen.namespace or "default",
            chosen.output,
            chosen.selector,
            chosen.field_selector,
        )
        print(await objects.get(client, query, chosen.all_namespaces))
