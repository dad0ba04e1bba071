"""Which world a command means: ``--from``, a cluster's options, or a description."""

import argparse
import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from dra_kube.access import ChosenCluster
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_shared.api.codec import encode
from dra_shared.api.resources import Resource
from dra_shared.errors import UserError

from dra_cli.access import chosen_cluster, cluster_options, moment_option
from dra_cli.commandline import number
from dra_cli.fleet import DEFAULT_GPUS
from dra_cli.plan.documents import Document
from dra_cli.plan.running import UNKNOWN, Running, of_cluster, of_objects


@dataclass(frozen=True)
class Source:
    """A world, what its cluster runs, and what of it could not be read."""

    objects: Objects
    problems: list[str] = field(default_factory=list)
    running: Running = UNKNOWN


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
    moment_option(parser)
    cluster_options(parser)


def chosen_world(chosen: argparse.Namespace) -> Source:
    """The world that the options mean.

    Raises:
        UserError: it cannot be read, or the options contradict each other.
    """
    from dra_cli.plan.implied import with_implied_nodes
    from dra_cli.plan.reading import world

    problems: list[str] = []
    if _is_described(chosen):
        objects = _described(chosen)
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


def chosen_documents(chosen: argparse.Namespace, problems: list[str]) -> Iterable[Document]:
    """The same as documents, as they were read; raises as :func:`chosen_world`."""
    if _is_described(chosen):
        return [
            Document(resource.api_version, resource.kind, encode(resource, obj), True, "description")
            for resource, each in _described(chosen)
            for obj in each.values()
        ]
    return _read(chosen, problems)[0]


def _read(
    chosen: argparse.Namespace, problems: list[str]
) -> tuple[Iterable[Document], Running | None, Sequence[Resource[Any]]]:
    """The documents of a dump, or of a running cluster, of which it is known what it runs and what it has none of."""
    from dra_cli.plan.reading import from_source

    if chosen.source is not None and not is_kubeconfig(chosen.source):
        return from_source(chosen.source, problems), None, ()
    cluster = chosen_cluster(chosen)
    if chosen.source is not None:
        cluster = kubeconfig_cluster(chosen.source, chosen.context)
    return asyncio.run(_listed(cluster, problems, chosen.revision))


def plain_objects(found: Iterable[Document]) -> Iterator[dict[str, Any]]:
    """The objects that decisions depend on, as they were read, without managedFields."""
    for document in found:
        if (document.group, document.kind) in BY_KIND:
            value = orjson.loads(bytes(document.data))
            (value.get("metadata") or {}).pop("managedFields", None)
            yield {"apiVersion": document.api_version, "kind": document.kind, **value}


def _is_described(chosen: argparse.Namespace) -> bool:
    described = chosen.nodes is not None or chosen.gpus is not None
    if described and chosen.source is not None:
        raise UserError("--from and --nodes describe two worlds: choose one", 2)
    return described


def _described(chosen: argparse.Namespace) -> Objects:
    from dra_cli.plan.describe import described

    return described(2 if chosen.nodes is None else chosen.nodes, chosen.gpus or DEFAULT_GPUS)


async def _listed(
    cluster: ChosenCluster, problems: list[str], revision: str | None
) -> tuple[list[Document], Running, list[Resource[Any]]]:
    """The objects of a running cluster, what it runs, and the resources that were listed."""
    from dra_cli.plan.live import listed

    async with cluster.client("dralab-plan") as client:
        running = await of_cluster(client, problems)
        found = await listed(client, problems, revision=revision)
    documents = [document for _, each in found for document in each]
    return documents, running, [resource for resource, _ in found]


async def from_cluster(
    cluster: ChosenCluster, problems: list[str], *, revision: str | None = None
) -> tuple[Objects, Running]:
    """The world of a running cluster, and what that runs."""
    from dra_cli.plan.reading import world

    found, running, known = await _listed(cluster, problems, revision)
    return world(found, problems).with_known(known), running


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
