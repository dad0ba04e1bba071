"""What the workload controllers share about pods: active, ready, ranks for deletion.

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
    """Index function: the uid of the object's controller."""
    owner = controller_of(obj)
    return [owner.uid] if owner is not None else []


def orphan_index(obj: Object) -> list[str]:
    """Index function: the namespace of an object without a controller."""
    return [obj.metadata.namespace] if controller_of(obj) is None else []


def controller_reference(resource: Resource[Any], owner: Object) -> OwnerReference:
    """The owner reference that makes ``owner`` an object's controller."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def from_template(template: PodTemplateSpec, owner: OwnerReference) -> Pod:
    """The pod that ``template`` describes, for the API server to name after its owner."""
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
    """Whether the pod has ended."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Whether the pod runs or may run, and is not deleted."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None


def condition(pod: Pod, kind: str) -> PodCondition | None:
    """The pod's condition of that type."""
    for entry in pod.status.conditions:
        if entry.type == kind:
            return entry
    return None


def is_ready(pod: Pod) -> bool:
    """Whether the pod says that it is ready."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.status == "True"


def available_in(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """Seconds until the pod counts as available: 0 if it does, None if it isn't even ready."""
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
    """``pods`` with those to delete first at the front; ``neighbours`` counts related pods by node.

    As upstream's ActivePodsWithRanks: unassigned, pending, not ready, cheap, crowded, young, often restarted.
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
