"""Reject ResourceSlices with devices that use node resources, if the node does not declare support for that.

The part of the admission plugin NodeDeclaredFeatureValidator for ResourceSlices, since Kubernetes 1.37
(upstream's `plugin/pkg/admission/nodedeclaredfeatures`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson
from dra_shared import nodeselector
from dra_shared.api.codec import convert
from dra_shared.api.node import Node, NodeSelector
from dra_shared.api.resources import NODES
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37
from msgspec import convert as typed

from dra_apiserver.errors import GroupResource, forbidden_error, quote
from dra_apiserver.kindkit.strategy import Context

_SLICES = GroupResource("resource.k8s.io", "resourceslices")
_FEATURE = "DRANodeAllocatableResources"


def check_slice(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Reject a slice with devices that use resources of nodes which do not declare support for it.

    Raises:
        StatusError: 403, it has such devices, or devices whose node is unknown.
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
            why = _find_problem(where, device.get("name", ""), ctx, nodes)
            if why:
                raise forbidden_error(_SLICES, obj["metadata"].get("name", ""), why)


def _find_problem(where: JsonObject, device: str, ctx: Context, nodes: Callable[[], list[Node]]) -> str:
    """Return the reason why the nodes of a device (in `where`) do not support it; "" if they do."""
    name = where.get("nodeName")
    if name:
        found = ctx.lookup("", "nodes", "", name)
        if found is None:
            return f"node {quote(name)} not found for device {quote(device)}"
        declared = (found.get("status") or {}).get("declaredFeatures") or ()
        return "" if _FEATURE in declared else _unsupported_message(name)
    if where.get("nodeSelector") is None and not where.get("allNodes"):
        return f"device {quote(device)} in ResourceSlice has NodeAllocatableResources but does not map to any nodes"
    for node in _select_nodes(where.get("nodeSelector"), nodes()):
        if _FEATURE not in node.status.declared_features:
            return _unsupported_message(node.metadata.name)
    return ""


def _select_nodes(selector: JsonObject | None, nodes: list[Node]) -> Iterator[Node]:
    if selector is None:
        yield from nodes
        return
    wanted = typed(selector, NodeSelector)
    yield from (node for node in nodes if nodeselector.matches(wanted, node))


def _unsupported_message(node: str) -> str:
    return f"node {quote(node)} does not support {_FEATURE} feature"
