"""Which world a command means: ``--from``, a cluster's options, or a description."""

import argparse
import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from dra_scheduler.plan.objects import Objects

from dra_cli.access import ChosenCluster, chosen_cluster, cluster_options
from dra_cli.commandline import number
from dra_cli.errors import CommandError
from dra_cli.plan.gaps import gaps


@dataclass(frozen=True)
class Source:
    """A world, and what of it could not be read or makes answers uncertain."""

    objects: Objects
    problems: list[str] = field(default_factory=list)


def world_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which world is meant."""
    parser.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        help="a kubeconfig, or a dump: a file, folder, zip or tar of YAML or JSON; - for standard input",
    )
    parser.add_argument("--nodes", type=number(0), help="without a cluster: so many nodes")
    parser.add_argument("--gpus", help="and the GPUs of each: COUNTxMODEL[:LAYOUT],…; see docs/gpu-models.md")
    parser.add_argument("--revision", metavar="N", help="the cluster as it was at that resource version")
    cluster_options(parser)


def chosen_world(chosen: argparse.Namespace) -> Source:
    """The world that the options mean.

    Raises:
        CommandError: it cannot be read, or the options contradict each other.
    """
    problems: list[str] = []
    if chosen.nodes is not None or chosen.gpus is not None:
        if chosen.source is not None:
            raise CommandError("--from and --nodes describe two worlds: choose one", 2)
        from dra_cli.plan.describe import described

        objects = described(2 if chosen.nodes is None else chosen.nodes, chosen.gpus or "8xA100-SXM4-40GB")
    elif chosen.source is not None and not is_kubeconfig(chosen.source):
        from dra_cli.plan.reading import read

        objects = read(chosen.source, problems)
        if not len(objects):
            reasons = f": {problems[0]}" if problems else ""
            raise CommandError(f"no objects of a cluster in {chosen.source}{reasons}")
    else:
        cluster = chosen_cluster(chosen)
        if chosen.source is not None:
            cluster = kubeconfig_cluster(chosen.source, chosen.context)
        objects = asyncio.run(from_cluster(cluster, problems, revision=chosen.revision))
    return Source(objects, problems + gaps(objects))


async def from_cluster(
    cluster: ChosenCluster, problems: list[str], *, revision: str | None = None
) -> Objects:
    """The world of a running cluster."""
    from dra_cli.plan.live import listed
    from dra_cli.plan.reading import world

    async with cluster.client("dralab-plan") as client:
        found = await listed(client, problems, revision=revision)
    return world((document for _, documents in found for document in documents), problems)


def kubeconfig_cluster(source: str, context: str | None) -> ChosenCluster:
    """The cluster of a kubeconfig."""
    return ChosenCluster(kubeconfig=Path(source), context=context)


def is_kubeconfig(source: str) -> bool:
    """Whether the source is a kubeconfig, and so a running cluster."""
    path = Path(source)
    if source == "-" or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(1 << 16)
    return b"clusters:" in head and b"contexts:" in head and b"kind: Config" in head
