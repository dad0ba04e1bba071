"""Conversion of prepared devices to the form of the checkpoint and back."""

from dataclasses import dataclass
from typing import Any

import msgspec
from dra_driverkit.cdi import ContainerEdits
from dra_driverkit.claims import DeviceMetadata, PreparedDevice
from dra_shared.api.resource import DeviceAttribute

from dra_node_agent.drivers.nvidia.devices import Allocatable, Gpu, MigLive, VfioGpu


@dataclass
class Prepared:
    """A device during its preparation: the response to the kubelet about it, and the device itself."""

    answer: PreparedDevice
    device: Allocatable
    live: MigLive | None = None


@dataclass
class PreparedGroup:
    """The devices that one config applies to."""

    devices: list[Prepared]
    mps_daemon: str = ""
    edits: ContainerEdits | None = None
    vfio_iommu_fd: bool = False

    def to_checkpoint(self) -> dict[str, Any]:
        """Return the group in the file's form, with fields in Go's order."""
        return {
            "devices": [_entry(prepared) for prepared in self.devices],
            "configState": {"mpsControlDaemonID": self.mps_daemon} if self.mps_daemon else {},
        }


def answers(groups: list[dict[str, Any]]) -> list[PreparedDevice]:
    """Convert devices from the checkpoint's form to the response for the kubelet."""
    found = []
    for group in groups:
        for entry in group.get("devices") or []:
            kind = next(kind for kind in ("gpu", "mig", "vfio") if entry.get(kind))
            found.append(answer(entry[kind]["device"]))
    return found


def answer(device: dict[str, Any]) -> PreparedDevice:
    """Convert one device from the checkpoint's form to the response for the kubelet."""
    return PreparedDevice(
        requests=tuple(device.get("Requests") or ()),
        pool=device["PoolName"],
        device=device["DeviceName"],
        cdi_ids=tuple(device.get("CDIDeviceIDs") or ()),
        share_id=device.get("ShareID"),
        metadata=_metadata(device.get("Metadata")),
    )


def mig_live(entry: dict[str, Any]) -> MigLive | None:
    """Return the MIG device of a checkpoint's entry, or None."""
    mig = entry.get("mig")
    if not mig:
        return None
    concrete = mig["concrete"]
    return MigLive(
        parent_minor=concrete["parentMinor"],
        parent_uuid=concrete["parentUUID"],
        gpu_instance=concrete["giId"],
        compute_instance=concrete["ciId"],
        uuid=concrete["migUUID"],
    )


def _entry(prepared: Prepared) -> dict[str, Any]:
    answer = prepared.answer
    device: dict[str, Any] = {
        "Requests": list(answer.requests),
        "PoolName": answer.pool,
        "DeviceName": answer.device,
        "CDIDeviceIDs": list(answer.cdi_ids),
    }
    if answer.share_id is not None:
        device["ShareID"] = answer.share_id
    if answer.metadata is not None:
        attributes = {name: msgspec.to_builtins(a) for name, a in sorted(answer.metadata.attributes.items())}
        device["Metadata"] = {"Attributes": attributes, "NetworkData": None}
    entry: dict[str, Any] = {"gpu": None, "mig": None}
    if isinstance(prepared.device, Gpu):
        entry["gpu"] = {"info": {"uuid": prepared.device.uuid}, "device": device}
    elif isinstance(prepared.device, VfioGpu):
        info = {"uuid": prepared.device.uuid, "pciBusID": prepared.device.pci_bus_id}
        entry["vfio"] = {"info": info, "device": device}
    elif prepared.live is not None:
        live = prepared.live
        concrete = {
            "parentMinor": live.parent_minor,
            "giId": live.gpu_instance,
            "ciId": live.compute_instance,
            "migUUID": live.uuid,
            "parentUUID": live.parent_uuid,
        }
        entry["mig"] = {"concrete": concrete, "device": device}
    return entry


def _metadata(found: dict[str, Any] | None) -> DeviceMetadata | None:
    """Decode a device's metadata from the checkpoint's form. The driver has no network interfaces."""
    if found is None:
        return None
    return DeviceMetadata(msgspec.convert(found.get("Attributes") or {}, dict[str, DeviceAttribute]))
