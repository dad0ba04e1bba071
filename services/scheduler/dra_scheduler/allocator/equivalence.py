"""Device equivalence: find devices that are interchangeable, so that only one of them has to be tried.

Upstream tries every device. If picking a device leads to no solution, :mod:`.search` does not try the devices
that are equivalent to it.
"""

from collections.abc import Hashable, Iterable, Sequence

from dra_scheduler.allocator.compatibility import groups_of
from dra_scheduler.allocator.constraints import lookup_attribute
from dra_scheduler.allocator.derived import attribute_for
from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.picks import Picks
from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.requests import Request
from dra_scheduler.allocator.state import AllocatedState


class DeviceEquivalence:
    """Compute a key for each device. The allocator accepts a device if and only if it accepts any other with that key.

    If a request with allocation mode All includes a device, the device's key is unique. Such a request tries
    its devices in order, and the order decides which error is returned.
    """

    def __init__(
        self,
        features: Features,
        state: AllocatedState,
        picks: Picks,
        requests: Sequence[Request],
        wanted_by_all: Iterable[PoolDevice],
    ) -> None:
        self._features = features
        self._state = state
        self._attributes = picks.constraint_names()
        self._picks = picks
        self._selections = tuple({request.selection: None for request in requests})
        # The CEL expressions of the requests' derived attributes, with the attribute names under which
        # constraints use them.
        self._derived = tuple({item: None for request in requests for item in request.derived.items()})
        self._unique = frozenset(wanted_by_all)
        self._keys: dict[PoolDevice, Hashable] = {}

    def lasting_key(self, device: PoolDevice, pool: Pool) -> Hashable:
        """Return the part of the key that is constant during the attempt."""
        key = self._keys.get(device)
        if key is None:
            key = self._keys[device] = device if device in self._unique else self._look(device, pool)
        return key

    def current_key(self, device: PoolDevice, pool: Pool) -> Hashable:
        """Return the full key, including the changes that the attempt made to the device."""
        return self.lasting_key(device, pool), self._picks.condition(device)

    def _look(self, device: PoolDevice, pool: Pool) -> Hashable:
        spec = device.spec
        if device.slice.spec.per_device_node_selection:
            return device
        verdicts = []
        for selection in self._selections:
            rejection = selection.rejection(device)
            verdicts.append(
                None if rejection is None else (rejection.of_class, rejection.index, rejection.error)
            )
        capacity: Hashable = None
        if self._features.consumable_capacity:
            used = self._state.consumed.get(device.id)
            capacity = (
                device.allow_multiple,
                frozenset(spec.capacity.items()),
                None if used is None else frozenset(used.items()),
            )
        return (
            tuple(verdicts),
            tuple(lookup_attribute(device, name) for name in self._attributes),
            spec.taints if self._features.device_taints else (),
            bool(self._features.device_binding or not spec.binding_conditions),
            tuple(self._derived_value(device, name, expression) for name, expression in self._derived),
            (pool.id, device.counters, groups_of(device)) if spec.consumes_counters else None,
            device.slice.spec.skip_node_operations != (),
            device.id in self._state.dedicated,
            device.id in self._state.shared,
            capacity,
        )

    def _derived_value(self, device: PoolDevice, name: str, expression: str) -> Hashable:
        try:
            return attribute_for({name: expression}, device, name, self._features.kubernetes)
        except AllocationError as error:
            return str(error)
