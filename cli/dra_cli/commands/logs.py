"""``dralab logs``."""

import argparse
import asyncio

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("pod", help="the pod's name, or deploy/NAME and the like for one of its pods")
    parser.add_argument("--container", "-c", help="the container, if the pod has several")
    parser.add_argument("--follow", "-f", action="store_true", help="follow the log as it grows")
    parser.add_argument(
        "--previous", "-p", action="store_true", help="the log of the container before its last restart"
    )
    parser.add_argument("--tail", type=int, help="only the last lines")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the log."""
    from dra_kube.owned import pod_of

    if "/" in chosen.pod:
        with chosen_cluster(chosen).reader() as reader:
            chosen.pod = pod_of(reader, chosen.namespace or "default", chosen.pod)
    asyncio.run(_logs(chosen))


async def _logs(chosen: argparse.Namespace) -> None:
    from dra_kube import objects

    params = {"follow": "true"} if chosen.follow else {}
    if chosen.previous:
        params["previous"] = "true"
    if chosen.tail is not None:
        params["tailLines"] = str(chosen.tail)
    async with chosen_cluster(chosen).client() as client:
        await objects.logs(client, chosen.namespace or "default", chosen.pod, chosen.container, params)
