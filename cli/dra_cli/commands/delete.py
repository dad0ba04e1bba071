"""``dralab delete``."""

import argparse
import asyncio
from typing import Any

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser
from dra_cli.targets import manifests_of, target_options, targets


def options(parser: Parser) -> None:
    """Add the options."""
    target_options(parser, "delete")
    parser.switch("--wait", default=True, help="wait until the objects are gone")
    parser.add_argument("--timeout", type=float, default=60.0, help="how long to wait, in seconds (60)")
    parser.switch("--ignore-not-found", help="ignore objects that do not exist")
    parser.add_argument("--grace-period", "--grace", type=int, help="seconds that pods get to stop")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Delete the objects.

    Raises:
        UserError: neither names nor manifests are given, or both.
    """
    asyncio.run(_delete(chosen, manifests_of(chosen, "delete")))


async def _delete(chosen: argparse.Namespace, loaded: list[dict[str, Any]]) -> None:
    from dra_kube import objects
    from dra_kube.progress import Progress

    async with chosen_cluster(chosen).client() as client:
        # In reverse order, because later objects of a manifest depend on earlier ones.
        found = await targets(chosen, client, loaded[::-1], "delete")
        with Progress("deleting", len(found)) as progress:
            await objects.delete(
                client,
                found,
                wait=chosen.wait,
                timeout=chosen.timeout,
                missing_ok=chosen.ignore_not_found,
                grace_period=chosen.grace_period,
                report=lambda where: progress.print(f"{where} deleted"),
                gone=lambda where: progress.step(),
            )
