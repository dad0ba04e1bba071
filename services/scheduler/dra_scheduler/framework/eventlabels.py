"""The names of cluster events in metrics, for each version of Kubernetes.

Mirrors ``ClusterEvent.Label`` in ``staging/src/k8s.io/kube-scheduler/framework/types.go``, and the special
labels in ``pkg/scheduler/framework/events.go``.
"""

from typing import Final

from dra_shared.api.pod import Pod
from dra_shared.version import V1_37, Version

from dra_scheduler.framework.events import Action, Event, Kind

FAILED: Final = "ScheduleAttemptFailure"
BACKED_OFF: Final = "BackoffComplete"
POPPED_EARLY: Final = "PopFromBackoffQ"
FORCED: Final = "ForceActivate"
TIMED_OUT: Final = "UnschedulableTimeout"

_RESOURCES = {
    Kind.POD: "AssignedPod",
    Kind.RESOURCE_CLAIM: "resource.k8s.io/ResourceClaim",
    Kind.RESOURCE_SLICE: "resource.k8s.io/ResourceSlice",
    Kind.DEVICE_CLASS: "resource.k8s.io/DeviceClass",
    Kind.POD_GROUP: "scheduling.k8s.io/PodGroup",
    Kind.COMPOSITE_POD_GROUP: "scheduling.k8s.io/CompositePodGroup",
    Kind.STORAGE_CLASS: "storage.k8s.io/StorageClass",
    Kind.CSI_NODE: "storage.k8s.io/CSINode",
    Kind.CSI_DRIVER: "storage.k8s.io/CSIDriver",
    Kind.CSI_STORAGE_CAPACITY: "storage.k8s.io/CSIStorageCapacity",
    Kind.VOLUME_ATTACHMENT: "storage.k8s.io/VolumeAttachment",
}
# Upstream reports each part of a change as a separate event, in this order.
_ACTIONS = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.NODE_LABEL: "UpdateNodeLabel",
    Action.NODE_TAINT: "UpdateNodeTaint",
    Action.NODE_CONDITION: "UpdateNodeCondition",
    Action.NODE_FEATURES: "UpdateNodeDeclaredFeature",
    Action.POD_LABEL: "UpdatePodLabel",
    Action.POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.POD_GATES: "UpdatePodSchedulingGatesEliminated",
    Action.POD_TOLERATIONS: "UpdatePodToleration",
    Action.POD_CLAIMS: "UpdatePodGeneratedResourceClaim",
}


def event_label(event: Event, kubernetes: Version) -> str:
    """Return the label, such as ``NodeAdd``. A change with several parts is named by the first part."""
    # A new member is the event that the other pods of its group wait for.
    if event.kind is Kind.POD_GROUP and isinstance(event.new, Pod):
        return event_label(Event(Kind.TARGET_POD, Action.ADD), kubernetes)
    return _resource(event, kubernetes) + _action(event.action)


def _resource(event: Event, kubernetes: Version) -> str:
    if event.kind is not Kind.TARGET_POD:
        return _RESOURCES.get(event.kind, event.kind.value)
    if kubernetes < V1_37:
        return "UnschedulablePod"
    return "UnscheduledPod" if event.action is Action.ADD else "TargetPod"


def _action(action: Action) -> str:
    return next((name for part, name in _ACTIONS.items() if part in action), "Update")
