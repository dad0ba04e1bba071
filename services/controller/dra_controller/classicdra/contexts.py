"""PodSchedulingContexts: the nodes that a pod could go to, and the node that it goes to.

kube-scheduler wrote their spec until Kubernetes 1.31, and the controllers of drivers their status
(`k8s.io/api/resource/v1alpha2`). Here both follow from what the current scheduler decided.
"""

from collections.abc import Awaitable, Iterable
from typing import Any

import msgspec
from dra_shared.api.meta import Object
from dra_shared.api.node import Node, Taint
from dra_shared.api.pod import Pod, PodResourceClaim
from dra_shared.api.resource import ResourceClaim, ResourceSlice, ResourceSliceSpec
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from dra_shared.claims import ClaimReferenceError, claim_keys, claim_name
from dra_shared.classic.classes import class_called
from dra_shared.classic.drivers import driver_called
from dra_shared.classic.status import node_of
from dra_shared.classic.world import World
from dra_shared.client.errors import AlreadyExists, Conflict, NotFound
from dra_shared.client.informer import InformerFactory
from dra_shared.client.rest import Client
from dra_shared.jsontypes import JsonObject
from dra_shared.nodeselector import matches, required_affinity_matches
from dra_shared.taints import NO_EXECUTE, NO_SCHEDULE, tolerates

from dra_controller.classicdra.objects import CLAIMS, CONTEXTS, ClassicObject, Finder

_MOST = 128
_BY_CLAIM = "claim"
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class Contexts:
    """Keeps the contexts of the pods that use classic claims."""

    def __init__(self, client: Client, informers: InformerFactory, finder: Finder) -> None:
        self._client = client
        self._finder = finder
        self._pods = informers.informer(PODS).store
        self._today = informers.informer(RESOURCE_CLAIMS).store
        self._classic = informers.informer(CLAIMS).store
        self._nodes = informers.informer(NODES).store
        self._slices = informers.informer(RESOURCE_SLICES).store
        self._contexts = informers.informer(CONTEXTS).store
        self._pods.add_index(_BY_CLAIM, claim_keys)

    def pods_of(self, claim: str) -> list[str]:
        """Return the keys of the pods that use the claim with that key."""
        return [pod.key for pod in self._pods.by_index(_BY_CLAIM, claim)]

    async def sync(self, key: str) -> None:
        """Bring the context of a pod up to date. Without the pod the context is deleted."""
        pod, existing = self._pods.get(key), self._contexts.get(key)
        if pod is None:
            if existing is not None:
                meta = existing.metadata
                await _ignoring_absence(
                    self._client.delete(CONTEXTS, meta.name, meta.namespace, uid=meta.uid)
                )
            return
        wanted = self._context_for(pod)
        if wanted is None:
            return
        if existing is None:
            await _ignoring_absence(
                self._client.create(CONTEXTS, _new_context(pod, wanted["spec"]), pod.metadata.namespace)
            )
        elif existing.spec != wanted["spec"]:
            body = {"metadata": {"uid": existing.metadata.uid}, "spec": wanted["spec"]}
            await _ignoring_absence(
                self._client.patch(CONTEXTS.skip_decoding, pod.metadata.name, body, pod.metadata.namespace)
            )
        elif existing.status != wanted["status"]:
            await write_status(self._client, CONTEXTS, existing, wanted["status"])

    def _context_for(self, pod: Pod) -> JsonObject | None:
        """Return the context of the pod; None for a pod without classic claims."""
        entries: dict[str, bool] = {}
        drivers: set[str] = set()
        chosen = ""
        for name, claim in self._claims_of(pod):
            allocation = msgspec.to_builtins(claim.status).get("allocation")
            entries[name] = allocation is not None
            chosen = chosen or node_of(allocation)
            drivers.add(self._driver_of(claim))
        if not entries:
            return None
        return context_of(pod, entries, drivers, self._nodes.list(), self._slices.list(), chosen)

    def _claims_of(self, pod: Pod) -> Iterable[tuple[str, ResourceClaim]]:
        """Yield the claims of the pod that exist for classic ones, each with its name in the pod."""
        for entry in pod.spec.resource_claims:
            key = _claim_key(pod, entry)
            if key is None:
                continue
            claim = self._today.get(key)
            if claim is not None and key in self._classic:
                yield entry.name, claim

    def _driver_of(self, claim: ResourceClaim) -> str:
        """Return the driver from which a claim gets its devices, by its class."""
        shown = self._classic.get(claim.key)
        name = shown.spec.get("resourceClassName", "") if shown is not None else ""
        parts = class_called(name, World(self._finder.find, self._finder.find_generated))
        return driver_called(parts.driver).name


def _claim_key(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the key of the claim for an entry; None if there is no claim yet."""
    try:
        name, _ = claim_name(pod, entry)
    except ClaimReferenceError:
        return None
    return None if name is None else f"{pod.metadata.namespace}/{name}"


async def write_status(client: Client, kind: Resource[Any], obj: Object, status: JsonObject) -> None:
    """Write the status of an object, unless another object has its name by now."""
    meta = obj.metadata
    body = {"metadata": {"uid": meta.uid}, "status": status}
    await _ignoring_absence(
        client.patch(kind.skip_decoding, meta.name, body, meta.namespace, subresource="status")
    )


async def _ignoring_absence(write: Awaitable[Any]) -> None:
    try:
        await write
    except (AlreadyExists, Conflict, NotFound):
        # The informer will report the change, and the object is reconciled again then.
        return


def _new_context(pod: Pod, spec: JsonObject) -> ClassicObject:
    meta = pod.metadata
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": True}
    own = {"name": meta.name, "namespace": meta.namespace, "ownerReferences": [owner]}
    return msgspec.convert({"metadata": own, "spec": spec}, ClassicObject)


def context_of(
    pod: Pod,
    claims: JsonObject,
    drivers: Iterable[str],
    nodes: Iterable[Node],
    slices: Iterable[ResourceSlice],
    chosen: str,
) -> JsonObject:
    """Return the spec and status of a pod's context.

    ``claims`` has the names of the pod's claim entries, each with True if the claim is allocated. ``chosen`` is
    the node of an allocation.
    """
    selected = pod.spec.node_name or chosen
    potential = _potential(pod, set(drivers), list(nodes), list(slices))
    if selected and selected not in potential:
        potential = [selected, *potential]
    spec: JsonObject = {"potentialNodes": potential[:_MOST]}
    if selected:
        spec["selectedNode"] = selected
    unsuitable = potential[:_MOST] if not selected and _unschedulable(pod) else []
    statuses = [
        {"name": name, **({"unsuitableNodes": unsuitable} if unsuitable and not allocated else {})}
        for name, allocated in claims.items()
    ]
    return {"spec": spec, "status": {"resourceClaims": statuses}}


def _potential(pod: Pod, drivers: set[str], nodes: list[Node], slices: list[ResourceSlice]) -> list[str]:
    """Return the nodes that the pod selects and tolerates and that have devices of the drivers."""
    offered = [one.spec for one in slices if one.spec.driver in drivers]
    return sorted(
        node.metadata.name
        for node in nodes
        if required_affinity_matches(pod.spec, node)
        and _tolerates_node(pod, node)
        and any(_reaches(spec, node) for spec in offered)
    )


def _tolerates_node(pod: Pod, node: Node) -> bool:
    """Return True if the pod tolerates the node. A cordoned node has a taint, or is about to get it."""
    taints = [taint for taint in node.spec.taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
    if node.spec.unschedulable:
        taints.append(_CORDONED)
    return all(any(tolerates(one, taint) for one in pod.spec.tolerations) for taint in taints)


def _reaches(spec: ResourceSliceSpec, node: Node) -> bool:
    """Return True if devices of the slice can be used on the node.

    If each device names its own nodes, one device for the node is enough.
    """
    places = spec.devices if spec.per_device_node_selection else (spec,)
    return any(
        place.all_nodes
        or place.node_name == node.metadata.name
        or (place.node_selector is not None and matches(place.node_selector, node))
        for place in places
    )


def _unschedulable(pod: Pod) -> bool:
    return any(one.type == "PodScheduled" and one.status == "False" for one in pod.status.conditions)
