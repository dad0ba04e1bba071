"""The state of one node's simulated GPUs: MIG instances, processes, load and faults."""

import hashlib
import sys
import threading
import uuid
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from dra_node_agent.nvml.fabric import FabricMember
from dra_node_agent.nvml.model import COMPUTE_INSTANCE_SLOTS, GpuInstanceProfile, GpuModel

DRIVER_VERSION = "580.95.05"
CUDA_DRIVER_VERSION = 13000

XID_CRITICAL = 0x8
DOUBLE_BIT_ECC = 0x2
SINGLE_BIT_ECC = 0x1
SUPPORTED_EVENTS = SINGLE_BIT_ECC | DOUBLE_BIT_ECC | XID_CRITICAL | 0x10 | 0x80

#: NVML's value for "no instance": the event or process belongs to the whole GPU.
NO_INSTANCE = 0xFFFFFFFF

_MIB = 1024 * 1024
_IDLE_CELSIUS = 31
_IDLE_SHARE_OF_POWER = 0.14
_CAPS_FIRST_MINOR = 3
_CAPS_PER_GPU_INSTANCE = 9
_CAPS_PER_GPU = 15 * _CAPS_PER_GPU_INSTANCE


class NvmlReturn(Exception):
    """An NVML return code that the library returns to its caller."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
TIMEOUT = 10
GPU_IS_LOST = 15
IN_USE = 19
INSUFFICIENT_RESOURCES = 23


@dataclass
class Process:
    """A process that computes on a GPU or on one of its MIG devices."""

    pid: int
    name: str
    used_mib: int
    gpu_instance: int = NO_INSTANCE
    compute_instance: int = NO_INSTANCE


@dataclass
class ComputeInstance:
    """A compute instance. Together with its GPU instance it is a MIG device."""

    id: int
    slices: int
    start: int
    uuid: str

    @property
    def profile_id(self) -> int:
        return COMPUTE_INSTANCE_SLOTS[self.slices]


@dataclass
class GpuInstance:
    """A GPU instance: a part of the GPU's memory and engines."""

    id: int
    profile: GpuInstanceProfile
    start: int
    compute_instances: dict[int, ComputeInstance] = field(default_factory=dict)

    @property
    def memory_slices(self) -> range:
        """The memory slices that the instance holds."""
        return range(self.start, self.start + self.profile.placements.size)


@dataclass(frozen=True)
class Event:
    """An event that NVML reports to clients that registered for it."""

    gpu: int
    type: int
    data: int
    gpu_instance: int = NO_INSTANCE
    compute_instance: int = NO_INSTANCE


class EventSet:
    """The events of the GPUs that are registered with this set, until someone reads them."""

    __slots__ = ("masks", "pending")

    #: Notified of the events of all sets. A condition takes 1 KiB, and each node has a set, so all share
    # one.
    arrived: ClassVar = threading.Condition()

    def __init__(self) -> None:
        self.masks: dict[int, int] = {}
        self.pending: list[Event] = []


class SimulatedGpu:
    """One GPU.

    Args:
        index: its position on the node, which is also its minor number.
        seed: the text from which its UUID is derived, so that a node keeps its GPUs when the agent restarts.
    """

    __slots__ = (
        "_seed",
        "compute_mode",
        "corrected_ecc",
        "fabric",
        "index",
        "instances",
        "last_xid",
        "lost",
        "made",
        "mig_enabled",
        "mig_pending",
        "model",
        "numa_node",
        "pci_bus",
        "pci_domain",
        "pci_root_bus",
        "persistence",
        "processes",
        "time_slice",
        "uncorrected_ecc",
        "utilization",
        "uuid",
        "vfio",
    )

    def __init__(self, index: int, model: GpuModel, seed: str, mig_enabled: bool = False) -> None:
        self.index = index
        self.model = model
        # Interned, because each answer of NVML contains a copy.
        self.uuid = sys.intern(f"GPU-{_uuid(seed, 'gpu', str(index))}")
        self.fabric: FabricMember | None = None
        self._place(index)
        self.mig_enabled = mig_enabled
        self.mig_pending = mig_enabled
        self.instances: dict[int, GpuInstance] = {}
        self.processes: list[Process] = []
        self.utilization = 0
        self.compute_mode = 0
        self.time_slice = 0
        self.persistence = True
        self.corrected_ecc = 0
        self.uncorrected_ecc = 0
        self.last_xid = 0
        self.lost = False
        self.vfio = False
        self._seed = seed
        self.made = 0

    def _place(self, index: int) -> None:
        if index < len(self.model.slots):
            slot = self.model.slots[index]
            domain, bus, _ = slot.address.split(":")
            self.pci_domain, self.pci_bus, self.pci_root_bus = int(domain, 16), int(bus, 16), 0
            self.numa_node = slot.numa_node
            return
        self.pci_domain, self.pci_bus = 0, 0x07 + 0x10 * (index // 2) + 0x04 * (index % 2)
        self.pci_root_bus = self.pci_bus - 1
        self.numa_node = 0 if index < 4 else 1

    @property
    def serial(self) -> str:
        """The serial number. It is unique because it is derived from the UUID."""
        return str(int.from_bytes(hashlib.sha256(self.uuid.encode()).digest()[:5], "big"))

    @property
    def build(self) -> Hashable:
        """A value that is equal for GPUs about which NVML reports the same, except for load, counters and identity."""
        instances = tuple(sorted(instance.profile.id for instance in self.instances.values()))
        return self.model.name, self.fabric, self.lost, self.vfio, self.mig_enabled, instances

    @property
    def mig_capable(self) -> bool:
        return bool(self.model.mig_profiles)

    @property
    def toggles_mig_without_reset(self) -> bool:
        """True if MIG mode changes at once (Hopper and later), and not only with a reset of the GPU (Ampere)."""
        return self.model.architecture not in ("Ampere",)

    @property
    def pci_bus_id(self) -> str:
        """The PCI address in the form of sysfs, ``0000:65:00.0``."""
        return f"{self.pci_domain:04x}:{self.pci_bus:02x}:00.0"

    @property
    def nvml_bus_id(self) -> str:
        """The PCI address as NVML and nvidia-smi write it, ``00000000:65:00.0``."""
        return f"{self.pci_domain:08X}:{self.pci_bus:02X}:00.0"

    @property
    def pcie_root(self) -> str:
        return f"pci{self.pci_domain:04x}:{self.pci_root_bus:02x}"

    @property
    def used_mib(self) -> int:
        return sum(process.used_mib for process in self.processes)

    @property
    def temperature(self) -> int:
        """The temperature in degrees Celsius. It rises with the load."""
        return _IDLE_CELSIUS + self.utilization * 38 // 100

    @property
    def power_milliwatts(self) -> int:
        limit = self.model.power_limit_watts * 1000
        return int(limit * (_IDLE_SHARE_OF_POWER + (0.9 - _IDLE_SHARE_OF_POWER) * self.utilization / 100))

    @property
    def memory_bytes(self) -> int:
        return self.model.memory_mib * _MIB

    def profile_by_slot(self, slot: int) -> GpuInstanceProfile:
        for profile in self.model.mig_profiles:
            if profile.slot == slot:
                return profile
        raise NvmlReturn(INVALID_ARGUMENT if slot >= 0x12 or slot < 0 else NOT_SUPPORTED)

    def profile_by_id(self, profile_id: int) -> GpuInstanceProfile:
        for profile in self.model.mig_profiles:
            if profile.id == profile_id:
                return profile
        raise NvmlReturn(INVALID_ARGUMENT)

    def free_starts(self, profile: GpuInstanceProfile) -> list[int]:
        """Return the memory slices at which an instance of ``profile`` could be created now."""
        same = sum(1 for instance in self.instances.values() if instance.profile is profile)
        if same >= profile.instances:
            return []
        taken = {slice_ for instance in self.instances.values() for slice_ in instance.memory_slices}
        size = profile.placements.size
        return [s for s in profile.placements.starts if taken.isdisjoint(range(s, s + size))]

    def create_instance(self, profile: GpuInstanceProfile, start: int | None = None) -> GpuInstance:
        """Create a GPU instance, at ``start`` or at the first place where it fits."""
        self.check_mig()
        free = self.free_starts(profile)
        if not free or (start is not None and start not in free):
            if start is not None and start not in profile.placements.starts:
                raise NvmlReturn(INVALID_ARGUMENT)
            raise NvmlReturn(INSUFFICIENT_RESOURCES)
        chosen = free[0] if start is None else start
        used = set(self.instances)
        first = 0 if profile.slices >= 7 else 1
        instance = GpuInstance(next(i for i in range(first, 15) if i not in used), profile, chosen)
        self.instances[instance.id] = instance
        return instance

    def destroy_instance(self, instance_id: int) -> None:
        instance = self.instance(instance_id)
        if instance.compute_instances or any(p.gpu_instance == instance_id for p in self.processes):
            raise NvmlReturn(IN_USE)
        del self.instances[instance_id]

    def create_compute_instance(self, instance: GpuInstance, profile_id: int) -> ComputeInstance:
        slices = next((n for n, slot in COMPUTE_INSTANCE_SLOTS.items() if slot == profile_id), 0)
        if slices not in compute_slices(instance.profile):
            raise NvmlReturn(NOT_SUPPORTED)
        used = sum(ci.slices for ci in instance.compute_instances.values())
        if used + slices > instance.profile.slices:
            raise NvmlReturn(INSUFFICIENT_RESOURCES)
        number = next(i for i in range(8) if i not in instance.compute_instances)
        self.made += 1
        made = ComputeInstance(
            number, slices, used, f"MIG-{_uuid(self.uuid, self._seed, f'{instance.id}/{number}/{self.made}')}"
        )
        instance.compute_instances[number] = made
        return made

    def destroy_compute_instance(self, instance: GpuInstance, compute_id: int) -> None:
        if compute_id not in instance.compute_instances:
            raise NvmlReturn(NOT_FOUND)
        if any(p.gpu_instance == instance.id and p.compute_instance == compute_id for p in self.processes):
            raise NvmlReturn(IN_USE)
        del instance.compute_instances[compute_id]

    def instance(self, instance_id: int) -> GpuInstance:
        self.check_mig()
        try:
            return self.instances[instance_id]
        except KeyError:
            raise NvmlReturn(NOT_FOUND) from None

    def check_mig(self) -> None:
        if not self.mig_enabled:
            raise NvmlReturn(NOT_SUPPORTED)

    def set_mig_mode(self, enable: bool) -> None:
        """Switch MIG mode: at once or, on Ampere, with the next reset."""
        if not self.mig_capable:
            raise NvmlReturn(NOT_SUPPORTED)
        if self.instances or self.processes:
            raise NvmlReturn(IN_USE)
        self.mig_pending = enable
        if self.toggles_mig_without_reset:
            self.mig_enabled = enable

    def reset(self) -> None:
        """Reset the GPU: a pending MIG mode takes effect, faults and volatile counters are cleared."""
        if self.processes:
            raise NvmlReturn(IN_USE)
        self.instances.clear()
        self.mig_enabled = self.mig_pending
        self.corrected_ecc = self.uncorrected_ecc = self.compute_mode = self.time_slice = 0
        self.lost = False

    def mig_devices(self) -> Iterator[tuple[GpuInstance, ComputeInstance]]:
        """Yield the MIG devices in the order of their indexes."""
        for _, instance in sorted(self.instances.items()):
            for _, compute in sorted(instance.compute_instances.items()):
                yield instance, compute


class SimulatedSystem:
    """The GPUs of one node, and the values that NVML reports about the whole node.

    Args:
        boot_id: names the boot of the simulated machine; state does not outlive it.
    """

    def __init__(
        self, gpus: list[SimulatedGpu], boot_id: str = "", driver_version: str = DRIVER_VERSION
    ) -> None:
        self.gpus = gpus
        self.boot_id = boot_id
        self.driver_version = driver_version
        self.cuda_driver_version = CUDA_DRIVER_VERSION
        #: True if the machine runs an IMEX daemon itself, instead of the driver, and the daemon is ready.
        self.imex_ready = True
        self.lock = threading.RLock()
        self.event_sets: list[EventSet] = []
        self.keep: Callable[[SimulatedSystem], None] | None = None
        #: Returns the GPUs as they are after a boot; None if they cannot reboot.
        self.booted: Callable[[], list[SimulatedGpu]] | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def build(self) -> Hashable:
        """A value that is equal for machines that differ only in the UUIDs and serial numbers of their GPUs."""
        return (self.driver_version, self.cuda_driver_version, *(gpu.build for gpu in self.gpus))

    def visible_gpus(self) -> list[SimulatedGpu]:
        """Return the GPUs that are bound to the nvidia kernel driver.

        NVML does not see those that are bound to vfio-pci.
        """
        return [gpu for gpu in self.gpus if not gpu.vfio]

    def on_event(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` for each event, from any thread. Return a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def inject_xid(
        self, gpu: int, xid: int, gpu_instance: int = NO_INSTANCE, compute: int = NO_INSTANCE
    ) -> None:
        """Make the GPU report the critical error ``xid``. After 79 and 119 it has fallen off the bus."""
        self.gpus[gpu].last_xid = xid
        self._emit(Event(self.gpus[gpu].index, XID_CRITICAL, xid, gpu_instance, compute))

    def inject_ecc(self, gpu: int, *, corrected: int = 0, uncorrected: int = 0) -> None:
        """Count memory errors, and notify the clients that registered for them."""
        device = self.gpus[gpu]
        with self.lock:
            device.corrected_ecc += corrected
            device.uncorrected_ecc += uncorrected
        if corrected:
            self._emit(Event(device.index, SINGLE_BIT_ECC, 0))
        if uncorrected:
            self._emit(Event(device.index, DOUBLE_BIT_ECC, 0))

    def lose(self, gpu: int) -> None:
        """Make the GPU vanish: from now on, NVML returns GPU_IS_LOST for it, also for clients that wait for events."""
        self.gpus[gpu].lost = True
        for event_set in self.event_sets:
            with event_set.arrived:
                event_set.arrived.notify_all()
        self._wake()

    def reboot(self, boot_id: str) -> None:
        """Start with another boot: modes, created MIG instances, bindings, errors and counters are gone."""
        with self.lock:
            self.boot_id = boot_id
            if self.booted is not None:
                self.gpus[:] = self.booted()
        self._wake()
        self.notify_change()

    def notify_change(self) -> None:
        """Report a change that outlives the process, so that the state is stored."""
        if self.keep is not None:
            self.keep(self)

    def any_lost(self) -> bool:
        return any(gpu.lost for gpu in self.gpus)

    def _emit(self, event: Event) -> None:
        for event_set in self.event_sets:
            if event_set.masks.get(event.gpu, 0) & event.type:
                with event_set.arrived:
                    event_set.pending.append(event)
                    event_set.arrived.notify_all()
        self._wake()

    def _wake(self) -> None:
        for listener in list(self._listeners):
            listener()


def compute_slices(profile: GpuInstanceProfile) -> tuple[int, ...]:
    """Return the numbers of slices that a compute instance within an instance of ``profile`` may have."""
    table = {
        1: (1,),
        2: (1, 2),
        3: (1, 2, 3),
        4: (1, 2, 4),
        6: (1, 2, 3, 6),
        7: (1, 2, 3, 4, 7),
        8: (1, 2, 4, 8),
    }
    return table[profile.slices]


def caps_minor(gpu_minor: int, gpu_instance: int, compute_instance: int | None = None) -> int:
    """Return the minor number of the /dev/nvidia-caps node that guards an instance.

    The kernel driver assigns the numbers in advance. The first ones are for MIG configuration and monitoring.
    They are followed by numbers for fifteen GPU instances of each GPU: one for the instance, and eight for its
    compute instances.
    """
    minor = _CAPS_FIRST_MINOR + _CAPS_PER_GPU * gpu_minor + _CAPS_PER_GPU_INSTANCE * gpu_instance
    return minor if compute_instance is None else minor + 1 + compute_instance


def caps_instance(minor: int) -> tuple[int, int, int | None] | None:
    """Return the arguments of :func:`caps_minor` for a number: GPU minor, GPU instance, compute instance or None."""
    if minor < _CAPS_FIRST_MINOR:
        return None
    gpu, rest = divmod(minor - _CAPS_FIRST_MINOR, _CAPS_PER_GPU)
    instance, compute = divmod(rest, _CAPS_PER_GPU_INSTANCE)
    return gpu, instance, compute - 1 if compute else None


def _uuid(*parts: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, "\0".join(parts))
