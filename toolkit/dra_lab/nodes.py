"""Add nodes to a running cluster, remove, cordon and drain them.

Draining follows kubectl's rules (staging/src/k8s.io/kubectl/pkg/drain/filters.go): pods are evicted, which
honours disruption budgets. Mirror pods stay. Pods of DaemonSets must be skipped by an option, and pods
without a controller are only evicted with force.
"""

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from dra_kube.access import ChosenCluster
from dra_kube.cluster import Cluster, ServiceRecord
from dra_kube.progress import Progress
from dra_shared.client.errors import ApiError, from_response
from dra_shared.client.rest import Client, PatchType
from dra_shared.errors import UserError
from dra_worlds.fleet import Pool, Pools, pool

_POLL = 0.1
_RETRY = 0.5
_MIRROR = "kubernetes.io/config.mirror"
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True)
class Eviction:
    """Options for evicting pods from a node."""

    ignore_daemonsets: bool = False
    force: bool = False
    grace_period: int | None = None
    timeout: float = 120.0


async def add(cluster: ChosenCluster, given: dict[str, object], timeout: float) -> None:
    """Add a pool to a running dralab cluster, and wait until its nodes are ready.

    Raises:
        UserError: a pool of that name exists, or the nodes do not become ready.
    """
    assert cluster.data is not None
    home = Cluster(cluster.data)
    if home.record().token or (home.data / "auth" / "tokens.csv").exists():
        raise UserError(
            "this cluster creates the tokens of nodes when it starts: name all pools in the file of `dralab up -f`"
        )
    pools = Pools(home.data)
    known = pools.read()
    taken = {name for one in known.values() for name in one.nodes}
    if "name" not in given:
        given["name"] = next(
            f"pool-{number}" for number in range(len(known) + 1) if f"pool-{number}" not in known
        )
    made = pool(given, "dralab node add")
    if made.name in known or taken & set(made.nodes):
        raise UserError(f"the pool {made.name} already exists: choose another name")
    pools.write(made)
    try:
        async with cluster.client() as client:
            await _ready(client, home, made, timeout)
    except BaseException as error:
        pools.remove(made.name)
        if isinstance(error, UserError):
            # Delete the node's files, because the same node may be added again with other options.
            nothing = dataclasses.replace(made, removed=tuple(made.nodes))
            await _wait_for_agent(home, made.nodes[0], _find_agent(home, made), nothing, timeout)
        raise
    for name in made.nodes:
        print(f"node/{name} added")


async def _ready(client: Client, home: Cluster, made: Pool, timeout: float) -> None:
    from dra_lab.servicespecs import agent_name

    agent = agent_name(made.name)
    wanted, deadline = set(made.nodes), time.monotonic() + timeout
    with Progress("nodes ready", len(wanted)) as progress:
        while True:
            listed = orjson.loads((await client.raw("GET", "/api/v1/nodes")).content)["items"]
            ready = {node["metadata"]["name"] for node in listed if _is_ready(node)} & wanted
            progress.step(len(ready))
            if ready == wanted:
                return
            service = home.record().services.get(agent)
            if service is not None and service.refusal:
                raise UserError(f"{agent} does not start: {service.refusal}")
            if time.monotonic() > deadline:
                missing = ", ".join(sorted(wanted - ready))
                raise UserError(f"not ready after {timeout:.0f} s: {missing}; see {home.logs}/{agent}.log")
            await asyncio.sleep(_POLL)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def remove(cluster: ChosenCluster, names: Sequence[str], timeout: float) -> None:
    """Remove nodes from a running dralab cluster: end their node agents, then delete their objects.

    Raises:
        UserError: there is no such node, or it cannot be removed in time.
    """
    assert cluster.data is not None
    home = Cluster(cluster.data)
    home.record()
    pools = Pools(home.data)
    for name in names:
        owner = next((one for one in pools.read().values() if name in one.nodes), None)
        if owner is None:
            raise UserError(f"no pool of this cluster has a node {name}")
        left = dataclasses.replace(owner, removed=(*owner.removed, name))
        before = _find_agent(home, owner)
        if left.nodes:
            pools.write(left)
        else:
            pools.remove(owner.name)
        await _wait_for_agent(home, name, before, left, timeout)
        async with cluster.client() as client:
            response = await client.raw("DELETE", f"/api/v1/nodes/{name}")
            if response.status_code >= 400 and response.status_code != 404:
                raise from_response(response.status_code, response.content)
        print(f"node/{name} removed")


def _find_agent(home: Cluster, pool: Pool) -> ServiceRecord | None:
    """Return the process of the pool's node agent, or None if it has none."""
    from dra_lab.servicespecs import agent_name

    return home.record().services.get(agent_name(pool.name))


async def _wait_for_agent(
    home: Cluster, name: str, before: ServiceRecord | None, left: Pool, timeout: float
) -> None:
    """Wait until the agent that had the node has ended: otherwise it would register the node again.

    If nodes are left, wait for their new agent too. The next removal would otherwise find no agent, and would not wait
    for the one that is about to start.

    Args:
        before: the agent at the time when the pool still had the node.
        left: the pool without the node.
    """
    deadline = time.monotonic() + timeout
    while before is not None:
        now = _find_agent(home, left)
        if now is None and not left.nodes:
            return
        if now is not None and left.nodes and now.pid != before.pid:
            return
        if time.monotonic() > deadline:
            raise UserError(f"node {name} does not stop; see {home.logs}")
        await asyncio.sleep(_POLL)


async def cordon(cluster: ChosenCluster, names: Sequence[str], *, unschedulable: bool) -> None:
    """Mark the nodes as unschedulable, or as schedulable again."""
    async with cluster.client() as client:
        for name in names:
            await _cordon(client, name.removeprefix("node/"), unschedulable)


async def _cordon(client: Client, name: str, unschedulable: bool) -> None:
    body = orjson.dumps({"spec": {"unschedulable": True if unschedulable else None}})
    response = await client.raw(
        "PATCH", f"/api/v1/nodes/{name}", content=body, content_type=PatchType.MERGE.value
    )
    if response.status_code >= 400:
        raise from_response(response.status_code, response.content)
    print(f"node/{name} {'cordoned' if unschedulable else 'uncordoned'}")


async def drain(cluster: ChosenCluster, names: Sequence[str], how: Eviction) -> None:
    """Cordon the nodes and evict their pods.

    Raises:
        UserError: the options do not allow the eviction of some pods, or pods are not gone in time.
    """
    async with cluster.client() as client:
        for given in names:
            name = given.removeprefix("node/")
            await _cordon(client, name, True)
            selector = {"fieldSelector": f"spec.nodeName={name}"}
            pods = orjson.loads((await client.raw("GET", "/api/v1/pods", params=selector)).content)["items"]
            going = _evictable(pods, how)
            with Progress(f"draining {name}", len(going)) as progress:
                await asyncio.gather(*(_evict(client, pod, how, progress) for pod in going))
            print(f"node/{name} drained")


def _evictable(pods: Sequence[dict[str, Any]], how: Eviction) -> list[dict[str, Any]]:
    going, owned_by_daemonset, alone = [], [], []
    for pod in pods:
        meta = pod["metadata"]
        owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
        over = pod["status"].get("phase") in ("Succeeded", "Failed")
        if _MIRROR in (meta.get("annotations") or {}):
            continue
        if owner is not None and owner["kind"] == "DaemonSet" and not over:
            owned_by_daemonset.append(f"{meta['namespace']}/{meta['name']}")
            continue
        if owner is None and not over:
            alone.append(f"{meta['namespace']}/{meta['name']}")
        going.append(pod)
    problems = []
    if alone and not how.force:
        problems.append(
            f"cannot delete Pods that declare no controller (use --force to override): {', '.join(alone)}"
        )
    if owned_by_daemonset and not how.ignore_daemonsets:
        listed = ", ".join(owned_by_daemonset)
        problems.append(f"cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): {listed}")
    if problems:
        raise UserError("; ".join(problems))
    return going


async def _evict(client: Client, pod: dict[str, Any], how: Eviction, progress: Progress) -> None:
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    options = {} if how.grace_period is None else {"gracePeriodSeconds": how.grace_period}
    body = orjson.dumps(
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "deleteOptions": options,
        }
    )
    deadline = time.monotonic() + how.timeout
    while True:
        response = await client.raw("POST", f"{path}/eviction", content=body)
        if response.status_code == 404:
            return
        if response.status_code < 400:
            break
        if response.status_code != _TOO_MANY_REQUESTS:
            raise from_response(response.status_code, response.content)
        # A PodDisruptionBudget allows no disruption now.
        if time.monotonic() > deadline:
            refusal: ApiError = from_response(response.status_code, response.content)
            raise UserError(f"pod {meta['namespace']}/{meta['name']} is not evicted: {refusal}")
        await asyncio.sleep(_RETRY)
    progress.print(f"pod/{meta['name']} evicted")
    while time.monotonic() < deadline:
        response = await client.raw("GET", path)
        if response.status_code == 404 or orjson.loads(response.content)["metadata"]["uid"] != meta["uid"]:
            progress.step()
            return
        await asyncio.sleep(_POLL)
    raise UserError(f"pod {meta['namespace']}/{meta['name']} is still there after {how.timeout:.0f} s")
