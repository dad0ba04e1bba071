"""References between a world's objects that affect decisions."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceClaimSpec
from dra_shared.api.resources import (
    COMPOSITE_POD_GROUPS,
    CSI_DRIVERS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    Resource,
)
from dra_shared.claims import pod_group_name

from dra_scheduler.plan.objects import BY_KIND, Objects

# The prefix of classes that exist in each cluster.
_SYSTEM = "system-"
_GROUPS: tuple[Resource[Any], ...] = (POD_GROUPS, COMPOSITE_POD_GROUPS)


class Reference(NamedTuple):
    """A reference from the object ``holder`` to another object."""

    resource: Resource[Any]
    key: str
    holder: str

    @property
    def name(self) -> str:
        """The name without its namespace."""
        return self.key.rpartition("/")[2]


def references(objects: Objects) -> Iterator[Reference]:
    """Yield each reference."""
    for pod in objects.of(PODS).values():
        if pod.status.phase not in ("Succeeded", "Failed"):
            yield from _of_pod(pod)
    for claim in objects.of(RESOURCE_CLAIMS).values():
        yield from _of_claim(claim)
    for template in objects.of(RESOURCE_CLAIM_TEMPLATES).values():
        yield from _classes(template.spec.spec, f"ResourceClaimTemplate {template.key}")
    for volume in objects.of(PERSISTENT_VOLUME_CLAIMS).values():
        holder = f"PersistentVolumeClaim {volume.key}"
        if volume.spec.volume_name:
            yield Reference(PERSISTENT_VOLUMES, volume.spec.volume_name, holder)
        elif volume.spec.storage_class_name:
            yield Reference(STORAGE_CLASSES, volume.spec.storage_class_name, holder)
    for persistent in objects.of(PERSISTENT_VOLUMES).values():
        if persistent.spec.csi is not None:
            yield Reference(CSI_DRIVERS, persistent.spec.csi.driver, f"PersistentVolume {persistent.key}")
    for resource in _GROUPS:
        for group in objects.of(resource).values():
            space, holder = group.metadata.namespace, f"{resource.kind} {group.key}"
            if parent := group.spec.parent_composite_pod_group_name:
                yield Reference(COMPOSITE_POD_GROUPS, f"{space}/{parent}", holder)
            for status in getattr(group.status, "resource_claim_statuses", ()):
                if status.resource_claim_name:
                    yield Reference(RESOURCE_CLAIMS, f"{space}/{status.resource_claim_name}", holder)


def _of_pod(pod: Pod) -> Iterator[Reference]:
    space, holder = pod.metadata.namespace, f"Pod {pod.key}"
    if pod.spec.node_name:
        yield Reference(NODES, pod.spec.node_name, holder)
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield Reference(RESOURCE_CLAIMS, f"{space}/{entry.resource_claim_name}", holder)
        if entry.resource_claim_template_name is not None:
            yield Reference(RESOURCE_CLAIM_TEMPLATES, f"{space}/{entry.resource_claim_template_name}", holder)
    for status in pod.status.resource_claim_statuses:
        if status.resource_claim_name:
            yield Reference(RESOURCE_CLAIMS, f"{space}/{status.resource_claim_name}", holder)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield Reference(RESOURCE_CLAIMS, f"{space}/{extended.resource_claim_name}", holder)
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
            yield Reference(PERSISTENT_VOLUME_CLAIMS, f"{space}/{name}", holder)
        elif volume.ephemeral is not None and pod.spec.node_name:
            name = f"{pod.metadata.name}-{volume.name}"
            yield Reference(PERSISTENT_VOLUME_CLAIMS, f"{space}/{name}", holder)
    priority = pod.spec.priority_class_name
    if priority and not priority.startswith(_SYSTEM):
        yield Reference(PRIORITY_CLASSES, priority, holder)
    if pod.spec.runtime_class_name:
        yield Reference(RUNTIME_CLASSES, pod.spec.runtime_class_name, holder)
    if (group := pod_group_name(pod)) is not None:
        yield Reference(POD_GROUPS, f"{space}/{group}", holder)
    yield from _owner(pod)
    if _selects_namespaces(pod):
        yield Reference(NAMESPACES, space, holder)


def _owner(pod: Pod) -> Iterator[Reference]:
    for owner in pod.metadata.owner_references:
        group = owner.api_version.rpartition("/")[0]
        resource = BY_KIND.get((group, owner.kind))
        if owner.controller and resource is not None and resource.namespaced:
            yield Reference(resource, f"{pod.metadata.namespace}/{owner.name}", f"Pod {pod.key}")


def _selects_namespaces(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    return any(
        term.namespace_selector is not None
        for kind in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if kind is not None
        for term in (
            *kind.required_during_scheduling_ignored_during_execution,
            *(each.pod_affinity_term for each in kind.preferred_during_scheduling_ignored_during_execution),
        )
    )


def _of_claim(claim: ResourceClaim) -> Iterator[Reference]:
    space, holder = claim.metadata.namespace, f"ResourceClaim {claim.key}"
    yield from _classes(claim.spec, holder)
    for consumer in claim.status.reserved_for:
        if not consumer.api_group and consumer.resource == "pods":
            yield Reference(PODS, f"{space}/{consumer.name}", holder)
        elif consumer.resource == "podgroups":
            yield Reference(POD_GROUPS, f"{space}/{consumer.name}", holder)


def _classes(spec: ResourceClaimSpec, holder: str) -> Iterator[Reference]:
    for request in spec.devices.requests:
        asked = (request.exactly,) if request.exactly is not None else request.first_available
        for each in asked:
            yield Reference(DEVICE_CLASSES, each.device_class_name, holder)
