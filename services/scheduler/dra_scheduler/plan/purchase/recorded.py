"""Nodes that resemble a recorded one, with similar slices."""

from collections.abc import Iterator, Mapping, Sequence
from uuid import NAMESPACE_DNS, uuid5

import msgspec
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.node import Node, NodeSpec, NodeStatus
from dra_shared.api.resource import DeviceAttribute, ResourceSlice
from dra_shared.api.resources import NODES, RESOURCE_SLICES

from dra_scheduler.plan.purchase.trials import Typed

_replace = msgspec.structs.replace
# Taints of the node lifecycle describe the recorded node's state, and do not apply to a new one.
_PASSING = "node.kubernetes.io/"


class RecordedNode:
    """A node and its slices as a model for new ones."""

    def __init__(self, node: Node, slices: Sequence[ResourceSlice]) -> None:
        self._node = node
        self._slices = list(slices)

    def make(self, name: str) -> Iterator[Typed]:
        """Yield a node with that name, and its slices."""
        old = self._node
        labels = old.metadata.labels | {"kubernetes.io/hostname": name}
        taints = tuple(taint for taint in old.spec.taints if not taint.key.startswith(_PASSING))
        status = NodeStatus(
            capacity=old.status.capacity,
            allocatable=old.status.allocatable,
            declared_features=old.status.declared_features,
            runtime_handlers=old.status.runtime_handlers,
        )
        meta = ObjectMeta(name=name, uid=f"plan-node-{name}", labels=labels)
        yield NODES, Node(metadata=meta, spec=NodeSpec(taints=taints), status=status)
        for index, piece in enumerate(self._slices):
            yield RESOURCE_SLICES, self._slice(piece, name, index)

    def _slice(self, piece: ResourceSlice, name: str, index: int) -> ResourceSlice:
        spec, old = piece.spec, self._node.metadata.name
        pool = spec.pool.name.replace(old, name) if old in spec.pool.name else f"{spec.pool.name}-{name}"
        devices = tuple(
            _replace(each, attributes=own_uuid(each.attributes, f"{name}-{each.name}"))
            for each in spec.devices
        )
        return ResourceSlice(
            metadata=ObjectMeta(name=f"{index:04}-{spec.driver}-{name}", uid=f"plan-slice-{name}-{index}"),
            spec=_replace(spec, node_name=name, pool=_replace(spec.pool, name=pool), devices=devices),
        )


def own_uuid(attributes: Mapping[str, DeviceAttribute], identity: str) -> dict[str, DeviceAttribute]:
    """Return the attributes with a new ``uuid`` if there is one."""
    found = dict(attributes)
    if "uuid" in found:
        found["uuid"] = _replace(found["uuid"], string=f"GPU-{uuid5(NAMESPACE_DNS, identity)}")
    return found
