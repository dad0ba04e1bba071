"""Group existing nodes that are equal. Pods that fit on one node of a group fit on each node of it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from dra_shared.api.meta import Object
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceSlice
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

from dra_scheduler.framework.nodeinfo import host_ports
from dra_scheduler.framework.resources import pod_requests
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.purchase.recorded import own_uuid
from dra_scheduler.plan.upkeep import claim_names

T = TypeVar("T", bound=Object)

_replace = msgspec.structs.replace
_encode = msgspec.json.Encoder(order="deterministic").encode
# Parts of a pod or claim that select a single node.
_OF_ONE = (b'"kubernetes.io/hostname"', b'"metadata.name"')


def groups(objects: Objects, waiting: Iterable[Pod]) -> list[list[str]]:
    """Return the nodes' names by group. If a waiting pod may select a single node, each node is its own group."""
    nodes = objects.of(NODES)
    claims = objects.of(RESOURCE_CLAIMS)
    if any(_is_choosy(pod, claims) for pod in waiting):
        return [[name] for name in nodes]
    pods = _by_node(objects.of(PODS).values(), lambda pod: pod.spec.node_name)
    slices = _by_node(objects.of(RESOURCE_SLICES).values(), lambda piece: piece.spec.node_name)
    found: dict[bytes, list[str]] = {}
    for name, node in nodes.items():
        found.setdefault(_content(node, slices.get(name, ()), pods.get(name, ()), claims), []).append(name)
    return list(found.values())


def _is_choosy(pod: Pod, claims: Mapping[str, ResourceClaim]) -> bool:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    text = _encode((pod.spec.node_selector, affinity))
    used = (claims.get(f"{pod.metadata.namespace}/{name}") for name in claim_names(pod))
    return (
        any(name in text for name in _OF_ONE)
        or any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes)
        or any(claim is not None and claim.status.allocation is not None for claim in used)
    )


def _by_node(objects: Iterable[T], of: Any) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for obj in objects:
        if of(obj):
            found.setdefault(of(obj), []).append(obj)
    return found


def _content(
    node: Node, slices: Sequence[ResourceSlice], pods: Sequence[Pod], claims: Mapping[str, ResourceClaim]
) -> bytes:
    """Return everything that decides what the node can take, without its name and its devices' identities."""
    status = node.status
    parts = (
        sorted(node.metadata.labels.items()),
        node.spec.taints,
        node.spec.unschedulable,
        status.allocatable,
        status.declared_features,
        *map(msgspec.Raw, sorted(_encode(_anonymous(piece)) for piece in slices)),
        None,
        *map(msgspec.Raw, sorted(_encode(_load(pod, claims)) for pod in pods)),
    )
    return _encode(parts).replace(_encode(node.metadata.name)[1:-1], b"*")


def _anonymous(piece: ResourceSlice) -> Any:
    spec = piece.spec
    devices = [_replace(each, attributes=own_uuid(each.attributes, each.name)) for each in spec.devices]
    return _replace(spec, devices=tuple(devices), pool=_replace(spec.pool, generation=0))


def _load(pod: Pod, claims: Mapping[str, ResourceClaim]) -> Any:
    """Return the parts of the pod that affect what else fits on the node, and other pods."""
    used = (claims.get(f"{pod.metadata.namespace}/{name}") for name in claim_names(pod))
    allocations = [claim.status.allocation for claim in used if claim is not None]
    volumes = [each for each in pod.spec.volumes if each.persistent_volume_claim is not None]
    meta = pod.metadata
    results = [each.devices.results for each in allocations if each is not None]
    return (
        meta.namespace, meta.labels, pod_requests(pod), host_ports(pod), pod.spec.affinity, volumes, results,
    )  # fmt: skip
