"""``dralab delete``."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser
from dra_cli.errors import CommandError

if TYPE_CHECKING:
    from dra_cli.discovery import Discovery
    from dra_cli.objects import Target


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument("kind", nargs="?", help="kind, plural or short name; KIND/NAME too")
    parser.add_argument("names", nargs="*", help="which ones")
    parser.add_argument(
        "--filename", "-f", action="append", default=[], help="delete what these manifests name"
    )
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.switch("--wait", default=True, help="wait until the objects are gone")
    parser.add_argument("--timeout", type=float, default=60.0, help="how long to wait, in seconds (60)")
    parser.switch("--ignore-not-found", help="do not mind what is not there")
    parser.add_argument("--grace-period", type=int, help="seconds that pods get to stop")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Delete them.

    Raises:
        CommandError: neither names nor manifests are given, or both.
    """
    from dra_cli import manifests

    loaded = manifests.load(chosen.filename) if chosen.filename else []
    if bool(loaded) == bool(chosen.kind):
        raise CommandError("say what to delete: either KIND NAME… or --filename", 2)
    asyncio.run(_delete(chosen, loaded))


async def _delete(chosen: argparse.Namespace, loaded: list[dict[str, Any]]) -> None:
    from dra_cli import objects
    from dra_cli.discovery import Discovery

    async with chosen_cluster(chosen).client() as client:
        discovery = await Discovery.read(client)
        targets = [objects.target(discovery, obj, chosen.namespace) for obj in reversed(loaded)]
        await objects.delete(
            client,
            targets or _named(chosen, discovery),
            wait=chosen.wait,
            timeout=chosen.timeout,
            missing_ok=chosen.ignore_not_found,
            grace_period=chosen.grace_period,
            report=lambda where: print(f"{where} deleted"),
        )


def _named(chosen: argparse.Namespace, discovery: "Discovery") -> list["Target"]:
    from dra_cli.objects import Target

    plain, _, inline = chosen.kind.partition("/")
    resource = discovery.named(plain)
    space = (chosen.namespace or "default") if resource.namespaced else None
    wanted = [inline] if inline else list(chosen.names)
    if not wanted:
        raise CommandError("say which to delete: KIND NAME…", 2)
    return [Target(resource, space, name) for name in wanted]
