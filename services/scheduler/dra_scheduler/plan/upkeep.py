"""The parts of the claim controller that affect decisions.

Mirrors upstream's ``pkg/controller/resourceclaim``: claims from templates, and reservations and claims of
deleted pods. No driver reports binding conditions here, so pods that wait for them are given up after the
scheduler's timeout.
"""

import msgspec
from dra_shared.api.meta import OwnerReference
from dra_shared.api.pod import Pod, PodResourceClaimStatus
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import POD_GROUPS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dra_shared.api.scheduling import PodGroup
from dra_shared.claims import (
    FINALIZER,
    POD_CLAIM_ANNOTATION,
    ClaimReferenceError,
    claim_name,
    consumer_of,
    controller_of,
    pod_group_name,
)
from dra_shared.claimtemplates import claim_from_template

from dra_scheduler.plan.memory import MemoryClient
from dra_scheduler.plan.quotas import Quotas

_replace = msgspec.structs.replace


class Upkeep:
    """Creates and deletes claims as the resource claim controller would."""

    def __init__(self, client: MemoryClient, quotas: Quotas) -> None:
        self._client, self._quotas = client, quotas
        # For each pod, the reason why the API server refused a claim for it.
        self.refusals: dict[str, str] = {}
        client.on_pod_gone = self.handle_deleted_pod
        client.refusal_of_claim = quotas.refusal_of_claim

    def with_claims(self, pod: Pod) -> Pod:
        """Return the pod with the names of its new claims. Claims with a missing template are not created."""
        statuses = {status.name: status for status in pod.status.resource_claim_statuses}
        group = self._group_of(pod)
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name is None or entry.name in statuses:
                continue
            owner = OwnerReference(
                api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
            )
            try:
                if group is not None and consumer_of(pod, group, entry).resource == "podgroups":
                    owner = OwnerReference(
                        api_version=POD_GROUPS.api_version,
                        kind="PodGroup",
                        name=group.metadata.name,
                        uid=group.metadata.uid,
                        controller=True,
                    )
            except ClaimReferenceError:
                continue
            name = self._claim(pod, entry.resource_claim_template_name, owner, entry.name)
            if name is not None:
                statuses[entry.name] = PodResourceClaimStatus(name=entry.name, resource_claim_name=name)
        made = tuple(statuses[e.name] for e in pod.spec.resource_claims if e.name in statuses)
        if made == pod.status.resource_claim_statuses:
            return pod
        return _replace(pod, status=_replace(pod.status, resource_claim_statuses=made))

    def _claim(self, pod: Pod, template_name: str, owner: OwnerReference, entry: str) -> str | None:
        namespace = pod.metadata.namespace
        if owner.kind == "PodGroup":
            for claim in self._client.objects(RESOURCE_CLAIMS):
                controller = controller_of(claim)
                mine = controller is not None and controller.uid == owner.uid
                if mine and claim.metadata.annotations.get(POD_CLAIM_ANNOTATION) == entry:
                    return claim.metadata.name
        template = self._client.find(RESOURCE_CLAIM_TEMPLATES, f"{namespace}/{template_name}")
        if template is None:
            return None
        claim = claim_from_template(template, owner, entry)
        meta = _replace(
            claim.metadata,
            name=self._client.new_name(claim.metadata.generate_name),
            namespace=namespace,
            uid=self._client.new_uid(),
            # The scheduler would add the finalizer before it allocates. Adding it here saves a write.
            finalizers=(FINALIZER,),
        )
        claim = _replace(claim, metadata=meta)
        if refusal := self._quotas.refusal_of_claim(claim):
            self.refusals[pod.key] = refusal
            return None
        return self._client.put(RESOURCE_CLAIMS, claim).metadata.name

    def _group_of(self, pod: Pod) -> PodGroup | None:
        name = pod_group_name(pod)
        return None if name is None else self._client.find(POD_GROUPS, f"{pod.metadata.namespace}/{name}")

    def handle_deleted_pod(self, pod: Pod) -> None:
        """Remove the reservations of the pod's claims, and delete the claims that were created for it."""
        for name in claim_names(pod):
            key = f"{pod.metadata.namespace}/{name}"
            claim = self._client.find(RESOURCE_CLAIMS, key)
            if claim is not None:
                self._release(claim, pod)

    def _release(self, claim: ResourceClaim, pod: Pod) -> None:
        left = tuple(c for c in claim.status.reserved_for if c.uid != pod.metadata.uid)
        if len(left) < len(claim.status.reserved_for):
            status = _replace(claim.status, reserved_for=left)
            if not left:
                status = _replace(status, allocation=None)
            self._client.put(RESOURCE_CLAIMS, _replace(claim, status=status))
        owner = controller_of(claim)
        if owner is not None and owner.uid == pod.metadata.uid:
            self._client.drop(RESOURCE_CLAIMS, claim.key)


def claim_names(pod: Pod) -> list[str]:
    """Return the names of the pod's existing claims, the one for extended resources last."""
    names = []
    for entry in pod.spec.resource_claims:
        try:
            names.append(claim_name(pod, entry)[0])
        except ClaimReferenceError:
            continue
    if pod.status.extended_resource_claim_status is not None:
        names.append(pod.status.extended_resource_claim_status.resource_claim_name)
    return [name for name in names if name]
