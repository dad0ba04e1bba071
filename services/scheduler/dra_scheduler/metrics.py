"""What the scheduler measures, under kube-scheduler's names."""

from prometheus_client import Counter, Gauge, Histogram

from dra_scheduler.queue.scheduling import SchedulingQueue

ATTEMPTS = Counter("scheduler_schedule_attempts", "Attempts to schedule pods, by their result.", ["result"])
ATTEMPT_SECONDS = Histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Time from taking a pod from the queue to its node or its rejection.",
    ["result"],
    buckets=[0.0001 * 2**exponent for exponent in range(18)],
)
PENDING = Gauge("scheduler_pending_pods", "Pods without a node, by where in the queue they are.", ["queue"])


def watch_queue(queue: SchedulingQueue) -> None:
    """Show the queue's lengths whenever metrics are read."""
    for place in ("active", "backoff", "unschedulable", "gated"):
        PENDING.labels(place).set_function(lambda place=place: queue.counts()[place])  # type: ignore[misc]
