"""Discovery of the GPUs and MIG devices of a node through pynvml (cmd/gpu-kubelet-plugin/nvlib.go)."""

import ctypes
import functools
import sys
import uuid
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pynvml
from dra_shared.log import logger

from dra_node_agent.drivers.nvidia import gates
from dra_node_agent.drivers.nvidia.devices import Allocatable, GiProfile, Gpu, MigDevice, MigLive, VfioGpu
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.host import Host, PciGpu, vfio_uuid
from dra_node_agent.nvml.profilename import mig_profile_name

_ARCHITECTURES = {
    pynvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
    pynvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
    pynvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
    pynvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
    pynvml.NVML_DEVICE_ARCH_TURING: "Turing",
    pynvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    pynvml.NVML_DEVICE_ARCH_ADA: "Ada Lovelace",
    pynvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    pynvml.NVML_DEVICE_ARCH_BLACKWELL: "Blackwell",
}
_BRANDS = {
    pynvml.NVML_BRAND_QUADRO: "Quadro",
    pynvml.NVML_BRAND_TESLA: "Tesla",
    pynvml.NVML_BRAND_NVS: "NVS",
    pynvml.NVML_BRAND_GRID: "Grid",
    pynvml.NVML_BRAND_GEFORCE: "GeForce",
    pynvml.NVML_BRAND_TITAN: "Titan",
    pynvml.NVML_BRAND_NVIDIA_VAPPS: "NvidiaVApps",
    pynvml.NVML_BRAND_NVIDIA_VPC: "NvidiaVPC",
    pynvml.NVML_BRAND_NVIDIA_VCS: "NvidiaVCS",
    pynvml.NVML_BRAND_NVIDIA_VWS: "NvidiaVWS",
    pynvml.NVML_BRAND_NVIDIA_CLOUD_GAMING: "NvidiaCloudGaming",
    pynvml.NVML_BRAND_QUADRO_RTX: "QuadroRTX",
    pynvml.NVML_BRAND_NVIDIA_RTX: "NvidiaRTX",
    pynvml.NVML_BRAND_NVIDIA: "Nvidia",
    pynvml.NVML_BRAND_GEFORCE_RTX: "GeForceRTX",
    pynvml.NVML_BRAND_TITAN_RTX: "TitanRTX",
}
_ADDRESSING = {
    pynvml.NVML_DEVICE_ADDRESSING_MODE_NONE: "None",
    pynvml.NVML_DEVICE_ADDRESSING_MODE_HMM: "HMM",
    pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS: "ATS",
}
_COMPUTE_SLOTS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}

_log = logger(__name__)

# The devices of a node by the PCI address of their GPU, then by name.
PerGpu = dict[str, dict[str, Allocatable]]
Profiles = tuple[GiProfile, ...]


class DiscoveryError(Exception):
    """NVML did not return a required value. The message names the GPU and the value."""


class DeviceLibrary:
    """The node's GPUs through NVML: discovery, and creation and deletion of MIG devices."""

    def __init__(self, host: Host, feature_gates: NvidiaGates) -> None:
        self.host = host
        self._gates = feature_gates
        self._gpus: dict[str, Gpu] = {}

    def enumerate(self) -> PerGpu:
        """Return all devices that could be allocated on this node.

        Raises:
            DiscoveryError: NVML failed.
        """
        found: PerGpu = {}
        for gpu in self.gpus():
            self._gpus[gpu.uuid] = gpu
            found[gpu.pci_bus_id] = {device.name: device for device in self._devices_of(gpu)}
        if self._gates.is_enabled(gates.PASSTHROUGH):
            for index, pci in enumerate(self.host.pci_gpus()):
                siblings = found.setdefault(pci.address, {})
                parent = next((d for d in siblings.values() if isinstance(d, Gpu)), None)
                if parent is None and siblings:
                    continue
                vfio = self.vfio(index, pci)
                siblings[vfio.name] = vfio
        return found

    def gpus(self) -> list[Gpu]:
        """Return the GPUs that NVML lists, by index. Raises DiscoveryError."""
        with self._nvml():
            equal = self.host.equal_gpus()
            if equal is not None:
                return [_copy(gpu, _uuid(pynvml.nvmlDeviceGetHandleByIndex(gpu.index))) for gpu in equal]
            # GPUs of one product in one mode have the same profiles, so NVML is asked only once for them.
            profiles: dict[Hashable, Profiles] = {}
            found = [self._gpu(index, profiles) for index in range(pynvml.nvmlDeviceGetCount())]
        self.host.note_gpus([_copy(gpu, gpu.uuid) for gpu in found])
        return found

    def clique(self) -> str | None:
        """Return the NVLink domain of all GPUs, ``CLUSTER-UUID.CLIQUE``, or None if it has no other machines.

        Raises:
            DiscoveryError: NVML failed.
        """
        with self._nvml():
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            places = {place for handle in handles if (place := _fabric(handle)) is not None}
        return places.pop() if len(places) == 1 else None

    def driver_version(self) -> str:
        """Return the version of the kernel driver. Raises DiscoveryError."""
        with self._nvml():
            return _text(pynvml.nvmlSystemGetDriverVersion())

    def has_mig_capable(self) -> bool:
        return any(gpu.mig_capable for gpu in self._gpus.values())

    def find_gpu(self, uuid: str) -> Gpu | None:
        """Return the GPU with that UUID from the last enumeration, or None."""
        return self._gpus.get(uuid)

    def _devices_of(self, gpu: Gpu) -> Iterator[Allocatable]:
        if self._gates.is_enabled(gates.DYNAMIC_MIG):
            if gpu.dynamic_mig_capable:
                specs = possible_mig_devices(gpu)
                # If MIG mode cannot be switched without a reset, a GPU in MIG mode cannot be used as a whole.
                if not gpu.mig_enabled or gpu.toggles_mig:
                    yield gpu
                yield from specs
                return
            _log.info(
                "no dynamic MIG on this GPU", gpu=gpu.name, capable=gpu.mig_capable, enabled=gpu.mig_enabled
            )
        if not gpu.mig_enabled:
            gpu.vfio_enabled = self._gates.is_enabled(gates.PASSTHROUGH)
            yield gpu
            return
        devices = self.mig_devices(gpu)
        if not devices:
            _log.warning("MIG mode is on but no MIG devices are made: the GPU cannot be used", gpu=gpu.name)
        yield from devices

    def vfio(self, index: int, pci: PciGpu) -> VfioGpu:
        """Return the passthrough device for a GPU on the PCI bus."""
        return VfioGpu(
            uuid=vfio_uuid(pci.address),
            index=index,
            product_name=pci.name,
            pci_bus_id=pci.address,
            pcie_root=self.host.pcie_root(pci.address),
            numa_node=pci.numa_node,
            device_id=f"0x{pci.device_id:04x}",
            vendor_id=f"0x{pci.vendor_id:04x}",
            iommu_group=pci.iommu_group,
            iommu_fd_enabled=self.host.iommu_fd_enabled(),
            iommu_fd=pci.iommu_fd,
            addressable_memory_bytes=pci.addressable_memory_bytes,
        )

    def mig_devices(self, gpu: Gpu) -> list[MigDevice]:
        """Return the MIG devices that exist on ``gpu``. Raises DiscoveryError."""
        with self._nvml():
            handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            try:
                enabled = bool(pynvml.nvmlDeviceGetMigMode(handle)[0])
            except pynvml.NVMLError_NotSupported:
                enabled = False
            return [self._mig_device(gpu, handle, mig) for mig in _mig_handles(handle)] if enabled else []

    def _mig_device(self, gpu: Gpu, handle: Any, mig: Any) -> MigDevice:
        gi_id = pynvml.nvmlDeviceGetGpuInstanceId(mig)
        info = pynvml.nvmlGpuInstanceGetInfo(pynvml.nvmlDeviceGetGpuInstanceById(handle, gi_id))
        live = MigLive(
            parent_minor=gpu.minor,
            parent_uuid=gpu.uuid,
            gpu_instance=gi_id,
            compute_instance=pynvml.nvmlDeviceGetComputeInstanceId(mig),
            uuid=_text(pynvml.nvmlDeviceGetUUID(mig)),
        )
        profile = next((p for p in gpu.profiles if p.id == info.profileId), None)
        if profile is None:
            raise DiscoveryError(f"error getting profile info for MIG device: {live.uuid}")
        size = info.placement.size
        return MigDevice(gpu, profile, _profile_name(gpu, profile), info.placement.start, size, live)

    def create_mig_device(self, wanted: MigDevice) -> MigLive:
        """Create a MIG device on its parent. Switch MIG mode on first if that needs no reset.

        Raises:
            DiscoveryError: NVML refused, for example because the slices are occupied.
        """
        gpu = wanted.parent
        with self._nvml():
            handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            if not pynvml.nvmlDeviceGetMigMode(handle)[0]:
                try:
                    pynvml.nvmlDeviceSetMigMode(handle, pynvml.NVML_DEVICE_MIG_ENABLE)
                except pynvml.NVMLError as error:
                    raise DiscoveryError(
                        f"error enabling MIG mode for device {gpu.name}-{gpu.uuid}: {error}"
                    ) from error
            placement = pynvml.c_nvmlGpuInstancePlacement_t(wanted.start, wanted.size)
            try:
                instance = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(
                    handle, wanted.profile.id, ctypes.byref(placement)
                )
            except pynvml.NVMLError as error:
                raise DiscoveryError(f"error creating GPU instance for '{wanted.name}': {error}") from error
            slot = _COMPUTE_SLOTS[wanted.profile.slices]
            compute_profile = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, slot, 0)
            try:
                compute = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, compute_profile.id)
            except pynvml.NVMLError as error:
                raise DiscoveryError(
                    f"error creating Compute instance for '{wanted.profile_name}': {error}"
                ) from error
            made = pynvml.nvmlComputeInstanceGetInfo(compute)
            return MigLive(
                parent_minor=gpu.minor,
                parent_uuid=gpu.uuid,
                gpu_instance=pynvml.nvmlGpuInstanceGetInfo(instance).id,
                compute_instance=made.id,
                uuid=_text(pynvml.nvmlDeviceGetUUID(made.device)),
            )

    def delete_mig_device(self, live: MigLive) -> None:
        """Delete a MIG device or what is left of it. Switch MIG mode off after the last one if that needs no reset.

        Raises:
            DiscoveryError: NVML refused, for example because a process uses it.
        """
        with self._nvml():
            handle = pynvml.nvmlDeviceGetHandleByUUID(live.parent_uuid)
            try:
                instance = pynvml.nvmlDeviceGetGpuInstanceById(handle, live.gpu_instance)
            except pynvml.NVMLError_NotSupported:
                return
            except pynvml.NVMLError_NotFound:
                self._maybe_disable_mig(live.parent_uuid, handle)
                return
            try:
                compute = pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, live.compute_instance)
            except pynvml.NVMLError_NotFound:
                compute = None
            if compute is not None:
                try:
                    pynvml.nvmlComputeInstanceDestroy(compute)
                except pynvml.NVMLError as error:
                    raise DiscoveryError(f"error destroying Compute instance: {error}") from error
            try:
                pynvml.nvmlGpuInstanceDestroy(instance)
            except pynvml.NVMLError as error:
                raise DiscoveryError(f"error destroying GPU Instance: {error}") from error
            self._maybe_disable_mig(live.parent_uuid, handle)

    def _maybe_disable_mig(self, uuid: str, handle: Any) -> None:
        gpu = self._gpus[uuid]
        if not gpu.toggles_mig or self.mig_devices(gpu) or not pynvml.nvmlDeviceGetMigMode(handle)[0]:
            return
        try:
            pynvml.nvmlDeviceSetMigMode(handle, pynvml.NVML_DEVICE_MIG_DISABLE)
        except pynvml.NVMLError as error:
            raise DiscoveryError(f"error disabling MIG mode for device {gpu.name}-{uuid}: {error}") from error

    def disable_idle_mig(self) -> None:
        """Switch MIG mode off on every GPU without MIG devices if that needs no reset."""
        with self._nvml():
            for uuid in self._gpus:
                self._maybe_disable_mig(uuid, pynvml.nvmlDeviceGetHandleByUUID(uuid))

    def set_compute_mode(self, uuids: list[str], mode: int) -> None:
        """Set the compute mode (0 default, 3 exclusive process). Raises DiscoveryError."""
        with self._nvml():
            for uuid in uuids:
                gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                # Setting the mode requires root, even if it does not change.
                if pynvml.nvmlDeviceGetComputeMode(gpu) != mode:
                    pynvml.nvmlDeviceSetComputeMode(gpu, mode)

    def set_time_slice(self, uuids: list[str], interval: int) -> None:
        """Set the time slice. Raises DiscoveryError."""
        with self._nvml():
            for uuid in uuids:
                self.host.nvml.set_time_slice(uuid, interval)

    def _gpu(self, index: int, known: dict[Hashable, Profiles]) -> Gpu:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _uuid(handle)
        try:
            current, _ = pynvml.nvmlDeviceGetMigMode(handle)
            capable = True
        except pynvml.NVMLError_NotSupported:
            current, capable = 0, False
        try:
            memory: int | None = pynvml.nvmlDeviceGetMemoryInfo(handle).total
        except pynvml.NVMLError_NotSupported:
            memory = None
        cuda = pynvml.nvmlSystemGetCudaDriverVersion()
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        architecture = pynvml.nvmlDeviceGetArchitecture(handle)
        pci = pynvml.nvmlDeviceGetPciInfo(handle)
        bus = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
        product = _text(pynvml.nvmlDeviceGetName(handle))
        kind = (product, pci.pciDeviceId, memory, current)
        if capable and kind not in known:
            known[kind] = _intern(tuple(_profiles(handle)))
        return Gpu(
            uuid=uuid,
            minor=pynvml.nvmlDeviceGetMinorNumber(handle),
            index=index,
            mig_capable=capable,
            mig_enabled=bool(current),
            toggles_mig=architecture >= pynvml.NVML_DEVICE_ARCH_HOPPER,
            virtual=_is_virtual(handle),
            memory_bytes=memory,
            product_name=product,
            brand=_BRANDS.get(pynvml.nvmlDeviceGetBrand(handle), "Unknown"),
            architecture=_ARCHITECTURES.get(architecture, "Unknown"),
            cuda_compute_capability=f"{major}.{minor}",
            driver_version=_text(pynvml.nvmlSystemGetDriverVersion()),
            cuda_driver_version=f"{cuda // 1000}.{cuda % 1000 // 10}",
            pci_bus_id=bus,
            pcie_root=self.host.pcie_root(bus),
            numa_node=self.host.numa_node(bus),
            addressing_mode=_addressing_mode(handle),
            profiles=known.get(kind, ()),
        )

    @contextmanager
    def _nvml(self) -> Iterator[None]:
        try:
            with self.host.nvml.active():
                yield
        except pynvml.NVMLError as error:
            raise DiscoveryError(f"NVML: {error}") from error


def possible_mig_devices(gpu: Gpu) -> list[MigDevice]:
    """Return every profile at every placement of ``gpu``. Store the maximum of each capacity in the GPU."""
    found = []
    for profile in gpu.profiles:
        for start, size in profile.placements:
            found.append(MigDevice(gpu, profile, _profile_name(gpu, profile), start, size))
            gpu.memory_slices = max(gpu.memory_slices, size)
        for name, value in profile.capacity().items():
            gpu.max_capacity[name] = max(value, gpu.max_capacity.get(name, value))
    return found


def _profiles(handle: Any) -> Iterator[GiProfile]:
    for slot in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, slot, version=1)
            count = ctypes.c_uint()
            pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, info.id, None, ctypes.byref(count))
            places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
            pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, info.id, places, ctypes.byref(count))
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            continue
        yield GiProfile(
            slot=slot,
            id=info.id,
            slices=info.sliceCount,
            memory_mib=info.memorySizeMB,
            multiprocessors=info.multiprocessorCount,
            copy_engines=info.copyEngineCount,
            decoders=info.decoderCount,
            encoders=info.encoderCount,
            jpeg_engines=info.jpegCount,
            ofa_engines=info.ofaCount,
            placements=tuple((place.start, place.size) for place in places[: count.value]),
        )


@functools.lru_cache(maxsize=64)
def _intern(profiles: Profiles) -> Profiles:
    """Return one shared object for all GPUs that have the same profiles."""
    return profiles


def _copy(gpu: Gpu, uuid: str) -> Gpu:
    """Return a copy of the GPU with another UUID, without the values that were stored later."""
    return replace(gpu, uuid=uuid, max_capacity={})


def _uuid(handle: Any) -> str:
    return sys.intern(_text(pynvml.nvmlDeviceGetUUID(handle)))


def _profile_name(gpu: Gpu, profile: GiProfile) -> str:
    total = gpu.memory_bytes or profile.memory_mib * 1024 * 1024
    return mig_profile_name(profile.slot, profile.slices, profile.slices, profile.memory_mib, total)


def _mig_handles(handle: Any) -> Iterator[Any]:
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except (pynvml.NVMLError_NotFound, pynvml.NVMLError_InvalidArgument):
            continue


def _is_virtual(handle: Any) -> bool:
    try:
        return bool(
            pynvml.nvmlDeviceGetVirtualizationMode(handle) == pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU
        )
    except pynvml.NVMLError_NotSupported:
        return False


def _fabric(handle: Any) -> str | None:
    """Return the GPU's cluster and clique if it is attached to a fabric (go-nvlib's ``IsFabricAttached``)."""
    info = pynvml.c_nvmlGpuFabricInfo_t()
    try:
        pynvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None
    cluster = uuid.UUID(bytes=bytes(info.clusterUuid))
    completed = info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and info.status == pynvml.NVML_SUCCESS
    return f"{cluster}.{info.cliqueId}" if completed and cluster.int else None


def _addressing_mode(handle: Any) -> str | None:
    try:
        return _ADDRESSING.get(pynvml.nvmlDeviceGetAddressingMode(handle))
    except pynvml.NVMLError:
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
