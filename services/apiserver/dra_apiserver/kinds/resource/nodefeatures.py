"""Devices that take of their nodes are for nodes that can count that.

The part of the admission plugin NodeDeclaredFeatureValidator for ResourceSlices, since Kubernetes 1.37 (upstream's
`plugin/pkg/admission/nodedeclaredfeatures`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
from dra_shared import nodeselector
from dra_shared.api.codec import convert
from dra_shared.api.node import Node, NodeSelector
from dra_shared.api.resources import NODES
from dra_shared.version import V1_37
from msgspec import convert as typed

from dra_apiserver.errors import GroupResource, forbidden, quote
from dra_apiserver.kindkit.strategy import Context

JsonObject = dict[str, Any]

_SLICES = GroupResource("resource.k8s.io", "resourceslices")
_FEATURE = "DRANodeAllocatableResources"


def check_slice(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Refuse a slice with devices that take of nodes which do not declare that they count it.

    Raises:
        StatusError: 403, it has such devices, or devices that are for no node.
    """
    gates = ctx.features
    if obj is None or operation not in ("CREATE", "UPDATE") or gates.version < V1_37:
        return
    if not gates.enabled(_FEATURE) or not gates.enabled("NodeDeclaredFeatures"):
        return
    spec = obj.get("spec") or {}
    known: list[Node] = []

    def nodes() -> list[Node]:
        if not known:
            known.extend(convert(NODES, orjson.loads(data)) for data in ctx.listing("", "nodes", ""))
        return known

    for device in spec.get("devices") or ():
        if device.get("nodeAllocatableResources"):
            where = device if spec.get("perDeviceNodeSelection") else spec
            why = _missing(where, device.get("name", ""), ctx, nodes)
            if why:
                raise forbidden(_SLICES, obj["metadata"].get("name", ""), why)


def _missing(where: JsonObject, device: str, ctx: Context, nodes: Callable[[], list[Node]]) -> str:
    """Why the nodes of a device, which `where` says, can't have it; "" if they can."""
    name = where.get("nodeName")
    if name:
        found = ctx.lookup("", "nodes", "", name)
        if found is None:
            return f"node {quote(name)} not found for device {quote(device)}"
        declared = (found.get("status") or {}).get("declaredFeatures") or ()
        return "" if _FEATURE in declared else _unsupported(name)
    if where.get("nodeSelector") is None and not where.get("allNodes"):
        return f"device {quote(device)} in ResourceSlice has NodeAllocatableResources but does not map to any nodes"
    for node in _selected(where.get("nodeSelector"), nodes()):
        if _FEATURE not in node.status.declared_features:
            return _unsupported(node.metadata.name)
    return ""


def _selected(selector: JsonObject | None, nodes: list[Node]) -> Iterator[Node]:
    if selector is None:
        yield from nodes
        return
    wanted = typed(selector, NodeSelector)
    yield from (node for node in nodes if nodeselector.matches(wanted, node))


def _unsupported(node: str) -> str:
    return f"node {quote(node)} does not support {_FEATURE} feature"
