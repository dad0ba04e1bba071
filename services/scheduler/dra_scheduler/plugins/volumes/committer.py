"""VolumeBinding's PreBind: writes assumed volumes and claims, and waits until the volumes are bound.

Mirrors ``BindPodVolumes`` in upstream's ``pkg/scheduler/framework/plugins/volumebinding/binder.go``.
"""

from collections.abc import Callable
from typing import TypeVar

import httpx
import msgspec
from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.node import Node
from dra_shared.api.pod import ObjectReference, Pod
from dra_shared.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from dra_shared.api.storage import PersistentVolume
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, wait_for

from dra_scheduler.plugins.volumes.finder import SELECTED_NODE, PodVolumes, VolumeError
from dra_scheduler.plugins.volumes.matching import is_bound, is_reachable, is_reserved_for
from dra_scheduler.plugins.volumes.objects import OutOfSync, VolumeObjects

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
# Poll for a deleted pod or node, because their volumes do not change then.
_POLL_INTERVAL = 1.0


class VolumeCommitter:
    """Assumes changes of claims and volumes, and writes them.

    ``newest_pod`` returns the informer's pod with that key. All volumes of a pod must be bound within
    ``timeout`` seconds.
    """

    def __init__(
        self,
        objects: VolumeObjects,
        client: Client,
        clock: Clock,
        *,
        node: Callable[[str], Node | None],
        newest_pod: Callable[[str], Pod | None],
        timeout: float,
    ) -> None:
        self._objects = objects
        self._client = client
        self._clock = clock
        self._node = node
        self._newest_pod = newest_pod
        self._timeout = timeout

    def assume(self, volumes: PodVolumes, node_name: str) -> PodVolumes:
        """Assume the volumes as reserved for this pod, and return them.

        Raises:
            OutOfSync: something changed since they were chosen.
        """
        assumed = PodVolumes()
        try:
            for volume, claim in volumes.bindings:
                bound = _bound_to(volume, claim)
                if bound is not volume:
                    self._objects.volumes.assume(bound)
                assumed.bindings.append((bound, claim))
            for claim in volumes.provisions:
                selected = _annotate(claim, SELECTED_NODE, node_name)
                self._objects.claims.assume(selected)
                assumed.provisions.append(selected)
        except OutOfSync:
            self.revert(assumed)
            raise
        return assumed

    def revert(self, assumed: PodVolumes) -> None:
        """Undo :meth:`assume`."""
        for volume, _ in assumed.bindings:
            self._objects.volumes.restore(volume.key)
        for claim in assumed.provisions:
            self._objects.claims.restore(claim.key)

    async def commit(self, pod: Pod, assumed: PodVolumes) -> None:
        """Write the assumed objects, and wait for the volume controllers.

        Raises:
            VolumeError: it failed, took too long or was undone.
        """
        try:
            written = await self._write(assumed)
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as failure:
            raise VolumeError(str(failure)) from failure
        deadline = self._clock.monotonic() + self._timeout
        try:
            while not self._is_done(pod, written):
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    raise VolumeError("context deadline exceeded")
                await wait_for(self._objects.wait_for_change(), min(left, _POLL_INTERVAL), self._clock)
        except VolumeError as problem:
            raise VolumeError(f"binding volumes: {problem}") from problem

    async def _write(self, assumed: PodVolumes) -> PodVolumes:
        written = PodVolumes()
        for volume, claim in assumed.bindings:
            meta = volume.metadata
            body = {"metadata": _changes(volume), "spec": {"claimRef": volume.spec.claim_ref}}
            written.bindings.append((await self._client.patch(PERSISTENT_VOLUMES, meta.name, body), claim))
        for claim in assumed.provisions:
            meta = claim.metadata
            written.provisions.append(
                await self._client.patch(
                    PERSISTENT_VOLUME_CLAIMS, meta.name, {"metadata": _changes(claim)}, meta.namespace
                )
            )
        return written

    def _is_done(self, pod: Pod, written: PodVolumes) -> bool:
        """True if all volumes are bound according to the API server."""
        node = self._node(pod.spec.node_name)
        if node is None:
            raise VolumeError(
                f'failed to get node "{pod.spec.node_name}": node "{pod.spec.node_name}" not found'
            )
        newest = self._newest_pod(pod.key)
        if newest is None or newest.metadata.uid != pod.metadata.uid:
            raise VolumeError(f'pod does not exist any more: pod "{pod.metadata.name}" not found')
        return all(self._is_taken(volume, claim, node) for volume, claim in written.bindings) and all(
            self._is_made(claim, node) for claim in written.provisions
        )

    def _is_taken(self, written: PersistentVolume, for_claim: PersistentVolumeClaim, node: Node) -> bool:
        volume = self._objects.volumes.observed.get(written.key)
        claim = self._objects.claims.observed.get(for_claim.key)
        if volume is None:
            raise VolumeError(f'failed to check binding: persistentvolumes "{written.key}" not found')
        if claim is None:
            raise VolumeError(f'failed to check binding: persistentvolumeclaims "{for_claim.key}" not found')
        if _is_older(volume, written):
            return False
        _check_reachable(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise VolumeError(f'ClaimRef got reset for pv "{volume.metadata.name}"')
        return is_bound(claim)

    def _is_made(self, written: PersistentVolumeClaim, node: Node) -> bool:
        claim = self._objects.claims.observed.get(written.key)
        if claim is None:
            raise VolumeError(
                f'failed to check provisioning pvc: persistentvolumeclaims "{written.key}" not found'
            )
        if _is_older(claim, written):
            return False
        name = claim.metadata.name
        if not claim.metadata.annotations:
            raise VolumeError(f'selectedNode annotation reset for PVC "{name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != node.metadata.name:
            raise VolumeError(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = self._objects.volumes.observed.get(claim.spec.volume_name)
            if volume is None:
                return False
            _check_reachable(volume, node)
        return is_bound(claim)


def _bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return the volume bound to the claim (component-helpers' GetBindVolumeToClaim)."""
    bound, meta, reference = volume, claim.metadata, volume.spec.claim_ref
    wanted = (meta.name, meta.namespace, meta.uid)
    if reference is None or (reference.name, reference.namespace, reference.uid) != wanted:
        reference = ObjectReference(
            api_version="v1",
            kind="PersistentVolumeClaim",
            name=meta.name,
            namespace=meta.namespace,
            resource_version=meta.resource_version,
            uid=meta.uid,
        )
        spec = msgspec.structs.replace(volume.spec, claim_ref=reference)
        bound = msgspec.structs.replace(volume, spec=spec)
    if not is_reserved_for(volume, claim) and _BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        bound = _annotate(bound, _BOUND_BY_CONTROLLER, "yes")
    return bound


def _annotate(obj: T, key: str, value: str) -> T:
    meta = msgspec.structs.replace(obj.metadata, annotations={**obj.metadata.annotations, key: value})
    return msgspec.structs.replace(obj, metadata=meta)


def _changes(obj: PersistentVolume | PersistentVolumeClaim) -> dict[str, object]:
    """Return the metadata of a patch that only applies to the revision on which ``obj`` is based."""
    meta = obj.metadata
    return {"resourceVersion": meta.resource_version, "annotations": meta.annotations}


def _is_older(observed: T, written: T) -> bool:
    return int(observed.metadata.resource_version) < int(written.metadata.resource_version)


def _check_reachable(volume: PersistentVolume, node: Node) -> None:
    if not is_reachable(volume, node.metadata.labels):
        raise VolumeError(
            f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.metadata.name}": '
            "no matching NodeSelectorTerms"
        )
