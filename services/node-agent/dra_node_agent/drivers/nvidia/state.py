"""Preparation of claims (cmd/gpu-kubelet-plugin/device_state.go).

The checkpoint is written before and after everything that changes the node: an entry ``PrepareStarted`` lists
what a crash may leave behind, and an entry ``PrepareCompleted`` has the devices that a second call returns
without doing anything.
"""

import time
from collections.abc import Callable
from pathlib import Path

from dra_driverkit.claims import ClaimRef, DeviceMetadata, PreparedDevice
from dra_driverkit.errors import PrepareError
from dra_shared.api.codec import convert
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.log import logger

from dra_node_agent.drivers.gojson import claim_status
from dra_node_agent.drivers.nvidia import DRIVER_NAME, config, edits, gates, holders
from dra_node_agent.drivers.nvidia.checkpoint import (
    COMPLETED,
    FILE_NAME,
    STARTED,
    Checkpoint,
    PreparedClaim,
    held_devices,
)
from dra_node_agent.drivers.nvidia.claimconfigs import check, choose, config_of, configs, results
from dra_node_agent.drivers.nvidia.claimspecs import ClaimSpecs, device_id
from dra_node_agent.drivers.nvidia.config import DeviceConfig, TimeSlicingConfig, VfioDeviceConfig
from dra_node_agent.drivers.nvidia.devices import Allocatable, Gpu, MigDevice, MigLive, VfioGpu, mig_position
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary, DiscoveryError, PerGpu
from dra_node_agent.drivers.nvidia.fabricmanager import NO_PARTITIONS, FabricPartitions
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.prepared import Prepared, PreparedGroup, answers, mig_live
from dra_node_agent.drivers.nvidia.sharing import MpsDaemons, set_time_slice

_log = logger(__name__)

# Called at each named point of a preparation. A test makes it raise to simulate a crash there.
CrashPoint = Callable[[str], None]


class DeviceState:
    """The node's devices and the claims that hold them.

    Args:
        directory: the driver's data: checkpoint and MPS daemons. cdi_directory: where CDI files go. reached:
        see :data:`CrashPoint`. shared: whether several claims may have a GPU or MIG device at a time
        (consumable shares). metadata: returns the metadata of a device for containers, if it has any. fabric:
        the partitions of the GPUs' NVLink switches. monotonic: returns a monotonic time in seconds. durable:
        whether checkpoint and CDI files are synced to the disk.
    """

    def __init__(
        self,
        library: DeviceLibrary,
        feature_gates: NvidiaGates,
        directory: Path,
        cdi_directory: Path,
        reached: CrashPoint = lambda point: None,
        *,
        shared: bool = False,
        metadata: Callable[[Allocatable], DeviceMetadata | None] | None = None,
        fabric: FabricPartitions = NO_PARTITIONS,
        monotonic: Callable[[], float] = time.monotonic,
        durable: bool = True,
    ) -> None:
        self._shared = shared
        self._fabric = fabric
        self._metadata = metadata
        self._library = library
        self._gates = feature_gates
        self._reached = reached
        self._mps = MpsDaemons(directory / "mps", library)
        kind = f"{edits.VENDOR}/{edits.CLASS}"
        self._checkpoint = Checkpoint(directory / FILE_NAME, cdi_directory, kind, durable=durable)
        self._specs = ClaimSpecs(library, self._checkpoint, monotonic)
        self.per_gpu: PerGpu = {}

    @property
    def is_partitioned(self) -> bool:
        """True if MIG devices are created on demand on this node."""
        return self._gates.is_enabled(gates.DYNAMIC_MIG) and self._library.has_mig_capable()

    def open(self) -> None:
        """Discover the devices, load the checkpoint, and remove leftovers of incomplete claims.

        Raises:
            DiscoveryError: NVML failed.
            CheckpointError: the checkpoint is damaged.
        """
        self.per_gpu = self._library.enumerate()
        kept = self._checkpoint.open(self._library.host.nvml.boot_id())
        claims = self._checkpoint.claims()
        if not kept:
            _log.info("no checkpoint of this boot, starting with an empty one")
        self._checkpoint.remove_unknown_specs()
        if self.is_partitioned:
            self._destroy_unknown_mig(claims)

    def find_allocatable(self, name: str) -> Allocatable | None:
        """Return the device with that name, or None if this node does not have it."""
        for devices in self.per_gpu.values():
            if name in devices:
                return devices[name]
        return None

    def prepared_claims(self) -> dict[str, PreparedClaim]:
        """Return the checkpoint's claims by UID."""
        return self._checkpoint.claims()

    def prepare(self, claim: ResourceClaim) -> list[PreparedDevice]:
        """Prepare the claim's devices.

        Raises:
            PrepareError: it failed.
        """
        uid = claim.metadata.uid
        claims = self._checkpoint.claims()
        before = claims.get(uid)
        if before is not None and before.state == COMPLETED:
            return answers(before.groups)
        if claim.status.allocation is None:
            raise PrepareError("prepare devices failed: claim not yet allocated")
        self._check_overlap(claim, claims)
        if before is not None:
            self._roll_back(uid, before, claims)
        status = claim_status(claim.status)
        name, namespace = claim.metadata.name, claim.metadata.namespace
        started = PreparedClaim(STARTED, status, [], name, namespace)
        self._checkpoint.put(uid, started)
        self._reached("checkpoint-started")
        try:
            groups = self._prepare_devices(claim)
        except DiscoveryError as error:
            raise PrepareError(f"prepare devices failed: {error}") from error
        except PrepareError as error:
            raise PrepareError(f"prepare devices failed: {error}") from error
        self._reached("devices-prepared")
        if self._gates.is_enabled(gates.PASSTHROUGH):
            self._hide_siblings(groups)
        self._specs.write(uid, groups, self.per_gpu)
        self._reached("cdi-written")
        done = PreparedClaim(COMPLETED, status, [group.to_checkpoint() for group in groups])
        self._checkpoint.put(uid, done)
        self._reached("checkpoint-completed")
        return answers(done.groups)

    def unprepare(self, claim: ClaimRef) -> None:
        """Unprepare the claim's devices.

        Raises:
            PrepareError: a device is still in use.
        """
        claims = self._checkpoint.claims()
        prepared = claims.get(claim.uid)
        if prepared is None:
            return
        try:
            if prepared.state == STARTED:
                self._roll_back(claim.uid, prepared, claims)
            else:
                self._unprepare_devices(claim.uid, prepared)
        except DiscoveryError as error:
            raise PrepareError(f"unprepare devices failed for claim {claim}: {error}") from error
        self._reached("devices-unprepared")
        if self._gates.is_enabled(gates.PASSTHROUGH):
            self._show_siblings(claim.uid, prepared)
        self._checkpoint.remove_spec(claim.uid)
        self._reached("cdi-removed")
        self._checkpoint.drop(claim.uid)
        self._reached("checkpoint-removed")

    def _check_overlap(self, claim: ResourceClaim, claims: dict[str, PreparedClaim]) -> None:
        """Check that no device has two claims, whatever the scheduler did. Admin access and shares may overlap."""
        uid = claim.metadata.uid
        wanted = dict.fromkeys(r.device for r in results(claim) if not r.admin_access)
        for other_uid, other, held in held_devices(claims, DRIVER_NAME, uid):
            for name in wanted:
                if name in held:
                    self._check_shared(claim, name, other_uid, other)

    def _check_shared(self, claim: ResourceClaim, name: str, other_uid: str, other: PreparedClaim) -> None:
        """Check that a device with two claims is shared, and that both claims configure it in the same way."""
        uid = claim.metadata.uid
        device = self.find_allocatable(name)
        if not self._shared or device is None or isinstance(device, VfioGpu):
            raise PrepareError(
                f"unable to prepare claim {uid}: requested device {name} is already allocated "
                f"to different claim {other_uid}"
            )
        earlier = convert(RESOURCE_CLAIMS, {"metadata": {"uid": other_uid}, "status": other.status})
        had, wanted = (config_of(one, name, device, self._gates) for one in (earlier, claim))
        if had != wanted:
            raise PrepareError(
                f"unable to prepare claim {uid}: requested device {name} has conflicting configuration "
                f"with already prepared claim {other_uid}"
            )

    def _prepare_devices(self, claim: ResourceClaim) -> list[PreparedGroup]:
        every = configs(claim, self._gates)
        grouped: dict[int, list[tuple[DeviceRequestAllocationResult, Allocatable]]] = {}
        for result in results(claim):
            device = self.find_allocatable(result.device)
            if device is None:
                raise PrepareError(f'allocatable not found for device "{result.device}"')
            grouped.setdefault(choose(every, result, device), []).append((result, device))
        groups = []
        applied = []
        for number, members in grouped.items():
            applied.append((check(every[number][1], self._gates), members))
        if sum(isinstance(chosen, VfioDeviceConfig) for chosen, _ in applied) > 1:
            raise PrepareError("at most one VfioDeviceConfig may apply to a claim")
        given = [device for _, found in applied for _, device in found]
        whole = [device.pci_bus_id for device in given if isinstance(device, Gpu | VfioGpu)]
        partition = self._fabric.activate(whole)
        if partition is not None:
            _log.info("fabric partition active", partition=partition, claim=claim.metadata.uid)
        for chosen, members in applied:
            try:
                group = self._apply(chosen, claim, members)
            except PrepareError as error:
                raise PrepareError(f"error applying config: {error}") from error
            groups.append(group)
        for group in groups:
            for prepared in group.devices:
                if isinstance(prepared.device, MigDevice) and prepared.device.live is None:
                    prepared.live = self._ensure_mig_device(prepared.device)
        return groups

    def _ensure_mig_device(self, wanted: MigDevice) -> MigLive:
        """Return the MIG device. Create it, unless another claim that shares it already did."""
        live = holders.find_created_mig(self._checkpoint.claims(), wanted.name)
        if live is not None:
            return live
        try:
            live = self._library.create_mig_device(wanted)
        except DiscoveryError as error:
            raise PrepareError(f"error creating MIG device: {error}") from error
        self._reached("mig-created")
        return live

    def _apply(
        self,
        chosen: DeviceConfig,
        claim: ResourceClaim,
        members: list[tuple[DeviceRequestAllocationResult, Allocatable]],
    ) -> PreparedGroup:
        uid = claim.metadata.uid
        group = PreparedGroup([self._prepare_device(uid, result, device) for result, device in members])
        if isinstance(chosen, VfioDeviceConfig):
            self._apply_vfio(chosen, group)
            return group
        sharing = chosen.sharing
        if sharing is None:
            return group
        config.check_exclusive(sharing)
        gpus = sorted(device.uuid for _, device in members if isinstance(device, Gpu))
        if sharing.strategy == config.TIME_SLICING and self._gates.is_enabled(gates.TIME_SLICING):
            slicing = sharing.time_slicing_config if isinstance(sharing, config.GpuSharing) else None
            if slicing is not None:
                set_time_slice(self._library, gpus, slicing)
        if sharing.strategy == config.MPS and self._gates.is_enabled(gates.MPS):
            if self._shared:
                raise PrepareError("MPS sharing is not supported when consumable shares is enabled")
            existing = [d.live.uuid for _, d in members if isinstance(d, MigDevice) and d.live is not None]
            uuids = sorted([*gpus, *existing])
            group.mps_daemon, group.edits = self._mps.start(
                uid, gpus, uuids, sharing.mps_config or config.MpsConfig()
            )
        return group

    def _prepare_device(
        self, uid: str, result: DeviceRequestAllocationResult, device: Allocatable
    ) -> Prepared:
        answer = PreparedDevice(
            requests=(result.request,),
            pool=result.pool,
            device=result.device,
            cdi_ids=(device_id(uid, device),),
            share_id=result.share_id,
            metadata=None if self._metadata is None else self._metadata(device),
        )
        return Prepared(answer, device, device.live if isinstance(device, MigDevice) else None)

    def _apply_vfio(self, chosen: VfioDeviceConfig, group: PreparedGroup) -> None:
        iommu = chosen.iommu or config.IommuConfig()
        group.vfio_iommu_fd = (
            iommu.backend_policy == "PreferIommuFD" and self._library.host.iommu_fd_enabled()
        )
        group.edits = edits.vfio_common_edits(
            api_device=bool(iommu.enable_api_device), iommu_fd=group.vfio_iommu_fd
        )
        for prepared in group.devices:
            if isinstance(prepared.device, VfioGpu):
                self._bind_vfio(prepared.device.pci_bus_id, True)

    def _bind_vfio(self, pci_bus_id: str, bound: bool) -> None:
        try:
            self._library.host.bind_vfio(pci_bus_id, bound)
        except OSError as error:
            verb = "configuring" if bound else "unconfiguring"
            raise PrepareError(f'error {verb} vfio device "{pci_bus_id}": {error}') from error

    def _unprepare_devices(self, uid: str, claim: PreparedClaim) -> None:
        for entry in claim.devices():
            if entry.get("vfio"):
                self._bind_vfio(entry["vfio"]["info"]["pciBusID"], False)
            live = mig_live(entry)
            if live is not None and self._gates.is_enabled(gates.DYNAMIC_MIG):
                self._delete_unless_held(uid, entry["mig"]["device"]["DeviceName"], live)
        self._stop_sharing(
            uid, [entry["gpu"]["info"]["uuid"] for entry in claim.devices() if entry.get("gpu")]
        )

    def _delete_unless_held(self, uid: str, name: str, live: MigLive) -> None:
        if self._shared and holders.holds_mig(self._checkpoint.claims(), uid, name, live):
            return
        try:
            self._library.delete_mig_device(live)
        except DiscoveryError as error:
            raise PrepareError(f"error deleting MIG device {name}: {error}") from error
        self._reached("mig-deleted")

    def _stop_sharing(self, uid: str, gpu_uuids: list[str]) -> None:
        self._mps.stop(uid)
        claims = self._checkpoint.claims()
        present = [
            uuid
            for uuid in gpu_uuids
            if self._library.find_gpu(uuid) and not (self._shared and holders.holds_gpu(claims, uid, uuid))
        ]
        if self._gates.is_enabled(gates.TIME_SLICING):
            set_time_slice(self._library, present, TimeSlicingConfig(interval="Default"))

    def _roll_back(self, uid: str, claim: PreparedClaim, claims: dict[str, PreparedClaim]) -> None:
        """Undo an interrupted preparation of which only the devices are known."""
        held = {
            result["device"]
            for other_uid, other in claims.items()
            if other_uid != uid and other.state == COMPLETED
            for result in other.results(DRIVER_NAME)
        }
        gpus = []
        for result in claim.results(DRIVER_NAME):
            name = result["device"]
            if name in held:
                continue
            device = self.find_allocatable(name)
            if isinstance(device, Gpu):
                gpus.append(device.uuid)
            elif isinstance(device, VfioGpu):
                self._bind_vfio(device.pci_bus_id, False)
            elif self.is_partitioned and mig_position(name) is not None:
                self._delete_by_name(name)
        self._stop_sharing(uid, gpus)
        self._checkpoint.remove_spec(uid)

    def _delete_by_name(self, name: str) -> None:
        for gpu in self._library.gpus():
            for mig in self._library.mig_devices(gpu):
                if mig.name == name and mig.live is not None:
                    _log.warning("destroying a MIG device that an interrupted preparation left", device=name)
                    self._library.delete_mig_device(mig.live)

    def _destroy_unknown_mig(self, claims: dict[str, PreparedClaim]) -> None:
        expected = {
            result["device"]
            for claim in claims.values()
            if claim.state == COMPLETED
            for result in claim.results(DRIVER_NAME)
        }
        for gpu in self._library.gpus():
            for mig in self._library.mig_devices(gpu):
                if mig.name not in expected and mig.live is not None:
                    _log.warning("destroying a MIG device that no prepared claim holds", device=mig.name)
                    self._library.delete_mig_device(mig.live)
        self._library.disable_idle_mig()

    def _hide_siblings(self, groups: list[PreparedGroup]) -> None:
        """Hide the other device types of a GPU that is in use as one type."""
        for prepared in (p for group in groups for p in group.devices):
            for devices in self.per_gpu.values():
                if prepared.device.name in devices:
                    for name, sibling in list(devices.items()):
                        if type(sibling) is not type(prepared.device):
                            del devices[name]

    def _show_siblings(self, uid: str, claim: PreparedClaim) -> None:
        names = {answer.device for answer in answers(claim.groups)}
        if self._shared:
            others = (
                c for other, c in self._checkpoint.claims().items() if other != uid and c.state == COMPLETED
            )
            names -= {answer.device for other in others for answer in answers(other.groups)}
        fresh = self._library.enumerate()
        for bus, devices in self.per_gpu.items():
            if names & set(devices):
                self.per_gpu[bus] = fresh.get(bus, devices)
