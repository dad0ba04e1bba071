"""The possible NUMA nodes of a container's devices (pkg/kubelet/cm/devicemanager/topology_hints.go)."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from dra_shared.quantity import Quantity

from dra_node_agent.kubelet.devicemanager.state import DeviceState
from dra_node_agent.kubelet.restarts import is_sidecar

Hints = Mapping[str, Sequence["TopologyHint"] | None]
"""By resource: None if any NUMA node will do, empty if none is possible."""


@dataclass(frozen=True)
class TopologyHint:
    """A set of NUMA nodes with the devices. ``preferred`` if no smaller set is possible."""

    numa_nodes: tuple[int, ...]
    preferred: bool


def container_hints(state: DeviceState, machine: Sequence[int], pod: Pod, container: Container) -> Hints:
    """Return hints for one container (``GetTopologyHints``) on the NUMA nodes ``machine``."""
    uid = pod.metadata.uid
    reusable = state.reusable.get(uid, {})
    hints: dict[str, Sequence[TopologyHint] | None] = {}
    for resource, requested in _requests(state, container.resources.limits).items():
        held = state.pod_devices.container_devices(uid, container.name, resource) or set()
        hints[resource] = _hints(state, machine, resource, requested, held, reusable.get(resource, set()))
    return hints


def pod_hints(state: DeviceState, machine: Sequence[int], pod: Pod) -> Hints:
    """Return hints for the whole pod (``GetPodTopologyHints``)."""
    hints: dict[str, Sequence[TopologyHint] | None] = {}
    for resource, requested in pod_device_request(state, pod).items():
        held = state.pod_devices.pod_devices(pod.metadata.uid, resource)
        hints[resource] = _hints(state, machine, resource, requested, held, set())
    return hints


def pod_device_request(state: DeviceState, pod: Pod) -> dict[str, int]:
    """Return the maximum number of devices that the pod needs at the same time (``getPodDeviceRequest``)."""
    total: Counter[str] = Counter()
    for container in pod.spec.containers:
        _add(total, _requests(state, container.resources.limits))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        limits = _requests(state, container.resources.limits)
        if is_sidecar(container):
            _add(sidecars, limits)
            moment = Counter(sidecars)
        else:
            moment = Counter(sidecars)
            _add(moment, limits)
        for resource, number in moment.items():
            peak[resource] = max(peak[resource], number)
    _add(total, sidecars)
    return {resource: max(total[resource], peak[resource]) for resource in total | peak | _zeros(total, peak)}


def _zeros(*counters: Counter[str]) -> dict[str, int]:
    return {resource: 0 for counter in counters for resource in counter}


def _add(total: Counter[str], more: Mapping[str, int]) -> None:
    for resource, number in more.items():
        total[resource] += number


def _requests(state: DeviceState, limits: Mapping[str, str]) -> dict[str, int]:
    return {
        resource: Quantity.parse(amount).value()
        for resource, amount in limits.items()
        if state.is_device_plugin_resource(resource)
    }


def _hints(
    state: DeviceState,
    machine: Sequence[int],
    resource: str,
    requested: int,
    held: set[str],
    reusable: set[str],
) -> Sequence[TopologyHint] | None:
    if not state.has_topology(resource):
        return None
    if held:
        # As after a restart of the kubelet: return the same hints again.
        return _generate(state, machine, resource, held, set(), requested) if len(held) == requested else ()
    available = state.available(resource)
    if len(available | reusable) < requested:
        return ()
    return _generate(state, machine, resource, available, reusable, requested)


def _generate(
    state: DeviceState,
    machine: Sequence[int],
    resource: str,
    available: set[str],
    reusable: set[str],
    requested: int,
) -> Sequence[TopologyHint]:
    devices = state.all_devices.get(resource, {})
    # Skip NUMA nodes without devices, because each would only double the number of masks.
    inhabited = {node for device in devices.values() for node in device.numa_nodes or ()}
    nodes = sorted(inhabited.intersection(machine)) or machine
    smallest = len(nodes)
    masks: list[tuple[int, ...]] = []
    for size in range(1, len(nodes) + 1):
        for mask in itertools.combinations(nodes, size):
            inside = {
                id_ for id_, device in devices.items() if not set(device.numa_nodes or ()).isdisjoint(mask)
            }
            if len(inside) >= requested:
                smallest = min(smallest, size)
            placed = {id_ for id_ in reusable if id_ not in devices or devices[id_].numa_nodes is not None}
            if placed <= inside and len(placed) + len(available & inside) >= requested:
                masks.append(mask)
    return tuple(TopologyHint(tuple(sorted(mask)), len(mask) == smallest) for mask in masks)
