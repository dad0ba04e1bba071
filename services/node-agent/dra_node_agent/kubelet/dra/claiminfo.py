"""The DRA manager's state of each claim in use on its node (pkg/kubelet/cm/dra/claiminfo.go)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim

from dra_node_agent.kubelet.dra.checkpoint import CheckpointDevice, CheckpointFile, ClaimState, DriverState

ANY_DRIVER = "<any>"
SKIP_PREPARE, SKIP_UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
_ALL = "*"


class ClaimInfo:
    """A claim: the pods that use it, its prepared devices by driver, and the operations that drivers skip.

    ``unpreparing`` is set as soon as drivers are asked to unprepare it. No pod may use it any more.
    """

    __slots__ = ("devices", "name", "namespace", "pod_uids", "prepared", "skips", "uid", "unpreparing")

    def __init__(self, namespace: str, name: str, uid: str, drivers: Sequence[str] = ()) -> None:
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.pod_uids: set[str] = set()
        self.devices: dict[str, list[CheckpointDevice]] = {driver: [] for driver in drivers}
        self.skips: dict[str, frozenset[str]] = {}
        self.prepared = False
        self.unpreparing = False

    @classmethod
    def from_claim(cls, claim: ResourceClaim, *, optional_operations: bool | None = False) -> "ClaimInfo":
        """Create the state of a claim without pods.

        ``optional_operations`` says whether drivers may skip calls; None: not known yet.

        Raises:
            ValueError: the claim is not allocated, or an operation would have to be skipped without support.
        """
        if claim.status.allocation is None:
            raise ValueError("not allocated")
        results = claim.status.allocation.devices.results
        drivers = dict.fromkeys(result.driver for result in results)
        meta = claim.metadata
        info = cls(meta.namespace, meta.name, meta.uid, tuple(drivers))
        for driver in drivers:
            skipped = _skipped_operations([result for result in results if result.driver == driver])
            if not skipped or optional_operations is None:
                continue
            if not optional_operations:
                raise ValueError("DRAOptionalNodeOperations feature gate is disabled on kubelet")
            info.skips[driver] = skipped
        return info

    @classmethod
    def from_state(cls, state: ClaimState) -> "ClaimInfo":
        """Create the state of a claim from the checkpoint.

        It counts as not prepared, so the next pod prepares it again.
        """
        info = cls(state.namespace, state.claim_name, state.claim_uid)
        info.pod_uids = set(state.pod_uids)
        info.devices = {
            driver: list(known.devices or ()) for driver, known in (state.driver_state or {}).items()
        }
        info.skips = {
            driver: frozenset(known.skip_node_operations)
            for driver, known in (state.driver_state or {}).items()
            if known.skip_node_operations is not msgspec.UNSET
        }
        return info

    def to_state(self) -> ClaimState:
        """Return the claim in the form of the checkpoint."""
        return ClaimState(
            claim_uid=self.uid,
            claim_name=self.name,
            namespace=self.namespace,
            pod_uids={uid: {} for uid in self.pod_uids},
            driver_state={
                driver: DriverState(
                    devices=tuple(devices) or None,
                    skip_node_operations=tuple(sorted(self.skips.get(driver, ()))) or msgspec.UNSET,
                )
                for driver, devices in self.devices.items()
            },
        )

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def skips_operation(self, operation: str, driver: str) -> bool:
        """Return True if the driver is not called for the operation."""
        return not self.skips.get(driver, frozenset()).isdisjoint((operation, _ALL))

    def add_device(self, driver: str, device: CheckpointDevice) -> None:
        """Record a device that ``driver`` has prepared."""
        self.devices.setdefault(driver, []).append(device)

    def cdi_device_ids(self, request: str = "") -> list[str]:
        """Return the CDI ids of the devices for ``request``, or of all devices."""
        return [
            cdi_id
            for devices in self.devices.values()
            for device in devices
            if is_for_request(device, request)
            for cdi_id in device.cdi_device_ids or ()
        ]


def _skipped_operations(results: Sequence[DeviceRequestAllocationResult]) -> frozenset[str]:
    """Return the operations that all devices of one driver skip: ``*`` if each skips all of them."""
    sets = [frozenset(result.skip_node_operations) for result in results]
    some = [one for one in sets if _ALL not in one]
    return frozenset.intersection(*some) if some else frozenset({_ALL})


def is_for_request(device: CheckpointDevice, request: str) -> bool:
    """True if the device is for ``request``, by the name from the driver. Drivers omit subrequests."""
    return not request or not device.request_names or request in device.request_names


class ClaimInfoCache:
    """The claims by namespace and name, kept in a checkpoint file."""

    def __init__(self, directory: Path, name: str, *, durable: bool = True) -> None:
        self._file = CheckpointFile(directory, name, durable=durable)
        self._claims = {info.key: info for info in map(ClaimInfo.from_state, self._file.load_or_create())}

    def __iter__(self) -> Iterator[ClaimInfo]:
        return iter(list(self._claims.values()))

    def __contains__(self, key: str) -> bool:
        return key in self._claims

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        """Return the claim with that name if some pod uses it, or None."""
        return self._claims.get(f"{namespace}/{name}")

    def add(self, info: ClaimInfo) -> ClaimInfo:
        """Store the claim, replacing one with the same name."""
        self._claims[info.key] = info
        return info

    def delete(self, namespace: str, name: str) -> None:
        """Forget the claim with that name."""
        self._claims.pop(f"{namespace}/{name}", None)

    def has_pod_reference(self, pod_uid: str) -> bool:
        """True if the pod uses any claim, and may therefore have to unprepare it."""
        return any(pod_uid in info.pod_uids for info in self._claims.values())

    def count_in_use(self) -> dict[str, int]:
        """Count prepared claims by driver, and all of them under ``<any>`` (dra_resource_claims_in_use)."""
        counts: Counter[str] = Counter({ANY_DRIVER: 0})
        for info in self._claims.values():
            if info.prepared:
                counts[ANY_DRIVER] += 1
                counts.update(info.devices.keys())
        return dict(counts)

    async def save(self) -> None:
        """Return once the current state is in the checkpoint.

        Raises:
            CheckpointError: it could not be written.
        """
        await self._file.store(lambda: [info.to_state() for info in self._claims.values()])
