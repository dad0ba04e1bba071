"""The devices that the driver publishes on each node: an IMEX channel, and the one that a domain's daemon has.

Claims get channel 0, whichever mode they ask for, so the others are not published (computeDomainPublishedDevices).
"""

from dra_driverkit.resources import DriverResources, Pool, PoolSlice
from dra_shared.api.resource import Device, DeviceAttribute

CHANNEL, DAEMON = "channel", "daemon"
#: How many channels a node has.
CHANNELS = 2048

#: The devices' types by their names.
TYPES = {f"{CHANNEL}-0": CHANNEL, f"{DAEMON}-0": DAEMON}


def resources(node_name: str, *, host_managed: bool) -> DriverResources:
    """What the node's driver publishes: no daemon's device where the machine has its own."""
    devices = tuple(
        Device(name=name, attributes={"type": DeviceAttribute(string=type_), "id": DeviceAttribute(int_=0)})
        for name, type_ in TYPES.items()
        if not (host_managed and type_ == DAEMON)
    )
    return DriverResources({node_name: Pool((PoolSlice(devices),))})
