"""The program `dralab-devices`: the devices of a container's claims, for programs that are scripts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx
from dra_shared.api.resource import Device
from dra_shared.api.resources import RESOURCE_SLICES
from dra_shared.client.errors import ApiError
from dra_shared.quantity import Quantity, QuantityError

from dra_node_agent.drivers.base import DriverNode
from dra_node_agent.drivers.profile.template import fill
from dra_node_agent.kubelet.dra.checkpoint import CheckpointDevice
from dra_node_agent.runtime.shell.options import Given, Syntax, declare
from dra_node_agent.runtime.shell.world import Process, Program

PreparedDevices = Callable[[Sequence[str]], Sequence[tuple[str, CheckpointDevice]]]
"""Returns the prepared devices, with their drivers, that some CDI ids inject."""

_DEFAULT = "{driver} {device}"
_UNKNOWN = "N/A"
_MEBI = 1 << 20


class _Values(dict[str, Any]):
    """The values of placeholders. A placeholder without a value is replaced by a marker, as in vendors' tools."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, _UNKNOWN)


class InjectedDevices:
    """The devices of the containers of one node.

    Args:
        prepared: the prepared devices that CDI ids inject. node: returns the node. Called only after its
        containers can run.
    """

    def __init__(self, prepared: PreparedDevices, node: Callable[[], DriverNode]) -> None:
        self._prepared = prepared
        self._node = node

    def programs(self, cdi_device_ids: Sequence[str]) -> Mapping[str, Program]:
        """Return `dralab-devices [-d DRIVER] [TEMPLATE]` for a container with these CDI devices."""

        @declare(Syntax(valued="d"))
        async def program(process: Process, given: Given) -> int:
            template = given.operands[0] if given.operands else _DEFAULT
            wanted = [
                (driver, device)
                for driver, device in self._prepared(cdi_device_ids)
                if given.value("d") in ("", driver)
            ]
            published = await self._read_devices([driver for driver, _ in wanted])
            for index, (driver, device) in enumerate(wanted):
                key = driver, device.pool_name, device.device_name
                values = _Values(index=index, **_values(*key, published.get(key)))
                process.out(f"{fill(template, values)}\n")
            return 0

        return {"dralab-devices": program}

    async def _read_devices(self, drivers: Sequence[str]) -> dict[tuple[str, str, str], Device]:
        """Return the devices that slices of the node publish. Empty if the API server does not answer."""
        node = self._node()
        if not drivers:
            return {}
        try:
            slices = await node.client.list(RESOURCE_SLICES, field_selector=f"spec.nodeName={node.name}")
        except (ApiError, httpx.HTTPError, OSError, TimeoutError):
            return {}
        return {
            (one.spec.driver, one.spec.pool.name, device.name): device
            for one in slices.items
            if one.spec.driver in drivers
            for device in one.spec.devices
        }


def _values(driver: str, pool: str, name: str, device: Device | None) -> dict[str, Any]:
    return {"driver": driver, "pool": pool, "device": name, **dict(_properties(driver, device))}


def _properties(driver: str, device: Device | None) -> Iterator[tuple[str, Any]]:
    """Yield attributes and capacities by their placeholders. The driver's own need no domain."""
    for name, attribute in (device.attributes if device is not None else {}).items():
        value = next(
            one
            for one in (attribute.string, attribute.int_, attribute.bool_, attribute.version, "")
            if one is not None
        )
        yield f"attribute.{name.removeprefix(f'{driver}/')}", value
    for name, capacity in (device.capacity if device is not None else {}).items():
        short = name.removeprefix(f"{driver}/")
        yield f"capacity.{short}", capacity.value
        try:
            yield f"capacityMi.{short}", Quantity.parse(capacity.value).value() // _MEBI
        except QuantityError:
            continue
