"""Convert devices of device plugins to CDI edits, so that runtimes bring both into a container in one way."""

from dra_driverkit.cdi import ContainerEdits, DeviceNode, Mount

from dra_node_agent.runtime.base import PluginDevices


def device_edits(devices: PluginDevices) -> ContainerEdits:
    """Return the edits of a container that has the devices."""
    return ContainerEdits(
        device_nodes=tuple(
            DeviceNode(path=node.target, host_path=node.source, permissions=node.permissions)
            for node in devices.nodes
        ),
        mounts=tuple(
            Mount(
                host_path=mount.source,
                container_path=mount.target,
                options=("ro" if mount.read_only else "rw", "rbind"),
            )
            for mount in devices.mounts
        ),
    )
