"""What passes between a driver and the helper that speaks to the kubelet for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dra_shared.api.resource import DeviceAttribute, NetworkDeviceData, ResourceClaim


@dataclass(frozen=True)
class ClaimRef:
    """A claim by name and UID; to be unprepared it need not exist any more."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.uid}"


@dataclass(frozen=True)
class DeviceMetadata:
    """What containers can read of a device (:mod:`dra_driverkit.metadata`).

    Args:
        attributes: as in a ResourceSlice, by name.
        network_data: of a network interface.
    """

    attributes: Mapping[str, DeviceAttribute] = field(default_factory=dict)
    network_data: NetworkDeviceData | None = None


@dataclass(frozen=True)
class PreparedDevice:
    """A device that is ready: which requests of the claim it serves and how containers get it.

    Args:
        metadata: for containers; it counts where the driver's server writes metadata.
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
        """Make the claim's devices of this driver ready; again the same answer if they are.

        Raises:
            PrepareError: it cannot be done; the kubelet tries again.
        """
        ...

    async def unprepare(self, claim: ClaimRef) -> None:
        """Undo :meth:`prepare`, also of a claim never seen.

        Raises:
            PrepareError: it cannot be done; the kubelet tries again.
        """
        ...
