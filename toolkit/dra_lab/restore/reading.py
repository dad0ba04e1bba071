"""Read the source of ``dralab up --from``."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dra_scheduler.plan.neededgates import Found, needs
from dra_shared.api.resources import Resource
from dra_shared.errors import UserError
from dra_shared.features import read, with_defaults
from dra_shared.jsontypes import JsonObject
from dra_shared.serviceversions import Versions, lab_gates
from dra_shared.version import release
from dra_worlds.documents import Document
from dra_worlds.fleet import Pool
from dra_worlds.implied import with_implied_nodes
from dra_worlds.live import list_objects
from dra_worlds.reading import from_source, world
from dra_worlds.sources import is_kubeconfig, kubeconfig_cluster

from dra_lab.restore.agents import pools
from dra_lab.restore.objects import MORE, restorable


class Restored(NamedTuple):
    """The pools of nodes for a source's nodes, the source's objects, and the feature gates that these need."""

    pools: list[Pool]
    objects: list[tuple[Resource[Any], JsonObject]]
    gates: Found

    def feature_gates(self, text: str, kubernetes_version: str) -> str:
        """Return ``--feature-gates`` with the gates that the objects need, unless an option turns them off.

        Print their names.

        Raises:
            ValueError: the version or ``text`` is malformed.
        """
        version = Versions.parse(kubernetes_version).cluster
        defaults, own = release(version).gates, lab_gates(version)
        on, named = needs(self.gates, read(text, version), version)
        more = {name: True for name in on if not defaults[name].default and name not in own}
        shown = ", ".join(f"{need.gate} ({need.holder})" for need in named if need.gate in more)
        if shown:
            print(f"dralab: feature gates that objects need are on: {shown}", file=sys.stderr)
        return with_defaults(more, text, version)


def read_source(source: str, data: Path) -> Restored:
    """Read the objects that a cluster starts from. Print the objects that are left out.

    Raises:
        UserError: the source cannot be read, or has no nodes.
    """
    problems: list[str] = []
    documents = list(_documents(source, problems))
    objects = world(documents, problems)
    if not is_kubeconfig(source):
        objects = with_implied_nodes(objects, problems)
    made = pools(objects, data.absolute() / "restored")
    if not made:
        reason = f": {problems[0]}" if problems else ""
        raise UserError(f"{_without_nodes(source, documents)}{reason}")
    found = restorable(documents, problems)
    for problem in problems:
        print(f"dralab: {problem}", file=sys.stderr)
    return Restored(made, found, objects.needed_gates())


def _without_nodes(source: str, documents: Sequence[Document]) -> str:
    """Return the error for a source without nodes, from which no cluster can start."""
    if documents or is_kubeconfig(source):
        return f"there are no nodes in {source}"
    return f"{source} is not a snapshot, a kubeconfig, or a dump of a cluster's objects"


def _documents(source: str, problems: list[str]) -> list[Document]:
    if is_kubeconfig(source):
        return asyncio.run(_from_cluster(source, problems))
    return list(from_source(source, problems))


async def _from_cluster(source: str, problems: list[str]) -> list[Document]:
    async with kubeconfig_cluster(source, None).client("dralab-up") as client:
        found = await list_objects(client, problems, more=MORE)
    return [document for _, documents in found for document in documents]
