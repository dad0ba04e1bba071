"""Options that select a world: ``--from``, a cluster's, or those of a description."""

import argparse
import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dra_node_agent.drivers.nvidia.options import OPTIONS as NVIDIA_OPTIONS
from dra_scheduler.plan.objects import Objects
from dra_shared.api.codec import encode
from dra_shared.api.resources import Resource
from dra_shared.errors import UserError
from dra_worlds.documents import Document
from dra_worlds.fleet import DEFAULT_GPUS, Group, Pool, group, is_fleet, pools_of
from dra_worlds.fleet import read as read_fleet
from dra_worlds.running import Running, of_objects
from dra_worlds.sources import Source, is_kubeconfig, kubeconfig_cluster, list_cluster

from dra_cli.access import chosen_cluster, cluster_options, moment_option

# The number of nodes of a described cluster if --nodes is not given.
_NODES = 2


def world_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select a world."""
    parser.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        help="a kubeconfig, a fleet's file, or a dump: file, folder, zip or tar of YAML or JSON; - for standard input",
    )
    parser.add_argument(
        "--nodes",
        action="append",
        type=_nodes,
        metavar="COUNT[:GPUS][@ZONE]",
        help="use a described cluster with this number of nodes; may be repeated",
    )
    parser.add_argument(
        "--gpus", help="with --nodes: GPUs of each node: COUNTxMODEL[:LAYOUT],…; see docs/gpu-models.md"
    )
    parser.add_argument(
        "--driver",
        action="append",
        default=[],
        help="with --nodes: a driver of each node: a name, a profile file, or none; may be repeated",
    )
    parser.add_argument("--cpu", default=Pool.cpu, help=f"with --nodes: CPUs of each node ({Pool.cpu})")
    parser.add_argument(
        "--memory", default=Pool.memory, help=f"with --nodes: memory of each node ({Pool.memory})"
    )
    for option in NVIDIA_OPTIONS:
        parser.add_argument(f"--{option.name}", default="", help=option.help)
    parser.add_argument("--revision", metavar="N", help="the cluster as it was at that resource version")
    moment_option(parser)
    cluster_options(parser)


def chosen_world(chosen: argparse.Namespace) -> Source:
    """Return the world that the options select.

    Raises:
        UserError: it cannot be read, or the options contradict each other.
    """
    from dra_worlds.implied import with_implied_nodes
    from dra_worlds.reading import world

    problems: list[str] = []
    if _brings_nodes(chosen):
        return Source(Objects())
    if _is_described(chosen):
        objects = _describe_world(chosen)
        return Source(objects)
    found, running, known = _read(chosen, problems)
    objects = world(found, problems).with_known(known)
    if running is None:
        objects = with_implied_nodes(objects, problems)
    if not len(objects):
        reasons = f": {problems[0]}" if problems else ""
        raise UserError(f"no objects of a cluster in {chosen.source or 'it'}{reasons}")
    running = running or of_objects(objects, problems)
    return Source(objects, problems, running)


def describe_source(chosen: argparse.Namespace) -> str:
    """Return the origin of the world that the options select, for people."""
    if chosen.source is not None:
        return "standard input" if chosen.source == "-" else str(chosen.source)
    if _brings_nodes(chosen):
        return str(chosen.file)
    if _is_described(chosen):
        groups = chosen.nodes or [Group(_NODES)]
        named = [
            f"{one.count} nodes of {one.gpus or chosen.gpus or DEFAULT_GPUS}{f' in {one.zone}' if one.zone else ''}"
            for one in groups
        ]
        return f"described: {', '.join(named)}"
    cluster = chosen_cluster(chosen)
    moment = f" at revision {chosen.revision}" if chosen.revision else ""
    return f"the cluster {cluster.server or cluster.data or cluster.context or cluster.kubeconfig}{moment}"


def chosen_documents(chosen: argparse.Namespace, problems: list[str]) -> Iterable[Document]:
    """Return the world's documents as they were read. Raises the errors of :func:`chosen_world`."""
    if _is_described(chosen):
        return [
            Document(resource.api_version, resource.kind, encode(resource, obj), True, "description")
            for resource, each in _describe_world(chosen)
            for obj in each.values()
        ]
    return _read(chosen, problems)[0]


def _read(
    chosen: argparse.Namespace, problems: list[str]
) -> tuple[Iterable[Document], Running | None, Sequence[Resource[Any]]]:
    """Return the documents of a dump or of a running cluster.

    For a cluster, also return its versions and gates, and the kinds that it has no objects of.
    """
    from dra_worlds.reading import from_source

    if chosen.source is not None and not is_kubeconfig(chosen.source):
        return from_source(chosen.source, problems), None, ()
    cluster = chosen_cluster(chosen)
    if chosen.source is not None:
        cluster = kubeconfig_cluster(chosen.source, chosen.context)
    return asyncio.run(list_cluster(cluster, problems, chosen.revision))


def _nodes(text: str) -> Group:
    try:
        return group(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _brings_nodes(chosen: argparse.Namespace) -> bool:
    """True if the question's file describes the nodes, and no option selects another world."""
    selected = (chosen.source, chosen.nodes, chosen.gpus, chosen.kubeconfig, chosen.context, chosen.server)
    return getattr(chosen, "brings_nodes", False) and not any(selected) and is_fleet(chosen.file)


def _is_described(chosen: argparse.Namespace) -> bool:
    described = bool(chosen.nodes or chosen.gpus is not None or chosen.driver)
    if described and chosen.source is not None:
        raise UserError("--from and --nodes describe two worlds: choose one", 2)
    return described or (chosen.source is not None and is_fleet(chosen.source))


def _describe_world(chosen: argparse.Namespace) -> Objects:
    from dra_worlds.describe import describe_pools

    if chosen.source is not None:
        pools = read_fleet(Path(chosen.source))
    else:
        groups = chosen.nodes or [Group(_NODES)]
        named = pools_of(groups, chosen.gpus or DEFAULT_GPUS, tuple(chosen.driver))
        pools = [replace(one, cpu=chosen.cpu, memory=chosen.memory) for one in named]
    values = {one.name: getattr(chosen, one.name.replace("-", "_")) for one in NVIDIA_OPTIONS}
    return describe_pools(pools, values=values)
