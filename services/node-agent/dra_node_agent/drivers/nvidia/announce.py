"""The node's devices as ResourceSlices: attributes, capacity, counters (cmd/gpu-kubelet-plugin/deviceinfo.go)."""

import functools
import re
from collections.abc import Mapping

from dra_driverkit.claims import DeviceMetadata
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.resources import DriverResources, Pool, PoolSlice
from dra_shared.api.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceTaint,
)
from dra_shared.quantity import Format, Quantity

from dra_node_agent.drivers.nvidia import gates
from dra_node_agent.drivers.nvidia.devices import Allocatable, Gpu, MigDevice, VfioGpu, kebab
from dra_node_agent.drivers.nvidia.discovery import PerGpu
from dra_node_agent.drivers.nvidia.fabricmanager import NO_PARTITIONS, FabricPartitions
from dra_node_agent.drivers.nvidia.gates import NvidiaGates

_MIB = 1024 * 1024
_MODES = ("memory", "unlimited")
# A number that fits into a quantity, and into an int of Go.
_NUMBER = re.compile(r"\+?[0-9]{1,18}")


class Announcer:
    """Converts devices to their form in ResourceSlices.

    Args:
        shares: ``unlimited``, ``memory`` or a number of shares, all of which need a feature gate; otherwise
        empty or ``disabled``. fabric: the partitions of the GPUs' NVLink switches.

    Raises:
        DriverConfigError: ``shares`` is none of these, or its gate is off.
    """

    def __init__(
        self,
        feature_gates: NvidiaGates,
        shares: str = "",
        fabric: FabricPartitions = NO_PARTITIONS,
    ) -> None:
        self._gates = feature_gates
        self._fabric = fabric
        self._shares = _shares(shares)
        if self._shares and not feature_gates.is_enabled(gates.CONSUMABLE_SHARES):
            raise DriverConfigError(
                f"--consumable-shares requires feature gate {gates.CONSUMABLE_SHARES} to be enabled"
            )

    @property
    def is_shared(self) -> bool:
        """True if several claims may use a GPU or MIG device at the same time."""
        return bool(self._shares)

    def resources(
        self, pool: str, per_gpu: PerGpu, taints: Mapping[str, tuple[DeviceTaint, ...]], partitioned: bool
    ) -> DriverResources:
        """Return the resources to publish.

        Args:
            pool: the node's name.
            taints: by device name.
            partitioned: GPUs and the MIG devices they could have, tied by counters; one slice a GPU.
        """
        if not partitioned:
            devices = [device for _, found in sorted(per_gpu.items()) for _, device in sorted(found.items())]
            return DriverResources(
                {pool: Pool((PoolSlice(tuple(self._device(d, taints, False) for d in devices)),))}
            )
        slices: list[PoolSlice] = []
        counters: list[CounterSet] = []
        for _, found in sorted(per_gpu.items()):
            devices = [device for _, device in sorted(found.items())]
            counters += _counter_sets(devices)
            slices.append(PoolSlice(tuple(self._device(d, taints, True) for d in devices)))
        slices.insert(0, PoolSlice(shared_counters=tuple(counters)))
        return DriverResources({pool: Pool(tuple(slices))})

    def metadata(self, device: Allocatable) -> DeviceMetadata | None:
        """Return the metadata of the device for containers. Only devices for virtual machines have metadata."""
        return DeviceMetadata(self._vfio_attributes(device)) if isinstance(device, VfioGpu) else None

    def _device(
        self, device: Allocatable, taints: Mapping[str, tuple[DeviceTaint, ...]], partitioned: bool
    ) -> Device:
        if isinstance(device, Gpu):
            attributes, capacity = self._gpu_attributes(device), _gpu_capacity(device, partitioned)
        elif isinstance(device, VfioGpu):
            attributes = self._vfio_attributes(device)
            capacity = {"addressableMemory": _capacity(device.addressable_memory_bytes)}
        else:
            attributes, capacity = self._mig_attributes(device), _mig_capacity(device, partitioned)
        shared = bool(self._shares) and not isinstance(device, VfioGpu)
        if shared:
            capacity = self._shared_capacity(capacity)
        return Device(
            name=device.name,
            attributes=attributes,
            capacity=capacity,
            consumes_counters=_consumption(device) if partitioned else (),
            allow_multiple_allocations=True if shared else None,
            taints=taints.get(device.name, ()),
        )

    def _gpu_attributes(self, gpu: Gpu) -> dict[str, DeviceAttribute]:
        return {
            "type": _string("gpu"),
            "uuid": _string(gpu.uuid),
            **_common_attributes(gpu),
            **self._bus_attributes(gpu.pci_bus_id, gpu.pcie_root, gpu.numa_node),
            **self._fabric.attributes(gpu.pci_bus_id),
        }

    def _mig_attributes(self, mig: MigDevice) -> dict[str, DeviceAttribute]:
        gpu = mig.parent
        attributes = {
            "type": _string("mig"),
            "parentUUID": _string(gpu.uuid),
            "profile": _string(mig.profile_name),
            **_common_attributes(gpu),
            **self._bus_attributes(gpu.pci_bus_id, gpu.pcie_root, gpu.numa_node),
        }
        if mig.live is not None:
            attributes["uuid"] = _string(mig.live.uuid)
        return attributes

    def _vfio_attributes(self, vfio: VfioGpu) -> dict[str, DeviceAttribute]:
        return {
            "type": _string("vfio"),
            "uuid": _string(vfio.uuid),
            "deviceID": _string(vfio.device_id),
            "vendorID": _string(vfio.vendor_id),
            "productName": _string(vfio.product_name),
            "iommuFDEnabled": DeviceAttribute(bool_=vfio.iommu_fd_enabled),
            **self._bus_attributes(vfio.pci_bus_id, vfio.pcie_root, vfio.numa_node),
            **self._fabric.attributes(vfio.pci_bus_id),
        }

    def _bus_attributes(self, bus_id: str, root: str | None, numa: int) -> dict[str, DeviceAttribute]:
        attributes = {"resource.kubernetes.io/pciBusID": _string(bus_id)}
        if root is not None:
            attributes["resource.kubernetes.io/pcieRoot"] = _string(root)
        if numa >= 0:
            lists = self._gates.is_enabled(gates.LIST_ATTRIBUTES)
            attributes["resource.kubernetes.io/numaNode"] = (
                DeviceAttribute(ints=(numa,)) if lists else DeviceAttribute(int_=numa)
            )
        return attributes

    def _shared_capacity(self, capacity: dict[str, DeviceCapacity]) -> dict[str, DeviceCapacity]:
        memory = capacity.get("memory")
        if memory is None:
            return capacity
        # The API requires the maximum and the default to be multiples of the step.
        most = Quantity.parse(memory.value).value() // _MIB * _MIB
        whole = self._shares == "memory"
        policy = _policy(default=most if whole else 0, minimum=_MIB if whole else 0, maximum=most, step=_MIB)
        capacity = capacity | {"memory": DeviceCapacity(value=_quantity(most), request_policy=policy)}
        if self._shares not in _MODES:
            count = int(self._shares)
            policy = _policy(default=1, minimum=1, maximum=count, step=1)
            capacity["shares"] = DeviceCapacity(value=_quantity(count), request_policy=policy)
        return capacity


def _shares(option: str) -> str:
    """Return the mode or the number of shares. Empty if devices are not shared."""
    option = option.strip()
    if option in ("", "disabled"):
        return ""
    if option in _MODES or (_NUMBER.fullmatch(option) and int(option) > 0):
        return option
    raise DriverConfigError(
        f'invalid value for --consumable-shares: "{option}" '
        "(must be 'disabled', 'memory', 'unlimited', or a positive integer)"
    )


def _common_attributes(gpu: Gpu) -> dict[str, DeviceAttribute]:
    attributes = {
        "productName": _string(gpu.product_name),
        "brand": _string(gpu.brand),
        "architecture": _string(gpu.architecture),
        "cudaComputeCapability": _version(gpu.cuda_compute_capability),
        "driverVersion": _version(gpu.driver_version),
        "cudaDriverVersion": _version(gpu.cuda_driver_version),
    }
    if gpu.addressing_mode is not None:
        attributes["addressingMode"] = _string(gpu.addressing_mode)
    return attributes


def _gpu_capacity(gpu: Gpu, partitioned: bool) -> dict[str, DeviceCapacity]:
    if partitioned and gpu.max_capacity:
        return {name: _capacity(value) for name, value in gpu.max_capacity.items()}
    return {} if gpu.memory_bytes is None else {"memory": _capacity(gpu.memory_bytes)}


def _mig_capacity(mig: MigDevice, partitioned: bool) -> dict[str, DeviceCapacity]:
    capacity = {name: _capacity(value) for name, value in mig.profile.capacity().items()}
    if not partitioned:
        for place in range(mig.start, mig.start + mig.size):
            capacity[f"memorySlice{place}"] = _capacity(1)
    return capacity


def _counter_sets(devices: list[Allocatable]) -> list[CounterSet]:
    """Return the GPU's counter set. Its MIG devices need it even if the GPU itself is not published."""
    for device in devices:
        gpu = device if isinstance(device, Gpu) else device.parent if isinstance(device, MigDevice) else None
        if gpu is not None and gpu.max_capacity:
            counters = _counters(gpu.max_capacity, range(gpu.memory_slices))
            return [CounterSet(name=gpu.counter_set, counters=counters)]
    return []


def _consumption(device: Allocatable) -> tuple[DeviceCounterConsumption, ...]:
    if isinstance(device, MigDevice):
        slices = range(device.start, device.start + device.size)
        counters = _counters(device.profile.capacity(), slices)
        return (DeviceCounterConsumption(counter_set=device.parent.counter_set, counters=counters),)
    if isinstance(device, Gpu) and device.max_capacity:
        counters = _counters(device.max_capacity, range(device.memory_slices))
        return (DeviceCounterConsumption(counter_set=device.counter_set, counters=counters),)
    return ()


def _counters(capacity: dict[str, int], slices: range) -> dict[str, Counter]:
    counters = {kebab(name): Counter(value=_quantity(value)) for name, value in capacity.items()}
    return counters | {f"memory-slice-{place}": Counter(value="1") for place in slices}


def _policy(*, default: int, minimum: int, maximum: int, step: int) -> CapacityRequestPolicy:
    return CapacityRequestPolicy(
        default=_quantity(default),
        valid_range=CapacityRequestPolicyRange(
            min=_quantity(minimum), max=_quantity(maximum), step=_quantity(step)
        ),
    )


@functools.lru_cache(maxsize=4096)
def _capacity(value: int) -> DeviceCapacity:
    return DeviceCapacity(value=_quantity(value))


def _quantity(value: int) -> str:
    return str(Quantity(value, format=Format.BINARY_SI))


@functools.lru_cache(maxsize=4096)
def _string(value: str) -> DeviceAttribute:
    return DeviceAttribute(string=value)


@functools.lru_cache(maxsize=256)
def _version(text: str) -> DeviceAttribute:
    """Return a version attribute in semver form: at least three numbers, without leading zeros."""
    parts = [str(int(part)) for part in text.split(".")]
    return DeviceAttribute(version=".".join([*parts, "0", "0"][: max(3, len(parts))]))
