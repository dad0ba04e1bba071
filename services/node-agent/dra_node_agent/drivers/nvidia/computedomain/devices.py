"""The devices that the driver publishes on each node: an IMEX channel, and the device of a domain's daemon.

Claims get channel 0 in either mode, so the others are not published (computeDomainPublishedDevices).
"""

from dra_driverkit.resources import DriverResources, Pool, PoolSlice
from dra_shared.api.resource import Device, DeviceAttribute

CHANNEL, DAEMON = "channel", "daemon"
# The number of channels of a node.
CHANNELS = 2048

# The types of the devices by name.
TYPES = {f"{CHANNEL}-0": CHANNEL, f"{DAEMON}-0": DAEMON}


def resources(node_name: str, *, host_managed: bool) -> DriverResources:
    """Return the resources of a node. Without a daemon device if the machine runs its own IMEX daemon."""
    devices = tuple(
        Device(name=name, attributes={"type": DeviceAttribute(string=type_), "id": DeviceAttribute(int_=0)})
        for name, type_ in TYPES.items()
        if not (host_managed and type_ == DAEMON)
    )
    return DriverResources({node_name: Pool((PoolSlice(devices),))})
