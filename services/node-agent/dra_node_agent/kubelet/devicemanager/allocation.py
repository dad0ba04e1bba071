"""The choice of devices for a container (``devicesToAllocate`` and ``filterByAffinity`` in manager.go).

Upstream takes members of a set in the random order of a Go map. Here they are sorted by id.
"""

from collections.abc import Callable, Collection, Sequence

from dra_shared.quoting import go_quote

from dra_node_agent.kubelet.devicemanager.state import DeviceState, NumaAffinity
from dra_node_agent.kubelet.devicemanager.types import DeviceError

AlreadyRunning = Callable[[str, str], bool]
"""Returns True if the container has run since before the kubelet started, and pods are not synced yet."""


class _Choice:
    """The devices chosen so far. Each counts as allocated immediately."""

    def __init__(self, state: DeviceState, resource: str, needed: int) -> None:
        self._state = state
        self._resource = resource
        self.needed = needed
        self.devices: set[str] = set()

    def take(self, devices: Collection[str]) -> bool:
        """Take the needed number of ``devices``. Return True if there were enough."""
        allocated = self._state.allocated.setdefault(self._resource, set())
        for device in sorted(set(devices) - self.devices):
            allocated.add(device)
            self.devices.add(device)
            self.needed -= 1
            if self.needed == 0:
                return True
        return False


class DeviceChooser:
    """Chooses devices, using the plugin's preference if it has one."""

    def __init__(self, state: DeviceState, affinity: NumaAffinity, already_running: AlreadyRunning) -> None:
        self._state = state
        self._affinity = affinity
        self._already_running = already_running

    async def devices_to_allocate(
        self, pod_uid: str, container: str, resource: str, required: int, reusable: Collection[str]
    ) -> set[str]:
        """Return the devices for an Allocate call, or an empty set if nothing is needed.

        Raises:
            DeviceError: there are not enough.
        """
        held = self._state.pod_devices.container_devices(pod_uid, container, resource)
        if held is not None and len(held) != required:
            raise DeviceError(
                f"pod {go_quote(pod_uid)} container {go_quote(container)} changed request for resource"
                f" {go_quote(resource)} from {len(held)} to {required}"
            )
        if self._already_running(pod_uid, container):
            # The kubelet restarted but the node did not, so the running container still has its devices.
            return set()
        self._check_health(resource, held or set())
        needed = required - len(held or ())
        if needed == 0:
            return set()
        choice = _Choice(self._state, resource, needed)
        self._state.pending[resource] = choice.devices
        if choice.take(reusable):
            return choice.devices
        available = self._state.available(resource)
        if len(available) < choice.needed:
            raise DeviceError(
                f"requested number of devices unavailable for {resource}."
                f" Requested: {choice.needed}, Available: {len(available)}"
            )
        if await self._choose(choice, pod_uid, container, resource, required, available):
            return choice.devices
        raise DeviceError(
            "unexpectedly allocated less resources than required."
            f" Requested: {required}, Got: {required - choice.needed}"
        )

    def filter_by_affinity(
        self, pod_uid: str, container: str, resource: str, available: Collection[str]
    ) -> tuple[set[str], set[str], set[str]]:
        """Split the available devices into those on the container's NUMA nodes, on others, and on none."""
        wanted = self._affinity(pod_uid, container)
        if wanted is None or not self._state.has_topology(resource):
            return set(), set(), set(available)
        aligned: set[str] = set()
        unaligned: set[str] = set()
        without: set[str] = set()
        for device in available:
            nodes = self._state.numa_nodes(resource, device)
            if not nodes:
                without.add(device)
            elif any(node in wanted for node in nodes):
                aligned.add(device)
            else:
                unaligned.add(device)
        return aligned, unaligned, without

    def _check_health(self, resource: str, held: set[str]) -> None:
        healthy = self._state.healthy.get(resource)
        if healthy is None:
            raise DeviceError(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise DeviceError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not healthy >= held:
            raise DeviceError(
                "previously allocated devices are no longer healthy;"
                f" cannot allocate unhealthy devices {resource}"
            )

    async def _choose(
        self,
        choice: _Choice,
        pod_uid: str,
        container: str,
        resource: str,
        required: int,
        available: set[str],
    ) -> bool:
        aligned, unaligned, without = self.filter_by_affinity(pod_uid, container, resource, available)
        if choice.needed < len(aligned):
            preferred = await self._ask_preferred(
                resource, aligned | choice.devices, choice.devices, required
            )
            return choice.take(aligned.intersection(preferred)) or choice.take(aligned)
        if choice.take(aligned):
            return True
        preferred = await self._ask_preferred(resource, available | choice.devices, choice.devices, required)
        return (
            choice.take(available.intersection(preferred)) or choice.take(unaligned) or choice.take(without)
        )

    async def _ask_preferred(
        self, resource: str, available: set[str], must_include: set[str], size: int
    ) -> Sequence[str]:
        endpoint = self._state.endpoints.get(resource)
        if endpoint is None:
            raise DeviceError(f"endpoint not found in cache for a registered resource: {resource}")
        if endpoint.options is None or not endpoint.options.get_preferred_allocation_available:
            return ()
        try:
            answers = await endpoint.get_preferred_allocation(sorted(available), sorted(must_include), size)
        except DeviceError as error:
            raise DeviceError(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error
        return answers[0] if answers else ()
