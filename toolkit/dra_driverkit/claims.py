"""The data that a driver exchanges with the server that communicates with the kubelet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dra_shared.api.resource import DeviceAttribute, NetworkDeviceData, ResourceClaim


@dataclass(frozen=True)
class ClaimRef:
    """A claim by name and UID. It may be unprepared after its deletion."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.uid}"


@dataclass(frozen=True)
class DeviceMetadata:
    """The metadata of a device that containers can read (:mod:`dra_driverkit.metadata`).

    Args:
        attributes: as in a ResourceSlice, by name.
        network_data: of a network interface.
    """

    attributes: Mapping[str, DeviceAttribute] = field(default_factory=dict)
    network_data: NetworkDeviceData | None = None


@dataclass(frozen=True)
class PreparedDevice:
    """A prepared device: the requests of the claim that it serves, and its CDI ids for containers.

    Args:
        metadata: for containers; it is only used if the driver's server writes metadata.
    """

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str | None = None
    metadata: DeviceMetadata | None = None


class ClaimHandler(Protocol):
    """The part of a driver that prepares claims."""

    async def prepare(self, claim: ResourceClaim) -> Sequence[PreparedDevice]:
        """Prepare the claim's devices of this driver. Return the same answer if they are already prepared.

        Raises:
            PrepareError: it failed; the kubelet retries.
        """
        ...

    async def unprepare(self, claim: ClaimRef) -> None:
        """Undo :meth:`prepare`. Called for unknown claims as well.

        Raises:
            PrepareError: it failed; the kubelet retries.
        """
        ...
