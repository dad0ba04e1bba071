"""The number of a node's devices in the class of an extended resource, and how many of them are in use.

Mirrors ``calculateDRAResourceTotals`` in upstream's
``pkg/scheduler/framework/plugins/noderesources/resource_allocation.go``, which ignores taints, generations
and incomplete pools.
"""

from collections.abc import Iterator

from dra_shared.api.node import Node
from dra_shared.api.resource import DeviceClass, ResourceSlice

from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.nodes import node_matches
from dra_scheduler.allocator.pools import PoolDevice
from dra_scheduler.allocator.programs import CelProgram
from dra_scheduler.dra.manager import DRAManager

_NONE = 0, 0
# Slices are deleted and created under other names, so the cache needs a limit.
_MOST_KNOWN = 20_000


class ClassDevices:
    """Counts a class's devices on nodes.

    For each version of a class and a slice, the devices are computed only once.
    """

    def __init__(self, manager: DRAManager) -> None:
        self._manager = manager
        self._programs: dict[str, CelProgram] = {}
        self._known: dict[tuple[str, str], tuple[ResourceSlice, DeviceClass, tuple[PoolDevice, ...]]] = {}

    def __call__(self, resource: str, node: Node) -> tuple[int, int]:
        """Return how many devices the node can reach, and how many of these are in use. (0, 0) without a class."""
        device_class = self._manager.classes.for_resource(resource)
        if device_class is None:
            return _NONE
        try:
            found = list(self._reachable(device_class, node))
        except (AllocationError, _SelectorError):
            return _NONE
        return len(found), sum(self._manager.claims.state.in_use(device.id) for device in found)

    def _reachable(self, device_class: DeviceClass, node: Node) -> Iterator[PoolDevice]:
        for piece in self._manager.snapshot.slices_for(node.metadata.name):
            spec = piece.spec
            each = bool(spec.per_device_node_selection)
            if each or node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector):
                for device in self._of_class(device_class, piece):
                    own = device.spec
                    if not each or node_matches(node, own.node_name, own.all_nodes, own.node_selector):
                        yield device

    def _of_class(self, device_class: DeviceClass, piece: ResourceSlice) -> tuple[PoolDevice, ...]:
        key = device_class.metadata.name, piece.metadata.name
        known = self._known.get(key)
        if known is None or known[0] is not piece or known[1] is not device_class:
            devices = (PoolDevice(piece, device) for device in piece.spec.devices)
            known = piece, device_class, tuple(one for one in devices if self._is_of(device_class, one))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known[2]

    def _is_of(self, device_class: DeviceClass, device: PoolDevice) -> bool:
        for selector in device_class.spec.selectors:
            if selector.cel is None:
                continue
            verdict = self._program(selector.cel.expression).verdict(device)
            if isinstance(verdict, str):
                raise _SelectorError(verdict)
            if not verdict:
                return False
        return True

    def _program(self, expression: str) -> CelProgram:
        if expression not in self._programs:
            self._programs[expression] = CelProgram(expression, self._manager.features)
        return self._programs[expression]


class _SelectorError(Exception):
    """A selector cannot be evaluated. Like upstream, the caller then counts nothing."""
