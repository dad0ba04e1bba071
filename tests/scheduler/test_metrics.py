from dra_scheduler.framework.cache import Cache
from dra_scheduler.metrics import count_attempt, count_claim, count_incoming, watch_cache, watch_entities
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_shared.api.codec import convert
from dra_shared.api.resources import NODES, PODS
from dra_shared.clock import FakeClock
from dra_shared.version import V1_36, V1_37
from prometheus_client import REGISTRY

from tests.scheduler.objects import node_json, pod_json


def _value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0


def test_attempts_are_counted_by_result_and_scheduler() -> None:
    def read_count(result: str) -> float:
        return _value("scheduler_schedule_attempts_total", result=result, profile="for-metrics")

    entry = QueuedPod(convert(PODS, pod_json("p", schedulerName="for-metrics")), 0.0, attempts=1)
    entry.rejections = 1
    count_attempt(entry, False, 0.1)
    entry.errors = 1
    count_attempt(entry, False, 0.1)
    entry.attempts = 3
    before = _value("scheduler_pod_scheduling_attempts_sum")
    count_attempt(entry, True, 0.25)
    assert [read_count(result) for result in ("unschedulable", "error", "scheduled")] == [1, 1, 1]
    assert _value("scheduler_pod_scheduling_attempts_sum") - before == 3
    assert (
        _value("scheduler_scheduling_attempt_duration_seconds_sum", result="scheduled", profile="for-metrics")
        == 0.25
    )


def test_the_cache_size_is_a_metric() -> None:
    cache = Cache()
    watch_cache(cache)
    cache.set_node(convert(NODES, node_json("n")))
    cache.set_pod(convert(PODS, pod_json("bound", nodeName="n")))
    cache.assume(convert(PODS, pod_json("assumed", nodeName="n")), "n")
    sizes = {kind: _value("scheduler_cache_size", type=kind) for kind in ("nodes", "pods", "assumed_pods")}
    assert sizes == {"nodes": 1, "pods": 2, "assumed_pods": 1}


def test_claims_are_counted_with_their_owner_since_1_37() -> None:
    old, new = (
        "scheduler_resourceclaim_creates_total",
        "dynamic_resource_allocation_resourceclaim_creates_total",
    )
    owner = {"admin_access": "false", "owner_api_group": "", "owner_api_kind": "Pod"}
    before = _value(old, status="failure"), _value(new, status="success", **owner)
    count_claim(V1_36, success=False)
    count_claim(V1_37, success=True)
    after = _value(old, status="failure"), _value(new, status="success", **owner)
    assert after == (before[0] + 1, before[1] + 1)


def test_the_pods_of_a_group_are_counted_as_one_entity() -> None:
    queue = SchedulingQueue(FakeClock())
    watch_entities(queue)
    for name in ("a", "b"):
        queue.add(convert(PODS, pod_json(name)))
        queue.add(convert(PODS, pod_json(f"m-{name}", schedulingGroup={"podGroupName": "g"})))
    found = {
        kind: _value("scheduler_queued_entities", queue="active", type=kind) for kind in ("pod", "podgroup")
    }
    assert found == {"pod": 2, "podgroup": 1}


def test_incoming_pods_are_counted_by_the_event_name_of_the_version() -> None:
    def read_counts() -> list[float]:
        name = "scheduler_queue_incoming_pods_total"
        return [
            _value(name, queue="active", event=event)
            for event in ("UnschedulablePodAdd", "UnscheduledPodAdd")
        ]

    before = read_counts()
    for version, pods in ((V1_36, "a"), (V1_37, "bc")):
        queue = SchedulingQueue(FakeClock())
        queue.on_incoming = count_incoming(version)
        for name in pods:
            queue.add(convert(PODS, pod_json(name)))
    assert [after - old for after, old in zip(read_counts(), before, strict=True)] == [1, 2]


def test_a_group_enters_a_queue_with_its_first_pod() -> None:
    def read_counts(queue: str, event: str) -> list[float]:
        name = "scheduler_queue_incoming_entities_total"
        return [_value(name, queue=queue, event=event, type=kind) for kind in ("pod", "podgroup")]

    added, failed = ("active", "UnscheduledPodAdd"), ("unschedulable", "ScheduleAttemptFailure")
    before = read_counts(*added), read_counts(*failed)
    for version in (V1_36, V1_37):
        queue = SchedulingQueue(FakeClock())
        queue.on_incoming = count_incoming(version)
        for name in ("a", "b"):
            queue.add(convert(PODS, pod_json(name)))
            queue.add(convert(PODS, pod_json(f"m-{name}", schedulingGroup={"podGroupName": "g"})))
        while (entry := queue.try_pop()) is not None:
            members = (
                queue.take_members(lambda pod: pod.spec.scheduling_group is not None) if entry.group else ()
            )
            for each in (entry, *members):
                queue.reject(each, {"Fit"}, "no room")
    after = read_counts(*added), read_counts(*failed)
    assert [after[0][n] - before[0][n] for n in (0, 1)] == [2, 1]
    assert [after[1][n] - before[1][n] for n in (0, 1)] == [2, 1]
