"""The watches of the claim controller, and the keys that each event adds to its queue.

Mirrors the event handlers in pkg/controller/resourceclaim/controller.go.
"""

from collections.abc import Callable
from typing import TypeVar

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceClaimTemplate
from dra_shared.api.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dra_shared.api.scheduling import PodGroup
from dra_shared.claims import (
    ClaimReferenceError,
    check_for_pod,
    check_for_pod_group,
    claim_keys,
    claim_name,
    consumer_of,
    pod_group_claim_name,
    pod_group_name,
)
from dra_shared.podgroups import pod_groups

from dra_controller.framework import Context, QueueController
from dra_controller.resourceclaim.created import CreatedClaims
from dra_controller.resourceclaim.metrics import ClaimMetrics
from dra_controller.resourceclaim.provision import Provisioner, needs_reservation
from dra_controller.resourceclaim.reservations import Reservations, is_done
from dra_controller.resourceclaim.views import OWNER_INDEX, SyncError, Views, owner_index
from dra_controller.uids import RecentUids

T = TypeVar("T")

_CLAIM, _POD, _GROUP = "claim:", "pod:", "podgroup:"
_BY_CLAIM, _BY_TEMPLATE, _BY_GROUP = "claim", "template", "podGroup"


class ResourceClaimController(QueueController):
    """The resourceclaim-controller of kube-controller-manager."""

    name = "resourceclaim-controller"
    queue_name = "resource_claim"
    workers = 50

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        pods = self.watch(PODS)
        claims = self.watch(RESOURCE_CLAIMS)
        templates = self.watch(RESOURCE_CLAIM_TEMPLATES)
        with_groups = context.features.enabled("DRAWorkloadResourceClaims")
        groups = self.watch(pod_groups(context.features.version)) if with_groups else None
        self._views = Views(
            client=context.client,
            recorder=context.recorder("resource_claim"),
            features=context.features,
            metrics=ClaimMetrics(context.registry, claims.store.list, context.features.version),
            pods=pods.store,
            claims=claims.store,
            templates=templates.store,
            groups=groups.store if groups is not None else None,
            created=CreatedClaims(context.clock, claims.store.get),
            deleted=RecentUids(),
        )
        self._provisioner = Provisioner(self._views)
        self._reservations = Reservations(self._views)
        pods.store.add_index(_BY_CLAIM, claim_keys)
        pods.store.add_index(_BY_TEMPLATE, _templates_of)
        claims.store.add_index(OWNER_INDEX, owner_index)
        if groups is not None:
            pods.store.add_index(_BY_GROUP, _group_of)
            groups.store.add_index(_BY_CLAIM, claim_keys)
            groups.store.add_index(_BY_TEMPLATE, _templates_of)
            groups.add_handler(self._group_changed, _newer(self._group_changed), self._group_deleted)
        pods.add_handler(self._pod_added, self._pod_updated, self._pod_deleted)
        claims.add_handler(self._claim_changed, _newer(self._claim_changed), self._claim_deleted)
        templates.add_handler(self._template_changed, _newer(self._template_changed))

    async def reconcile(self, key: str) -> None:
        prefix, _, name = key.partition(":")
        match f"{prefix}:":
            case "pod:":
                await self._provisioner.sync_pod(name)
            case "podgroup:":
                await self._provisioner.sync_pod_group(name)
            case "claim:":
                await self._reservations.sync_claim(name)
            case _:
                raise ValueError(f"unexpected key {key}")

    def _pod_changed(self, pod: Pod, *, deleted: bool = False) -> None:
        extended = pod.status.extended_resource_claim_status
        if not pod.spec.resource_claims and extended is None:
            return
        if deleted:
            self._views.deleted.add(pod.metadata.uid)
        if deleted or is_done(pod):
            names = [*claim_keys(pod)]
            if extended is not None:
                # Only the key of the claim for extended resources: the scheduler created it, so no pod key
                # covers it.
                names.append(f"{pod.metadata.namespace}/{extended.resource_claim_name}")
            for name in names:
                self.queue.add(_CLAIM + name)
        if self._pod_needs_work(pod):
            self.queue.add(_POD + pod.key)

    def _pod_added(self, pod: Pod) -> None:
        self._pod_changed(pod)
        self._queue_surplus(pod)

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        self._pod_changed(pod)
        if old.status.resource_claim_statuses != pod.status.resource_claim_statuses:
            self._queue_surplus(pod)

    def _queue_surplus(self, pod: Pod) -> None:
        """Queue the claims that were created for the pod and that its status does not name. They may be surplus."""
        names = {status.resource_claim_name for status in pod.status.resource_claim_statuses}
        if names:
            for claim in self._views.claims.by_index(OWNER_INDEX, pod.metadata.uid):
                if claim.metadata.name not in names:
                    self.queue.add(_CLAIM + claim.key)

    def _pod_deleted(self, pod: Pod) -> None:
        self._pod_changed(pod, deleted=True)

    def _pod_needs_work(self, pod: Pod) -> bool:
        if pod.metadata.deletion_timestamp is not None:
            return False
        pod_groups = self._views.pod_groups
        for entry in pod.spec.resource_claims:
            try:
                name, check = claim_name(pod, entry)
            except ClaimReferenceError:
                return True
            if name is None:
                continue
            claim = self._views.claims.get(f"{pod.metadata.namespace}/{name}")
            if claim is None:
                if entry.resource_claim_template_name is None:
                    continue
                try:
                    consumer = consumer_of(pod, self._views.group_of(pod), entry)
                except SyncError:
                    return True
                except ClaimReferenceError:
                    continue
                if consumer.resource != "podgroups":
                    return True
                continue
            if check:
                try:
                    check_for_pod(pod, claim, pod_groups=pod_groups)
                except ClaimReferenceError:
                    # Nothing can be done until the other claim with that name is gone.
                    continue
            if pod.spec.node_name and needs_reservation(pod, claim, pod_groups=pod_groups):
                return True
        return False

    def _group_changed(self, group: PodGroup, *, deleted: bool = False) -> None:
        if not group.spec.resource_claims:
            return
        if deleted:
            self._views.deleted.add(group.metadata.uid)
            for name in claim_keys(group):
                self.queue.add(_CLAIM + name)
        if self._group_needs_work(group):
            self.queue.add(_GROUP + group.key)
        # The pods of the group get the names of their claims from the group's status.
        for pod in self._views.pods.by_index(_BY_GROUP, group.key):
            self._pod_changed(pod)

    def _group_deleted(self, group: PodGroup) -> None:
        self._group_changed(group, deleted=True)

    def _group_needs_work(self, group: PodGroup) -> bool:
        if group.metadata.deletion_timestamp is not None:
            return False
        for entry in group.spec.resource_claims:
            try:
                name, check = pod_group_claim_name(group, entry)
            except ClaimReferenceError:
                return True
            if name is None:
                continue
            claim = self._views.claims.get(f"{group.metadata.namespace}/{name}")
            if claim is None:
                if entry.resource_claim_template_name is not None:
                    return True
            elif check:
                try:
                    check_for_pod_group(group, claim)
                except ClaimReferenceError:
                    continue
        return False

    def _claim_changed(self, claim: ResourceClaim, *, deleted: bool = False) -> None:
        self._views.created.discard(claim.key)
        if not deleted:
            self.queue.add(_CLAIM + claim.key)
        for pod in self._views.pods.by_index(_BY_CLAIM, claim.key):
            self._pod_changed(pod)
        if self._views.groups is not None:
            for group in self._views.groups.by_index(_BY_CLAIM, claim.key):
                self._group_changed(group)

    def _claim_deleted(self, claim: ResourceClaim) -> None:
        self._claim_changed(claim, deleted=True)

    def _template_changed(self, template: ResourceClaimTemplate) -> None:
        for pod in self._views.pods.by_index(_BY_TEMPLATE, template.key):
            self._pod_changed(pod)
        if self._views.groups is not None:
            for group in self._views.groups.by_index(_BY_TEMPLATE, template.key):
                self._group_changed(group)


def _newer(function: Callable[[T], None]) -> Callable[[T, T], None]:
    return lambda _, new: function(new)


def _templates_of(consumer: Pod | PodGroup) -> list[str]:
    return [
        f"{consumer.metadata.namespace}/{entry.resource_claim_template_name}"
        for entry in consumer.spec.resource_claims
        if entry.resource_claim_template_name is not None
    ]


def _group_of(pod: Pod) -> list[str]:
    name = pod_group_name(pod)
    return [f"{pod.metadata.namespace}/{name}"] if name is not None else []
