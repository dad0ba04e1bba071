"""Creates the claims that pods and pod groups ask for by templates, and writes their names into statuses.

Mirrors ``syncPod`` and ``handleClaim`` in pkg/controller/resourceclaim/controller.go.
"""

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dra_shared.api.meta import OwnerReference
from dra_shared.api.pod import Pod, PodResourceClaim
from dra_shared.api.resource import ResourceClaim, ResourceClaimConsumerReference
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, Resource
from dra_shared.api.scheduling import PodGroup, PodGroupResourceClaim
from dra_shared.claims import (
    POD_CLAIM_ANNOTATION,
    ClaimNotCreatedError,
    ClaimReferenceError,
    check_for_pod,
    check_for_pod_group,
    claim_name,
    consumer_of,
    controller_of,
    is_reserved_for_pod,
    pod_group_claim_name,
)
from dra_shared.claimtemplates import claim_from_template
from dra_shared.client.errors import ApiError, Conflict, NotFound
from dra_shared.client.events import reference
from dra_shared.client.rest import PatchType
from dra_shared.log import logger
from msgspec.structs import replace

from dra_controller.resourceclaim.generate import TemplateError, check_features
from dra_controller.resourceclaim.reservations import is_done
from dra_controller.resourceclaim.views import SyncError, Views

FIELD_MANAGER = "ResourceClaimController"
#: Steps of client-go's retry.DefaultRetry.
_ATTEMPTS = 5

_log = logger(__name__)

Entry = PodResourceClaim | PodGroupResourceClaim
Consumer = TypeVar("Consumer", Pod, PodGroup)


class Provisioner:
    """Creates the claims of pods and pod groups."""

    def __init__(self, views: Views) -> None:
        self._views = views

    async def sync_pod(self, key: str) -> None:
        """Create the missing claims of the pod. Reserve allocated claims if the pod was placed without a scheduler."""
        views = self._views
        pod = views.pods.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None or is_done(pod):
            return
        try:
            group = views.group_of(pod)
        except SyncError as error:
            raise SyncError(f"get PodGroup for Pod {key}: {error}") from error
        made: dict[str, str] = {}
        for entry in pod.spec.resource_claims:
            try:
                name = await self._claim_for_pod(pod, group, entry)
            except (SyncError, TemplateError, ClaimReferenceError) as error:
                message = f"PodResourceClaim {entry.name}: {error}"
                views.recorder.event(reference(PODS, pod), "Warning", "FailedResourceClaimCreation", message)
                raise SyncError(f"pod {key}, {message}") from error
            if name is not None:
                made[entry.name] = name
        if made:
            try:
                await self._write_names(PODS, pod, made)
            except ApiError as error:
                raise SyncError(f"update pod {key} ResourceClaimStatuses: {error}") from error
        if pod.spec.node_name:
            await self._reserve(pod, group)

    async def sync_pod_group(self, key: str) -> None:
        """Create the missing claims of the pod group."""
        views = self._views
        group = views.groups.get(key) if views.groups is not None else None
        if group is None or group.metadata.deletion_timestamp is not None:
            return
        made: dict[str, str] = {}
        for entry in group.spec.resource_claims:
            try:
                name = await self._claim_for_group(group, entry)
            except (SyncError, TemplateError, ClaimReferenceError) as error:
                message = f"PodGroupResourceClaim {entry.name}: {error}"
                views.recorder.event(
                    reference(views.group_resource, group), "Warning", "FailedResourceClaimCreation", message
                )
                raise SyncError(f"PodGroup {key}, {message}") from error
            if name is not None:
                made[entry.name] = name
        if made:
            try:
                await self._write_names(views.group_resource, group, made)
            except ApiError as error:
                raise SyncError(f"update PodGroup {key} ResourceClaimStatuses: {error}") from error

    async def _claim_for_pod(self, pod: Pod, group: PodGroup | None, entry: PodResourceClaim) -> str | None:
        """Return the name of the entry's claim if the status of the pod lacks it."""
        views = self._views
        if self._is_there(
            pod,
            lambda: claim_name(pod, entry),
            lambda claim: check_for_pod(pod, claim, pod_groups=views.pod_groups),
        ):
            return None
        if entry.resource_claim_template_name is None or views.may_be_the_groups(pod):
            return None
        consumer = consumer_of(pod, group, entry)
        if group is not None and consumer.resource == "podgroups":
            shared = self._find(group.metadata.uid, entry.name)
            return shared.metadata.name if shared is not None else None
        owner = OwnerReference(
            api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
        )
        return await self._find_or_create(pod.metadata.namespace, owner, entry)

    async def _claim_for_group(self, group: PodGroup, entry: PodGroupResourceClaim) -> str | None:
        if self._is_there(
            group,
            lambda: pod_group_claim_name(group, entry),
            lambda claim: check_for_pod_group(group, claim),
        ):
            return None
        if entry.resource_claim_template_name is None:
            return None
        owner = OwnerReference(
            api_version=self._views.group_resource.api_version,
            kind="PodGroup",
            name=group.metadata.name,
            uid=group.metadata.uid,
            controller=True,
        )
        return await self._find_or_create(group.metadata.namespace, owner, entry)

    def _is_there(
        self,
        consumer: Pod | PodGroup,
        named: Callable[[], tuple[str | None, bool]],
        check: Callable[[ResourceClaim], None],
    ) -> bool:
        """Return True if an entry has the claim to which it refers, or needs none.

        Raises:
            SyncError: the entry refers to nothing.
        """
        try:
            name, generated = named()
        except ClaimNotCreatedError:
            return False
        except ClaimReferenceError as error:
            raise SyncError(f"checking for claim before creating it: {error}") from error
        if name is None:
            return True
        claim = self._views.claims.get(f"{consumer.metadata.namespace}/{name}")
        if claim is None:
            return False
        if not generated:
            return True
        try:
            check(claim)
        except ClaimReferenceError as error:
            _log.error("making another claim", consumer=consumer.key, claim=claim.key, error=str(error))
            return False
        return True

    async def _find_or_create(self, namespace: str, owner: OwnerReference, entry: Entry) -> str:
        """Return the claim that an earlier attempt created, or create one."""
        views = self._views
        found = self._find(owner.uid, entry.name)
        if found is not None and views.claims.get(found.key) is None:
            # Only this controller has recorded the claim. Ask the API server, because it may already have been
            # deleted.
            try:
                live = await views.client.get(RESOURCE_CLAIMS, found.metadata.name, namespace)
            except NotFound:
                live = None
            if live is None or live.metadata.uid != found.metadata.uid:
                views.created.discard(found.key)
                found = None
        if found is not None:
            return found.metadata.name
        template_name = entry.resource_claim_template_name
        template = views.templates.get(f"{namespace}/{template_name}")
        if template is None:
            raise SyncError(
                f'resource claim template "{template_name}": '
                f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            )
        check_features(template, views.features)
        wanted = claim_from_template(template, owner, entry.name)
        try:
            claim = await views.client.create(RESOURCE_CLAIMS, wanted, namespace)
        except ApiError as error:
            views.metrics.count_creation(wanted, success=False)
            raise SyncError(f"create ResourceClaim {wanted.metadata.name}: {error}") from error
        views.metrics.count_creation(wanted, success=True)
        views.created.add(claim)
        _log.info("made claim", claim=claim.key, owner=f"{owner.kind} {namespace}/{owner.name}")
        return claim.metadata.name

    def _find(self, owner_uid: str, entry: str) -> ResourceClaim | None:
        for claim in self._views.owned_claims(owner_uid):
            if claim.metadata.annotations.get(POD_CLAIM_ANNOTATION) == entry:
                return claim
        return None

    async def _write_names(
        self, resource: Resource[Consumer], consumer: Consumer, made: dict[str, str]
    ) -> None:
        """Write the names of the claims into the status of the consumer.

        The write only succeeds if the consumer has not changed since the decision. Otherwise another controller
        may have created a claim for the entry first. In that case that claim is kept and ours is deleted, so
        that each entry has one claim even with several controllers.

        Raises:
            Conflict: the state changed each time; the key is retried, later each time.
        """
        meta = consumer.metadata
        for attempt in itertools.count(1):
            try:
                await self._views.client.patch(
                    resource.skip_decoding,
                    meta.name,
                    _status_patch(resource, consumer, made),
                    meta.namespace,
                    patch_type=PatchType.APPLY,
                    subresource="status",
                    field_manager=FIELD_MANAGER,
                    force=True,
                )
                return
            except Conflict:
                if attempt == _ATTEMPTS:
                    raise
                consumer = await self._views.client.get(resource, meta.name, meta.namespace)
                if consumer.metadata.uid != meta.uid:
                    return
            made = {
                entry: name
                for entry, name in made.items()
                if not await self._is_in_status(consumer, entry, name)
            }
            if not made:
                return

    async def _is_in_status(self, consumer: Pod | PodGroup, entry: str, name: str) -> bool:
        """Return True if the consumer has a claim for the entry already. If that is another claim, ours is deleted."""
        for status in consumer.status.resource_claim_statuses:
            if status.name != entry or status.resource_claim_name is None:
                continue
            if status.resource_claim_name == name:
                return True
            namespace = consumer.metadata.namespace
            try:
                other = await self._views.client.get(RESOURCE_CLAIMS, status.resource_claim_name, namespace)
            except NotFound:
                return False
            owner = controller_of(other)
            if owner is None or owner.uid != consumer.metadata.uid:
                return False
            _log.info("another controller made the claim too, deleting ours", claim=f"{namespace}/{name}")
            with contextlib.suppress(NotFound):
                await self._views.client.delete(RESOURCE_CLAIMS, name, namespace)
            self._views.created.discard(f"{namespace}/{name}")
            return True
        return False

    async def _reserve(self, pod: Pod, group: PodGroup | None) -> None:
        """Reserve the claims of a pod that was placed without a scheduler, as a scheduler would have done."""
        views = self._views
        for entry in pod.spec.resource_claims:
            name, check = claim_name(pod, entry)
            if name is None:
                continue
            claim = views.claims.get(f"{pod.metadata.namespace}/{name}")
            if claim is None:
                return
            if check:
                check_for_pod(pod, claim, pod_groups=views.pod_groups)
            if needs_reservation(pod, claim, pod_groups=views.pod_groups):
                await self._reserve_for(consumer_of(pod, group, entry), claim)

    async def _reserve_for(self, consumer: ResourceClaimConsumerReference, claim: ResourceClaim) -> None:
        status = replace(claim.status, reserved_for=(*claim.status.reserved_for, consumer))
        try:
            await self._views.client.update(
                RESOURCE_CLAIMS, replace(claim, status=status), subresource="status"
            )
        except ApiError as error:
            raise SyncError(f"reserve claim {claim.key}: {error}") from error
        _log.info("reserved claim", claim=claim.key, consumer=f"{consumer.resource} {consumer.name}")


def needs_reservation(pod: Pod, claim: ResourceClaim, *, pod_groups: bool) -> bool:
    """Return True if an allocated claim lacks the reservation of a pod that is on its node already."""
    return claim.status.allocation is not None and not is_reserved_for_pod(pod, claim, pod_groups=pod_groups)


def _status_patch(resource: Resource[Consumer], obj: Consumer, made: dict[str, str]) -> dict[str, Any]:
    """Return the body to apply.

    The body lists all entries that this field manager owns, because server-side apply removes those that it
    omits.
    """
    names = {
        status.name: status.resource_claim_name
        for status in obj.status.resource_claim_statuses
        if status.resource_claim_name is not None
    }
    names |= made
    entries: Sequence[Entry] = obj.spec.resource_claims
    meta = {"name": obj.metadata.name, "namespace": obj.metadata.namespace}
    if obj.metadata.resource_version:
        meta["resourceVersion"] = obj.metadata.resource_version
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": meta,
        "status": {
            "resourceClaimStatuses": [
                {"name": entry.name, "resourceClaimName": names[entry.name]}
                for entry in entries
                if entry.name in names
            ]
        },
    }
