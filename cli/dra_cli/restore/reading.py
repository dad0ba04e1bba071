"""Reads what ``dralab up --from`` goes on from."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dra_shared.api.resources import Resource

from dra_cli.errors import CommandError
from dra_cli.fleet import Pool
from dra_cli.plan.documents import Document
from dra_cli.plan.live import listed
from dra_cli.plan.reading import from_source, world
from dra_cli.plan.sources import is_kubeconfig, kubeconfig_cluster
from dra_cli.restore.agents import pools
from dra_cli.restore.objects import MORE, Json, restorable


def restored(source: str, data: Path) -> tuple[list[Pool], list[tuple[Resource[Any], Json]]]:
    """Pools of nodes that stand for those of the source, and its objects; what is left out is named.

    Raises:
        CommandError: it cannot be read, or has no nodes.
    """
    problems: list[str] = []
    documents = list(_documents(source, problems))
    objects = world(documents, problems)
    made = pools(objects, data.absolute() / "restored")
    if not made:
        reason = f": {problems[0]}" if problems else ""
        raise CommandError(f"{_without_nodes(source, documents)}{reason}")
    found = restorable(documents, problems)
    for problem in problems:
        print(f"dralab: {problem}", file=sys.stderr)
    return made, found


def _without_nodes(source: str, documents: Sequence[Document]) -> str:
    """What a source is from which no cluster can go on."""
    if documents or is_kubeconfig(source):
        return f"there are no nodes in {source}"
    return f"{source} is no snapshot, no kubeconfig, and no dump of a cluster's objects"


def _documents(source: str, problems: list[str]) -> list[Document]:
    if is_kubeconfig(source):
        return asyncio.run(_from_cluster(source, problems))
    return list(from_source(source, problems))


async def _from_cluster(source: str, problems: list[str]) -> list[Document]:
    async with kubeconfig_cluster(source, None).client("dralab-up") as client:
        found = await listed(client, problems, more=MORE)
    return [document for _, documents in found for document in documents]
