"""Nodes of a dump that has only their ResourceSlices."""

import re
from collections.abc import Iterator

from dra_scheduler.plan.objects import Objects
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.node import Node, NodeStatus
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import NODES, RESOURCE_SLICES

_UNREAD = re.compile(r": (?:a Node|Node \S+) cannot be read: ")
_HOST_NAME = "kubernetes.io/hostname"
# More than any machine has. Except for pods: a kubelet runs up to 110 by default.
_ALLOCATABLE = {"cpu": "1M", "memory": "1Ei", "ephemeral-storage": "1Ei", "pods": "110"}


def with_implied_nodes(objects: Objects, problems: list[str]) -> Objects:
    """Add the nodes that slices name, if the dump has no Node at all. Append a warning to ``problems``.

    No node is implied if a Node of the dump could not be read: it is not as large as the implied one.
    """
    if objects.of(NODES) or any(_UNREAD.search(problem) for problem in problems):
        return objects
    names = {name for piece in objects.of(RESOURCE_SLICES).values() for name in _nodes(piece)}
    if not names:
        return objects
    nodes = "1 node is" if len(names) == 1 else f"{len(names)} nodes are"
    problems.append(
        f"there are no nodes: {nodes} implied by the ResourceSlices, with room for any CPU and memory, "
        "and without labels and taints"
    )
    return objects.with_objects((NODES, _node(name)) for name in sorted(names))


def _nodes(piece: ResourceSlice) -> Iterator[str]:
    if piece.spec.node_name:
        yield piece.spec.node_name
    for device in piece.spec.devices:
        if device.node_name:
            yield device.node_name


def _node(name: str) -> Node:
    meta = ObjectMeta(name=name, labels={_HOST_NAME: name})
    return Node(metadata=meta, status=NodeStatus(allocatable=_ALLOCATABLE))
