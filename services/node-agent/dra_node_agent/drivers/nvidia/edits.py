"""The contents of CDI files for NVIDIA devices (cmd/gpu-kubelet-plugin/cdi.go)."""

from dra_driverkit.cdi import ContainerEdits, DeviceNode, Hook, Mount

from dra_node_agent.drivers.nvidia.devices import MigLive, VfioGpu
from dra_node_agent.drivers.nvidia.host import CharDevice, Host

VENDOR = "k8s.gpu.nvidia.com"
CLASS = "claim"

_READ_ONLY_BIND = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_SHARED_BIND = ("rw", "nosuid", "nodev", "bind")


def common_edits(host: Host, driver_version: str) -> ContainerEdits:
    """Return the edits of every container with a GPU: control devices, the driver's files, and its hooks."""
    files = host.driver_files(driver_version)
    libraries = [(source, path) for source, path in files if path.endswith(driver_version)]
    links: list[str] = []
    for source, path in libraries:
        directory, _, name = path.rpartition("/")
        soname = host.soname(source)
        if name.startswith("libcuda.so."):
            links.append(f"libcuda.so.1::{directory}/libcuda.so")
        if soname is not None:
            links.append(f"{name}::{directory}/{soname}")
    hook = host.hook_path()
    hooks = []
    for _, path in libraries:
        directory, _, name = path.rpartition("/")
        if name.startswith("libnvidia-allocator.so."):
            gbm = f"../libnvidia-allocator.so.1::{directory}/gbm/nvidia-drm_gbm.so"
            hooks.append(_hook(hook, "create-symlinks", "--link", gbm))
    if links:
        hooks.append(_hook(hook, "create-symlinks", *(part for link in links for part in ("--link", link))))
    directories = sorted({path.rpartition("/")[0] for _, path in libraries})
    hooks.append(_hook(hook, "enable-cuda-compat", f"--host-driver-version={driver_version}"))
    hooks.append(_hook(hook, "update-ldcache", *(part for d in directories for part in ("--folder", d))))
    hooks.append(_hook(hook, "disable-device-node-modification"))
    return ContainerEdits(
        env=(f"NVIDIA_CTK_LIBCUDA_DIR={host.library_dir()}", "NVIDIA_VISIBLE_DEVICES=void"),
        device_nodes=tuple(_node(node) for node in host.control_nodes()),
        hooks=tuple(hooks),
        mounts=tuple(Mount(source, target, _READ_ONLY_BIND) for source, target in files),
    )


def gpu_edits(host: Host, minor: int) -> ContainerEdits:
    """Return the edits of a whole GPU."""
    return ContainerEdits(device_nodes=(_node(host.gpu_node(minor)),))


def mig_edits(host: Host, live: MigLive) -> ContainerEdits:
    """Return the edits of a MIG device: its parent's node, and the two capability nodes for this part of it."""
    instance = host.caps_node(live.parent_minor, live.gpu_instance)
    compute = host.caps_node(live.parent_minor, live.gpu_instance, live.compute_instance)
    return ContainerEdits(
        device_nodes=(_node(host.gpu_node(live.parent_minor)), _char(instance), _char(compute))
    )


def vfio_common_edits(*, api_device: bool, iommu_fd: bool) -> ContainerEdits:
    """Return the edits of every container with passthrough devices, which gets no driver."""
    nodes = (DeviceNode("/dev/iommu" if iommu_fd else "/dev/vfio/vfio"),) if api_device else ()
    return ContainerEdits(env=("NVIDIA_VISIBLE_DEVICES=void",), device_nodes=nodes)


def vfio_edits(device: VfioGpu, *, iommu_fd: bool) -> ContainerEdits:
    """Return the edits of a passthrough device: its iommufd character device or its IOMMU group."""
    path = f"/dev/vfio/devices/{device.iommu_fd}" if iommu_fd else f"/dev/vfio/{device.iommu_group}"
    return ContainerEdits(device_nodes=(DeviceNode(path),))


def mps_edits(pipe_directory: str, shm_directory: str) -> ContainerEdits:
    """Return the edits that connect a container to an MPS control daemon."""
    return ContainerEdits(
        env=("CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps",),
        mounts=(
            Mount(shm_directory, "/dev/shm", _SHARED_BIND),
            Mount(pipe_directory, "/tmp/nvidia-mps", _SHARED_BIND),
        ),
    )


def _node(device: CharDevice) -> DeviceNode:
    if not device.major:
        return DeviceNode(device.path)
    return DeviceNode(
        device.path, major=device.major, minor=device.minor, file_mode=device.mode, permissions="rwm"
    )


def _char(device: CharDevice) -> DeviceNode:
    return DeviceNode(device.path, type="c", major=device.major, minor=device.minor, file_mode=device.mode)


def _hook(path: str, name: str, *args: str) -> Hook:
    return Hook("createContainer", path, ("nvidia-cdi-hook", name, *args), ("NVIDIA_CTK_DEBUG=false",))
