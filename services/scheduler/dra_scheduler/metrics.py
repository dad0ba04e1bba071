"""The scheduler's metrics, under kube-scheduler's names (upstream's ``pkg/scheduler/metrics``)."""

import functools
from collections.abc import Callable, Iterable

from dra_shared.claimmetrics import CLAIM_CREATES, CLAIM_CREATES_HELP, CLAIM_CREATES_LABELS
from dra_shared.version import V1_37, Version
from prometheus_client import Counter, Gauge, Histogram

from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.eventlabels import event_label
from dra_scheduler.queue.entry import Place, QueuedPod
from dra_scheduler.queue.scheduling import Cause, SchedulingQueue

ATTEMPTS = Counter(
    "scheduler_schedule_attempts", "Attempts to schedule pods, by their result.", ["result", "profile"]
)
ATTEMPT_SECONDS = Histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Time from taking a pod from the queue to its node or its rejection.",
    ["result", "profile"],
    buckets=[0.0001 * 2**exponent for exponent in range(18)],
)
POD_ATTEMPTS = Histogram(
    "scheduler_pod_scheduling_attempts",
    "How many attempts it took until a pod's node was chosen.",
    buckets=[1, 2, 4, 8, 16],
)
CONDITIONS = Counter(
    "scheduler_dra_bindingconditions_allocations",
    "Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
    ["profile", "driver", "status"],
)
CONDITION_SECONDS = Histogram(
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
    ["profile", "driver", "status"],
    buckets=[0.1 * 2**exponent for exponent in range(14)],
)
CACHE_SIZE = Gauge("scheduler_cache_size", "What the scheduler keeps in mind, by type.", ["type"])
PENDING = Gauge("scheduler_pending_pods", "Pods without a node, by where in the queue they are.", ["queue"])
INCOMING = Counter(
    "scheduler_queue_incoming_pods",
    "Number of pods added to scheduling queues by event and queue type.",
    ["queue", "event"],
)
PREEMPTIONS = Counter("scheduler_preemption_attempts", "Attempts to make room for a pod.")
VICTIMS = Histogram(
    "scheduler_preemption_victims",
    "How many pods had to go for a pod.",
    buckets=[2**exponent for exponent in range(7)],
)
_GROUP_BUCKETS = [0.001 * 2**exponent for exponent in range(15)]


def count_incoming(kubernetes: Version) -> Callable[[Place, Cause, str], None]:
    """Return a function that counts pods that enter a queue (since 1.37: entities), with the version's names of
    events.

    Events are named as in that version of Kubernetes.
    """

    def count(place: Place, cause: Cause, entity: str) -> None:
        label = cause if isinstance(cause, str) else event_label(cause, kubernetes)
        INCOMING.labels(place.value, label).inc()
        if entity and kubernetes >= V1_37:
            _incoming_entities().labels(place.value, label, entity).inc()

    return count


@functools.cache
def _incoming_entities() -> Counter:
    text = (
        "Number of scheduling entities added to scheduling queues by event, queue type, and entity type. Entity types "
        "are either 'pod' (for individual pods that are not members of any podgroup) or 'podgroup'."
    )
    return Counter("scheduler_queue_incoming_entities", text, ["queue", "event", "type"])


def count_wait(profile: str, drivers: Iterable[str], status: str, seconds: float) -> None:
    """Count an attempt that waited for device conditions. ``status`` is ``success``, ``failure`` or ``timeout``."""
    for driver in drivers:
        CONDITIONS.labels(profile, driver, status).inc()
        CONDITION_SECONDS.labels(profile, driver, status).observe(seconds)


def count_claim(kubernetes: Version, *, success: bool) -> None:
    """Count an attempt to create a claim for a pod's extended resources."""
    status = "success" if success else "failure"
    since_1_37 = kubernetes >= V1_37
    labels = (status, "false", "", "Pod") if since_1_37 else (status,)
    _claim_creates(since_1_37).labels(*labels).inc()


@functools.cache
def _claim_creates(since_1_37: bool) -> Counter:
    if since_1_37:
        return Counter(CLAIM_CREATES, CLAIM_CREATES_HELP, CLAIM_CREATES_LABELS)
    text = "ResourceClaims made for extended resources, by whether that worked."
    return Counter("scheduler_resourceclaim_creates", text, ("status",))


def watch_queue(queue: SchedulingQueue) -> None:
    """Report the queue's lengths whenever metrics are read."""
    for place in ("active", "backoff", "unschedulable", "gated"):
        PENDING.labels(place).set_function(lambda place=place: queue.count_by_place()[place])  # type: ignore[misc]  # a default binds the loop's value


def watch_entities(queue: SchedulingQueue) -> None:
    """Report the numbers of waiting pods and groups whenever metrics are read (Kubernetes 1.37)."""
    for place in ("active", "backoff", "unschedulable", "gated"):
        for kind in ("pod", "podgroup"):
            _queued_entities().labels(place, kind).set_function(
                lambda key=(place, kind): queue.entities().get(key, 0)  # type: ignore[misc]  # a default binds the loop's value
            )


@functools.cache
def _queued_entities() -> Gauge:
    text = "Pods that are in no group, and pod groups, without a node, by where in the queue they are."
    return Gauge("scheduler_queued_entities", text, ["queue", "type"])


def watch_cache(cache: Cache) -> None:
    """Report the size of the cache whenever metrics are read."""
    CACHE_SIZE.labels("nodes").set_function(lambda: len(cache.nodes()))
    CACHE_SIZE.labels("pods").set_function(lambda: sum(1 for _ in cache.pods()))
    CACHE_SIZE.labels("assumed_pods").set_function(lambda: cache.count_assumed)


def count_attempt(entry: QueuedPod, scheduled: bool, seconds: float) -> None:
    """Count an attempt.

    A failed pod must have been requeued before this call, because its place in the queue shows whether it was
    an error.
    """
    result = "scheduled" if scheduled else "error" if entry.errors else "unschedulable"
    count, observe = _attempts(result, entry.pod.spec.scheduler_name)
    count()
    observe(seconds)
    if scheduled:
        POD_ATTEMPTS.observe(entry.attempts)


@functools.cache
def _attempts(result: str, profile: str) -> tuple[Callable[[], None], Callable[[float], None]]:
    return ATTEMPTS.labels(result, profile).inc, ATTEMPT_SECONDS.labels(result, profile).observe


def count_group(profile: str, result: str, seconds: float) -> None:
    """Count an attempt for a group of pods.

    ``result`` is ``scheduled``, ``unschedulable``, ``waiting_on_preemption`` or ``error``.
    """
    count, latency, _ = _group_attempts()
    count.labels(result, profile).inc()
    latency.labels(result, profile).observe(seconds)


def observe_group_algorithm(seconds: float) -> None:
    """Record the time to decide on a group of pods, before any of them is bound."""
    _group_attempts()[2].observe(seconds)


@functools.cache
def _group_attempts() -> tuple[Counter, Histogram, Histogram]:
    # Upstream has these only while GenericWorkload is on.
    labels = ["result", "profile"]
    return (
        Counter(
            "scheduler_podgroup_schedule_attempts", "Attempts to schedule pod groups, by result.", labels
        ),
        Histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Time that an attempt to schedule a pod group took.",
            labels,
            buckets=_GROUP_BUCKETS,
        ),
        Histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Pod group scheduling algorithm latency in seconds",
            buckets=_GROUP_BUCKETS,
        ),
    )


def count_placement(profile: str, *, feasible: bool, seconds: float) -> None:
    """Count a set of nodes on which a group was tried, and record the time that it took."""
    evaluations, durations = _placements()
    result = "feasible" if feasible else "infeasible"
    evaluations.labels(result, profile).inc()
    durations.labels(result, profile).observe(seconds)


def count_generated_placements(profile: str, number: int) -> None:
    """Count the sets of nodes on which a group is going to be tried."""
    _generated_placements().labels(profile).inc(number)


@functools.cache
def _generated_placements() -> Counter:
    # Upstream has these only while TopologyAwareWorkloadScheduling is on.
    text = "Number of candidate placements generated when scheduling pod groups."
    return Counter("scheduler_generated_placements", text, ["profile"])


@functools.cache
def _placements() -> tuple[Counter, Histogram]:
    labels = ["result", "profile"]
    return (
        Counter(
            "scheduler_placement_evaluations",
            "Number of candidate placements evaluated when scheduling pod groups, by result. 'feasible' means the pod "
            "group fit into the placement, while 'infeasible' means it did not.",
            labels,
        ),
        Histogram(
            "scheduler_placement_evaluation_duration_seconds",
            "Time that it took to try a group on a placement.",
            labels,
            buckets=_GROUP_BUCKETS,
        ),
    )


def count_group_preemption(result: str, seconds: float | None) -> None:
    """Count a preemption attempt for a group. ``seconds`` is the time to choose victims, if there were any.

    ``result`` is the status's code.
    """
    attempts, _, durations = _group_preemptions()
    attempts.labels(result).inc()
    if seconds is not None:
        durations.labels("podgroup", result).observe(seconds)


def observe_group_victims(number: int) -> None:
    """Record the number of pods that were preempted for a group."""
    _group_preemptions()[1].observe(number)


@functools.cache
def _group_preemptions() -> tuple[Counter, Histogram, Histogram]:
    # Upstream has these only while GenericWorkload is on, since 1.37.
    return (
        Counter(
            "scheduler_workload_preemption_attempts",
            "Total preemption attempts initiated by workload (including pod groups) in the cluster till now.",
            ["result"],
        ),
        Histogram(
            "scheduler_workload_preemption_victims",
            "Number of pod preemption victims caused by workload preemption.",
            buckets=[2**exponent for exponent in range(11)],
        ),
        Histogram(
            "scheduler_preemption_evaluation_duration_seconds",
            "Duration in seconds for identifying the target preemption victims.",
            ["preemptor", "result"],
            buckets=[0.001 * 2**exponent for exponent in range(16)],
        ),
    )
