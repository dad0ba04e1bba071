"""Functions about pods that the workload controllers share: active, ready, order of deletion.

Mirrors pkg/controller/controller_utils.go and pkg/api/v1/pod/util.go.
"""

import functools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from dra_shared.api.meta import Object, ObjectMeta, OwnerReference
from dra_shared.api.pod import Pod, PodCondition, PodTemplateSpec
from dra_shared.api.resources import Resource
from dra_shared.claims import controller_of
from dra_shared.clock import parse_rfc3339

OWNER_INDEX = "controller"
ORPHAN_INDEX = "orphan"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def owner_index(obj: Object) -> list[str]:
    """Return the uid of the object's controller (an index function)."""
    owner = controller_of(obj)
    return [owner.uid] if owner is not None else []


def orphan_index(obj: Object) -> list[str]:
    """Return the namespace of an object without a controller (an index function)."""
    return [obj.metadata.namespace] if controller_of(obj) is None else []


def controller_reference(resource: Resource[Any], owner: Object) -> OwnerReference:
    """Return the owner reference that makes ``owner`` the controller of an object."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def pod_from_template(template: PodTemplateSpec, owner: OwnerReference) -> Pod:
    """Return the pod that ``template`` describes. The API server will name it after its owner."""
    meta = template.metadata
    return Pod(
        metadata=ObjectMeta(
            generate_name=f"{owner.name}-",
            labels=meta.labels,
            annotations=meta.annotations,
            finalizers=meta.finalizers,
            owner_references=(owner,),
        ),
        spec=template.spec,
    )


def is_terminal(pod: Pod) -> bool:
    """Return True if the pod has ended."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Return True if the pod runs or may run, and is not deleted."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None


def condition(pod: Pod, kind: str) -> PodCondition | None:
    """Return the pod's condition of that type; None if there is none."""
    for entry in pod.status.conditions:
        if entry.type == kind:
            return entry
    return None


def is_ready(pod: Pod) -> bool:
    """Return True if the pod reports that it is ready."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.status == "True"


def seconds_until_available(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """Return the seconds until the pod counts as available: 0 if it does, None if it is not even ready."""
    ready = condition(pod, "Ready")
    if ready is None or ready.status != "True":
        return None
    if min_ready_seconds == 0:
        return 0.0
    if ready.last_transition_time is None:
        return None
    since = parse_rfc3339(ready.last_transition_time)
    return max(0.0, (since + timedelta(seconds=min_ready_seconds) - now).total_seconds())


def deletion_order(pods: Sequence[Pod], neighbours: dict[str, int]) -> list[Pod]:
    """Return ``pods`` in the order of deletion. ``neighbours`` counts related pods by node.

    As upstream's ActivePodsWithRanks, these are deleted first: pods without a node, pending ones, those that
    are not ready, have a low deletion cost, share their node with more related pods, are younger, or restarted
    more often.
    """

    def compare(a: Pod, b: Pod) -> int:
        return _compare(a, b, neighbours)

    return sorted(pods, key=functools.cmp_to_key(compare))


def _compare(a: Pod, b: Pod, neighbours: dict[str, int]) -> int:
    phases = {"Pending": 0, "Unknown": 1, "": 1}
    for first, second in (
        (bool(a.spec.node_name), bool(b.spec.node_name)),
        (phases.get(a.status.phase, 2), phases.get(b.status.phase, 2)),
        (is_ready(a), is_ready(b)),
        (_cost(a), _cost(b)),
        (-neighbours.get(a.spec.node_name, 0), -neighbours.get(b.spec.node_name, 0)),
    ):
        if first != second:
            return -1 if first < second else 1
    if is_ready(a) and is_ready(b):
        since_a, since_b = _ready_since(a), _ready_since(b)
        if since_a != since_b:
            return -1 if since_a > since_b else 1
    restarts_a, restarts_b = _restarts(a), _restarts(b)
    if restarts_a != restarts_b:
        return -1 if restarts_a > restarts_b else 1
    created_a, created_b = a.metadata.creation_timestamp or "", b.metadata.creation_timestamp or ""
    if created_a != created_b:
        return -1 if created_a > created_b else 1
    return 0


def _cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(_DELETION_COST, "0"))
    except ValueError:
        return 0


def _ready_since(pod: Pod) -> str:
    ready = condition(pod, "Ready")
    return (ready.last_transition_time or "") if ready is not None else ""


def _restarts(pod: Pod) -> int:
    return max((status.restart_count or 0 for status in pod.status.container_statuses), default=0)
