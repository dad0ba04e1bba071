"""``explain`` and ``free``: what the scheduler knows, asked of the scheduler itself."""

from typing import Any

import httpx
import orjson
from dra_shared.client.rest import Client

from dra_cli.access import ChosenCluster
from dra_cli.cluster import Cluster
from dra_cli.errors import CommandError
from dra_cli.surroundings import lines, surroundings

_KINDS = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "claim": "claim",
    "resourceclaim": "claim",
    "resourceclaims": "claim",
}


async def explain(cluster: ChosenCluster, target: str, namespace: str, nodes: int, output: str) -> None:
    """Print the explanation of ``pod/NAME`` or ``claim/NAME``.

    Raises:
        CommandError: the target is neither, or does not exist.
    """
    _check(output)
    kind, slash, name = target.partition("/")
    if not slash:
        kind, name = "pod", target
    if kind not in _KINDS:
        raise CommandError(f"cannot explain {target!r}: choose pod/NAME or claim/NAME", 2)
    answer = orjson.loads(
        await _ask(cluster, f"/explain/{_KINDS[kind]}/{namespace}/{name}", {"nodes": str(nodes)})
    )
    pod = answer.get("pod", "").partition("/")[2]
    found: dict[str, Any] = {}
    if pod:
        async with cluster.client() as client:
            found = await surroundings(client, namespace, pod)
    if output == "json":
        print(orjson.dumps(answer | found).decode())
        return
    params = {"nodes": str(nodes), "format": "text"}
    text = await _ask(cluster, f"/explain/{_KINDS[kind]}/{namespace}/{name}", params)
    print("\n".join([text.rstrip(), *lines(found)]))


async def free(cluster: ChosenCluster, output: str) -> None:
    """Print what is free and what is used.

    Raises:
        CommandError: no cluster runs there.
    """
    _check(output)
    params = {} if output == "json" else {"format": "text"}
    print((await _ask(cluster, "/free", params)).rstrip())


def _check(output: str) -> None:
    if output not in ("", "json"):
        raise CommandError(f"unknown output {output!r}: choose json, or leave it out", 2)


async def _ask(cluster: ChosenCluster, path: str, params: dict[str, str]) -> str:
    if cluster.data is None:
        raise CommandError("only a scheduler of dralab can tell: name its cluster with --data")
    record = Cluster(cluster.data).record()
    scheduler = record.services.get("scheduler")
    if scheduler is None:
        raise CommandError("only dralab's own scheduler can tell, and this cluster runs without it")
    try:
        async with Client(scheduler.url, user_agent="dralab", token=record.token) as client:
            response = await client.raw("GET", path, params=params)
    except httpx.HTTPError as error:
        raise CommandError(f"the scheduler does not answer ({error}); see `dralab status`") from error
    if response.status_code != 200:
        raise CommandError(response.text.strip() or f"the scheduler answers {response.status_code}")
    return response.text
