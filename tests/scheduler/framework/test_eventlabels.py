from dra_scheduler.framework.eventlabels import event_label
from dra_scheduler.framework.events import Action, Event, Kind
from dra_shared.version import V1_34, V1_36, V1_37, Version

from tests.scheduler.objects import pod
from tests.support.cases import each_case


@each_case(
    ("kind", "action", "version", "label"),
    [
        (Kind.NODE, Action.ADD, V1_34, "NodeAdd"),
        (Kind.NODE, Action.NODE_TAINT, V1_37, "NodeUpdateNodeTaint"),
        (Kind.NODE, Action.NODE_LABEL | Action.NODE_ALLOCATABLE, V1_37, "NodeUpdateNodeAllocatable"),
        (Kind.POD, Action.DELETE, V1_34, "AssignedPodDelete"),
        (Kind.RESOURCE_CLAIM, Action.OTHER, V1_34, "resource.k8s.io/ResourceClaimUpdate"),
        (Kind.STORAGE_CLASS, Action.ADD, V1_37, "storage.k8s.io/StorageClassAdd"),
        (Kind.TARGET_POD, Action.ADD, V1_36, "UnschedulablePodAdd"),
        (Kind.TARGET_POD, Action.ADD, V1_37, "UnscheduledPodAdd"),
        (Kind.TARGET_POD, Action.POD_LABEL, V1_36, "UnschedulablePodUpdatePodLabel"),
        (Kind.TARGET_POD, Action.POD_LABEL, V1_37, "TargetPodUpdatePodLabel"),
        (Kind.POD_GROUP, Action.OTHER, V1_37, "scheduling.k8s.io/PodGroupUpdate"),
        (Kind.COMPOSITE_POD_GROUP, Action.ADD, V1_37, "scheduling.k8s.io/CompositePodGroupAdd"),
    ],
)
def test_events_have_the_upstream_names_of_each_version(
    kind: Kind, action: Action, version: Version, label: str
) -> None:
    assert event_label(Event(kind, action), version) == label


def test_the_addition_of_a_member_is_an_event_of_that_pod() -> None:
    event = Event(Kind.POD_GROUP, Action.OTHER, None, pod("member"))
    assert event_label(event, V1_37) == "UnscheduledPodAdd"
