"""``dralab delete``."""

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser
from dra_cli.errors import CommandError

if TYPE_CHECKING:
    from dra_cli.objects import Target
    from dra_cli.reader import Reader
    from dra_cli.selection import Selected


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument("what", nargs="*", help="KIND NAME…, KIND/NAME…, or KIND with --all or --selector")
    parser.add_argument(
        "--filename", "-f", action="append", default=[], help="delete what these manifests name"
    )
    parser.add_argument("--kustomize", "-k", metavar="DIR", help="delete what this kustomization makes")
    parser.add_argument("--all", action="store_true", help="all objects of the kind in the namespace")
    parser.add_argument("--selector", "-l", help="those with these labels")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument("--all-namespaces", "-A", action="store_true", help="with --all: of all namespaces")
    parser.switch("--wait", default=True, help="wait until the objects are gone")
    parser.add_argument("--timeout", type=float, default=60.0, help="how long to wait, in seconds (60)")
    parser.switch("--ignore-not-found", help="do not mind what is not there")
    parser.add_argument("--grace-period", "--grace", type=int, help="seconds that pods get to stop")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Delete them.

    Raises:
        CommandError: neither names nor manifests are given, or both.
    """
    from dra_cli import manifests
    from dra_cli.kustomization import build

    loaded = manifests.load(chosen.filename) if chosen.filename else []
    loaded += build(chosen.kustomize) if chosen.kustomize else []
    if bool(loaded) == bool(chosen.what):
        raise CommandError("say what to delete: either KIND NAME… or --filename", 2)
    asyncio.run(_delete(chosen, loaded))


async def _delete(chosen: argparse.Namespace, loaded: Sequence[dict[str, Any]]) -> None:
    from dra_cli import objects
    from dra_cli.discovery import Discovery
    from dra_cli.progress import Progress

    async with chosen_cluster(chosen).client() as client:
        if loaded:
            discovery = await Discovery.read(client)
            targets = [objects.target(discovery, obj, chosen.namespace) for obj in reversed(loaded)]
        else:
            targets = _named(chosen)
        with Progress("deleting", len(targets)) as progress:
            await objects.delete(
                client,
                targets,
                wait=chosen.wait,
                timeout=chosen.timeout,
                missing_ok=chosen.ignore_not_found,
                grace_period=chosen.grace_period,
                report=lambda where: progress.print(f"{where} deleted"),
                gone=lambda where: progress.step(),
            )


def _named(chosen: argparse.Namespace) -> list["Target"]:
    from dra_cli.selection import known, select

    with chosen_cluster(chosen).reader() as reader:
        return [
            target
            for one in select(known(reader, chosen.what), chosen.what)
            for target in _of(chosen, reader, one)
        ]


def _of(chosen: argparse.Namespace, reader: "Reader", one: "Selected") -> Iterator["Target"]:
    from dra_cli.objects import Target

    everywhere = chosen.all_namespaces or not one.resource.namespaced
    space = None if everywhere else chosen.namespace or "default"
    yield from (Target(one.resource, space, name) for name in one.names)
    if one.names:
        return
    if not (chosen.all or chosen.selector):
        raise CommandError("say which to delete: KIND NAME…, --all or --selector", 2)
    for item in reader.json(one.resource.path(space), {"labelSelector": chosen.selector})["items"]:
        meta = item["metadata"]
        yield Target(one.resource, meta.get("namespace"), meta["name"])
