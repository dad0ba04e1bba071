"""Preparation of the claims of pods (pkg/kubelet/cm/dra/manager.go).

A pod's claims are prepared in four phases (:mod:`dra_node_agent.kubelet.dra.phases`), so that a crash
between any two leaves enough to clean up. Error texts reach users through the pod's events.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakValueDictionary

from dra_driverkit.proto import dra_v1_pb2
from dra_driverkit.transport import Sockets
from dra_shared.api.pod import Pod, PodResourceClaim
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.claims import ClaimReferenceError, check_for_pod, claim_name, is_reserved_for_pod
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.features import FeatureGates
from dra_shared.log import logger
from dra_shared.states import StateMachine
from dra_shared.version import V1_37, V1_38

from dra_node_agent.kubelet.dra.callfaults import CallFaults
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE, CheckpointDevice, CheckpointError
from dra_node_agent.kubelet.dra.claiminfo import SKIP_PREPARE, SKIP_UNPREPARE, ClaimInfo, ClaimInfoCache
from dra_node_agent.kubelet.dra.connection import DriverConnection, DriverError
from dra_node_agent.kubelet.dra.connections import DriverConnections
from dra_node_agent.kubelet.dra.containerclaims import ContainerClaims
from dra_node_agent.kubelet.dra.errors import DraError, unknown_claim
from dra_node_agent.kubelet.dra.health import HEALTH_FILE, HealthInfoCache
from dra_node_agent.kubelet.dra.metrics import CLAIMS_IN_USE, PREPARE_SKIPS, UNPREPARE_SKIPS, observe_duration
from dra_node_agent.kubelet.dra.phases import (
    PREPARE,
    UNPREPARE,
    PrepareEvent,
    PreparePhase,
    UnprepareEvent,
    UnpreparePhase,
)
from dra_node_agent.kubelet.dra.podhealth import PodHealth

RECONCILE_PERIOD = 60.0

_log = logger(__name__)


@dataclass
class _Wanted:
    claim: ResourceClaim
    info: ClaimInfo
    connections: dict[str, DriverConnection] = field(default_factory=dict)


@dataclass
class _Batch:
    connection: DriverConnection
    claims: list[dra_v1_pb2.Claim] = field(default_factory=list)


_Preparing = StateMachine[PreparePhase, PrepareEvent]


class DraManager:
    """The claims of one node's pods.

    Args:
        on_health_change: called with the UIDs of pods whose devices changed health. on_register: called when a
        driver can be called that could not be before. faults: faults that are injected into calls to drivers.
        sockets: where drivers listen. on_phase: awaited after each phase; tests use it to simulate a crash of
        the process at that moment.

    Raises:
        DraError: the checkpoint is corrupt; it must not be discarded, because devices may be prepared.
    """

    def __init__(
        self,
        directory: Path,
        client: Client,
        clock: Clock,
        features: FeatureGates,
        *,
        node_name: str = "",
        on_health_change: Callable[[set[str]], None] | None = None,
        on_register: Callable[[], None] | None = None,
        on_phase: Callable[[PreparePhase | UnpreparePhase], Awaitable[None]] | None = None,
        durable: bool = True,
        faults: CallFaults | None = None,
        sockets: Sockets | None = None,
    ) -> None:
        try:
            self.cache = ClaimInfoCache(directory, STATE_FILE, durable=durable)
        except CheckpointError as error:
            raise DraError(
                "create ResourceClaim cache: error calling GetOrCreate() on checkpoint state: " + str(error)
            ) from error
        self.health = HealthInfoCache(directory / HEALTH_FILE, clock)
        messages = features.enabled("ResourceHealthStatusMessage")
        self.pod_health = PodHealth(
            self.cache,
            self.health,
            messages=messages,
            is_sorted=features.version >= V1_38,
            on_change=on_health_change,
        )
        self.containers = ContainerClaims(
            self.cache, extended_resources=features.enabled("DRAExtendedResource")
        )
        self._client = client
        self._clock = clock
        self._extended_resources = features.enabled("DRAExtendedResource")
        known = features.version >= V1_37
        self._optional_operations = features.enabled("DRAOptionalNodeOperations") if known else None
        self._names_in_cache = known
        self._pod_groups = features.enabled("DRAWorkloadResourceClaims")
        self._on_phase = on_phase
        self._locks: WeakValueDictionary[str, asyncio.Lock] | None = None
        CLAIMS_IN_USE.add(self.cache.count_in_use)
        watch_health = features.enabled("ResourceHealthStatus")
        self.connections = DriverConnections(
            node_name,
            client,
            clock,
            on_health=self.pod_health.report if watch_health else None,
            on_health_end=self.pod_health.end,
            on_register=on_register,
            faults=faults,
            kubernetes=features.version,
            sockets=sockets,
        )

    async def close(self) -> None:
        """Close the connections to all drivers."""
        CLAIMS_IN_USE.remove(self.cache.count_in_use)
        await self.connections.close()

    # Preparing

    async def prepare(self, pod: Pod) -> None:
        """Prepare those claims of the pod that are not prepared yet. Return once this is stored durably.

        Raises:
            DraError: a claim is invalid, or a driver failed. Calling again continues with the claims that are
            not prepared.
        """
        try:
            with observe_duration("PrepareResources", self._clock):
                phase = StateMachine(PreparePhase.NEW, PREPARE)
                wanted = await self._validate(pod)
                await self._report_phase(phase.on(PrepareEvent.VALIDATE))
                async with self._lock_claims(entry.claim.key for entry in wanted):
                    await self._prepare(pod, wanted, phase)
        except (DraError, ClaimReferenceError, DriverError) as error:
            raise DraError(f"prepare dynamic resources: {error}") from error

    async def _prepare(self, pod: Pod, wanted: Sequence[_Wanted], phase: _Preparing) -> None:
        batches = await self._reserve(pod, wanted)
        await self._report_phase(phase.on(PrepareEvent.RESERVE))
        for batch in batches:
            await self._call_prepare(batch, wanted, phase)
        for entry in wanted:
            self._info(entry.claim).prepared = True
        if batches:
            await self._save("checkpoint ResourceClaim state")
        await self._report_phase(phase.on(PrepareEvent.SAVE if batches else PrepareEvent.SKIP))

    async def _validate(self, pod: Pod) -> list[_Wanted]:
        # Nothing is stored yet, so a pod that fails here can be deleted without calling a driver.
        wanted = []
        for entry in self._pod_claims(pod):
            name, check_owner = claim_name(pod, entry)
            if name is None:
                continue
            try:
                claim = await self._client.get(RESOURCE_CLAIMS, name, pod.metadata.namespace)
            except ApiError as error:
                raise DraError(f"fetch ResourceClaim {name}: {error}") from error
            if check_owner:
                check_for_pod(pod, claim, pod_groups=self._pod_groups)
            if not is_reserved_for_pod(pod, claim, pod_groups=self._pod_groups):
                raise DraError(
                    f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use"
                    f" ResourceClaim {name} ({claim.metadata.uid})"
                )
            try:
                info = ClaimInfo.from_claim(claim, optional_operations=self._optional_operations)
            except ValueError as error:
                raise DraError(f"ResourceClaim {name}: {error}") from error
            # Check this for a prepared claim as well: a missing driver is an error even then, as in upstream.
            connections = {
                driver: self.connections.get(driver)
                for driver in info.devices
                if not info.skips_operation(SKIP_PREPARE, driver)
            }
            wanted.append(_Wanted(claim, info, connections))
        return wanted

    async def _reserve(self, pod: Pod, wanted: Sequence[_Wanted]) -> list[_Batch]:
        batches: dict[DriverConnection, _Batch] = {}
        is_changed = False
        try:
            for entry in wanted:
                self._add_user(pod, entry, batches)
                is_changed = True
        finally:
            if is_changed:
                # If the pod ends after this point, the reconcile loop finds these entries and unprepares the
                # claims.
                await self._save("checkpoint ResourceClaim cache")
        return list(batches.values())

    def _add_user(self, pod: Pod, entry: _Wanted, batches: dict[DriverConnection, _Batch]) -> None:
        """Make the pod a user of the claim, and add an unprepared claim to ``batches``, the calls to drivers."""
        meta = entry.claim.metadata
        known = self.cache.get(meta.namespace, meta.name)
        if known is None:
            known = self.cache.add(entry.info)
        elif known.uid != meta.uid:
            raise DraError(
                f"old ResourceClaim with same name {meta.name} and different UID {known.uid} still exists"
                " (previous pod force-deleted?!)"
            )
        if known.unpreparing:
            raise DraError(f"ResourceClaim {meta.name} is being unprepared")
        known.pod_uids.add(pod.metadata.uid)
        if known.prepared:
            return
        # As upstream, a claim in two entries of the pod is requested twice, which fails because there is only
        # one answer.
        for driver in known.devices:
            if known.skips_operation(SKIP_PREPARE, driver):
                PREPARE_SKIPS.labels(driver).inc()
                continue
            connection = entry.connections.get(driver) or self.connections.get(driver)
            batches.setdefault(connection, _Batch(connection)).claims.append(_request(known))

    async def _call_prepare(self, batch: _Batch, wanted: Sequence[_Wanted], phase: _Preparing) -> None:
        try:
            answers = await batch.connection.prepare(batch.claims)
        except DriverError as error:
            raise DraError(f"NodePrepareResources: {error}") from error
        await self._report_phase(phase.on(PrepareEvent.CALL))
        asked = {claim.uid: claim for claim in batch.claims}
        for uid, answer in answers.items():
            if uid not in asked:
                raise DraError(f"NodePrepareResources returned result for unknown claim UID {uid}")
            if answer.error:
                raise DraError(
                    f"NodePrepareResources failed for ResourceClaim {asked[uid].name}: {answer.error}"
                )
            info = self._info(next(entry.claim for entry in wanted if entry.claim.metadata.uid == uid))
            # An answer to a repeated call, for example after a restart, replaces the first one.
            info.devices[batch.connection.driver] = []
            for device in answer.devices:
                info.add_device(batch.connection.driver, _checkpoint_device(device))
        if skipped := len(batch.claims) - len(answers):
            raise DraError(f"NodePrepareResources skipped {skipped} ResourceClaims")

    def _info(self, claim: ResourceClaim) -> ClaimInfo:
        info = self.cache.get(claim.metadata.namespace, claim.metadata.name)
        if info is None:
            raise unknown_claim(claim.metadata.name, claim.metadata.namespace)
        return info

    # Unpreparing

    async def unprepare(self, pod: Pod) -> None:
        """Unprepare the claims that only this pod uses, and remove the pod from the others. Can be repeated.

        Raises:
            DraError: a driver failed; the pod still counts as a user of that claim.
        """
        try:
            with observe_duration("UnprepareResources", self._clock):
                names = self._claims_to_unprepare(pod)
                await self._unprepare(pod.metadata.uid, pod.metadata.namespace, names)
        except (DraError, ClaimReferenceError, DriverError) as error:
            raise DraError(f"unprepare dynamic resources: {error}") from error

    def _claims_to_unprepare(self, pod: Pod) -> list[str]:
        """Return the names of the pod's claims.

        Since 1.37 the stored state names them, because a pod may have lost the names in its status.
        """
        if self._names_in_cache:
            uid = pod.metadata.uid
            names = [info.name for info in self.cache if uid in info.pod_uids]
            if names:
                return names
        found = (claim_name(pod, entry)[0] for entry in self._pod_claims(pod))
        return [name for name in found if name is not None]

    def might_need_to_unprepare(self, pod_uid: str) -> bool:
        """True if the pod still uses a claim, so that it must not be reported as finished."""
        return self.cache.has_pod_reference(pod_uid)

    async def reconcile(self, active_pod_uids: Iterable[str]) -> None:
        """Unprepare the claims of pods that are no longer active, for example after a missed deletion."""
        active = set(active_pod_uids)
        inactive: dict[tuple[str, str], list[str]] = defaultdict(list)
        for info in self.cache:
            for uid in info.pod_uids - active:
                inactive[uid, info.namespace].append(info.name)
        for (uid, namespace), names in inactive.items():
            try:
                await self._unprepare(uid, namespace, names)
            except (DraError, DriverError) as error:
                _log.info("claims of a past pod not unprepared, will retry", pod_uid=uid, error=str(error))

    async def _unprepare(self, pod_uid: str, namespace: str, names: Sequence[str]) -> None:
        async with self._lock_claims(f"{namespace}/{name}" for name in names):
            await self._leave(pod_uid, namespace, names)

    async def _leave(self, pod_uid: str, namespace: str, names: Sequence[str]) -> None:
        batches: dict[str, list[dra_v1_pb2.Claim]] = {}
        leaving: list[ClaimInfo] = []
        known = [info for info in (self.cache.get(namespace, name) for name in names) if info is not None]
        for info in known:
            if pod_uid not in info.pod_uids:
                continue
            if len(info.pod_uids) > 1:
                # The new state is stored below. After a crash before that, this is only repeated.
                info.pod_uids.discard(pod_uid)
                continue
            leaving.append(info)
            # The claim stays in this state if a driver fails, because another driver may already have
            # unprepared its devices.
            info.unpreparing = True
            for driver in info.devices:
                if info.skips_operation(SKIP_UNPREPARE, driver):
                    UNPREPARE_SKIPS.labels(driver).inc()
                    continue
                batches.setdefault(driver, []).append(_request(info))
        if not known:
            return
        phase = StateMachine(UnpreparePhase.IN_USE, UNPREPARE)
        for driver, claims in batches.items():
            connection = self.connections.get(driver)
            try:
                errors = await connection.unprepare(claims)
            except DriverError as error:
                raise DraError(f"NodeUnprepareResources: {error}") from error
            await self._report_phase(phase.on(UnprepareEvent.CALL))
            asked = {claim.uid: claim for claim in claims}
            for uid, message in errors.items():
                if uid not in asked:
                    raise DraError(f"NodeUnprepareResources returned result for unknown claim UID {uid}")
                if message:
                    raise DraError(
                        f"NodeUnprepareResources failed for ResourceClaim {asked[uid].name}: {message}"
                    )
            if skipped := len(claims) - len(errors):
                raise DraError(f"NodeUnprepareResources skipped {skipped} ResourceClaims")
        for info in leaving:
            self.cache.delete(info.namespace, info.name)
        await self._save("checkpoint ResourceClaim state")
        await self._report_phase(phase.on(UnprepareEvent.SAVE))

    # Helpers

    @contextlib.asynccontextmanager
    async def _lock_claims(self, keys: Iterable[str]) -> AsyncIterator[None]:
        # A lock for each claim, so that preparing it for a new pod cannot overlap with unpreparing it for
        # another.
        async with contextlib.AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                if self._locks is None:
                    self._locks = WeakValueDictionary()
                lock = self._locks.get(key)
                if lock is None:
                    self._locks[key] = lock = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield

    def _pod_claims(self, pod: Pod) -> list[PodResourceClaim]:
        claims = list(pod.spec.resource_claims)
        extended = pod.status.extended_resource_claim_status
        if self._extended_resources and extended is not None:
            claims.append(PodResourceClaim(resource_claim_name=extended.resource_claim_name))
        return claims

    async def _save(self, what: str) -> None:
        try:
            await self.cache.save()
        except CheckpointError as error:
            raise DraError(f"{what}: {error}") from error

    async def _report_phase(self, phase: PreparePhase | UnpreparePhase) -> None:
        if self._on_phase is not None:
            await self._on_phase(phase)


def _request(info: ClaimInfo) -> dra_v1_pb2.Claim:
    return dra_v1_pb2.Claim(namespace=info.namespace, uid=info.uid, name=info.name)


def _checkpoint_device(device: dra_v1_pb2.Device) -> CheckpointDevice:
    return CheckpointDevice(
        pool_name=device.pool_name,
        device_name=device.device_name,
        share_id=device.share_id if device.HasField("share_id") else None,
        request_names=tuple(device.request_names) or None,
        cdi_device_ids=tuple(device.cdi_device_ids) or None,
    )
