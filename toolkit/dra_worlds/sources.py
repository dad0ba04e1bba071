"""Sources of a world's objects: a running cluster, its kubeconfig, or documents."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from dra_kube.access import ChosenCluster
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_shared.api.resources import Resource

from dra_worlds.documents import Document
from dra_worlds.running import UNKNOWN, Running, of_cluster


@dataclass(frozen=True)
class Source:
    """A world, the version and gates of its cluster, and problems of reading it."""

    objects: Objects
    problems: list[str] = field(default_factory=list)
    running: Running = UNKNOWN


def plain_objects(found: Iterable[Document]) -> Iterator[dict[str, Any]]:
    """Yield the objects that affect scheduling as they were read, without managedFields."""
    for document in found:
        if (document.group, document.kind) in BY_KIND:
            value = orjson.loads(bytes(document.data))
            (value.get("metadata") or {}).pop("managedFields", None)
            yield {"apiVersion": document.api_version, "kind": document.kind, **value}


async def list_cluster(
    cluster: ChosenCluster, problems: list[str], revision: str | None
) -> tuple[list[Document], Running, list[Resource[Any]]]:
    """Return the objects of a running cluster, its version and gates, and the resources that were listed."""
    from dra_worlds.live import list_objects

    async with cluster.client("dralab-plan") as client:
        running = await of_cluster(client, problems)
        found = await list_objects(client, problems, revision=revision)
    documents = [document for _, each in found for document in each]
    return documents, running, [resource for resource, _ in found]


async def from_cluster(
    cluster: ChosenCluster, problems: list[str], *, revision: str | None = None
) -> tuple[Objects, Running]:
    """Return the world of a running cluster, and its version and gates."""
    from dra_worlds.reading import world

    found, running, known = await list_cluster(cluster, problems, revision)
    return world(found, problems).with_known(known), running


def kubeconfig_cluster(source: str, context: str | None) -> ChosenCluster:
    """Return the cluster of a kubeconfig."""
    return ChosenCluster(kubeconfig=Path(source), context=context)


def is_kubeconfig(source: str) -> bool:
    """True if the source is a kubeconfig, which selects a running cluster."""
    path = Path(source)
    if source == "-" or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(1 << 16)
    return b"clusters:" in head and b"contexts:" in head and b"kind: Config" in head
