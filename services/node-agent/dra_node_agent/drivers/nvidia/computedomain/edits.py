"""The CDI edits of channels and daemons (cmd/compute-domain-kubelet-plugin/cdi.go)."""

from pathlib import Path

from dra_driverkit.cdi import CdiDevice, ContainerEdits, DeviceNode, Mount, Spec, transient_name, write_spec

from dra_node_agent.drivers.nvidia import edits
from dra_node_agent.drivers.nvidia.computedomain import DRIVER_NAME
from dra_node_agent.drivers.nvidia.computedomain.api import ComputeDomain
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.host import CharDevice, Host

VENDOR = f"k8s.{DRIVER_NAME}"
CLASS = "claim"
# The CDI device that gives the domain's daemons all GPUs.
DEVICE_CLASS, ALL_DEVICES = "device", "all"

_SHARED_BIND = ("rw", "nosuid", "nodev", "bind")


def channel_edits(host: Host, count: int) -> ContainerEdits:
    """Return the first ``count`` IMEX channels. Raises OSError if the machine has none."""
    return ContainerEdits(device_nodes=tuple(_node(host.imex_channel(number)) for number in range(count)))


def daemon_edits(domain: ComputeDomain, clique: str, directory: Path) -> ContainerEdits:
    """Return the edits of every daemon of a domain. ``directory`` is the domain's on this node."""
    return ContainerEdits(
        env=(
            f"CLIQUE_ID={clique}",
            f"COMPUTE_DOMAIN_UUID={domain.metadata.uid}",
            f"COMPUTE_DOMAIN_NAME={domain.metadata.name}",
            f"COMPUTE_DOMAIN_NAMESPACE={domain.metadata.namespace}",
        ),
        mounts=(Mount(str(directory), "/imexd", _SHARED_BIND),),
    )


def management_edits(host: Host) -> ContainerEdits:
    """Return the edits that open the fabric to an IMEX daemon. Raises OSError if the machine has none."""
    return ContainerEdits(device_nodes=(_node(host.imex_management()),))


def write_base_spec(directory: Path, library: DeviceLibrary) -> None:
    """Write the CDI file of all GPUs.

    Raises:
        DiscoveryError: NVML failed.
        OSError: it cannot be written.
    """
    host = library.host
    common = edits.common_edits(host, library.driver_version())
    gpus = ContainerEdits()
    for gpu in library.gpus():
        gpus = gpus.merge(edits.gpu_edits(host, gpu.minor))
    spec = Spec(
        f"{VENDOR}/{DEVICE_CLASS}",
        (CdiDevice(ALL_DEVICES, container_edits=gpus),),
        container_edits=common,
    )
    write_spec(directory, transient_name(VENDOR, DEVICE_CLASS, "base"), spec)


def _node(device: CharDevice) -> DeviceNode:
    return DeviceNode(
        device.path,
        type="c",
        major=device.major,
        minor=device.minor,
        file_mode=device.mode,
    )
