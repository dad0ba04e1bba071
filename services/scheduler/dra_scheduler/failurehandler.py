"""The failure handler: requeues a pod that got no node or could not be bound, and reports the reason.

Mirrors ``handleSchedulingFailure`` in upstream's ``pkg/scheduler/schedule_one.go``.
"""

from dra_shared.api.pod import Pod
from dra_shared.log import logger

from dra_scheduler.failurereporter import SCHEDULER_ERROR, UNSCHEDULABLE, FailureReporter
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.status import Status
from dra_scheduler.queue.entry import QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_scheduler.scheduleresult import Failure

_log = logger(__name__)


class FailureHandler:
    """Requeues pods; ``reporter`` writes their events and conditions."""

    def __init__(self, queue: SchedulingQueue, cache: Cache, reporter: FailureReporter) -> None:
        self._queue = queue
        self._cache = cache
        self._reporter = reporter

    def handle_unscheduled(self, entry: QueuedPod, failure: Failure) -> None:
        """Requeue and report a pod that got no node in this attempt.

        The pod is requeued before the report is written in the background, so that no event in between is
        missed for the pod.
        """
        if failure.plugins is None:
            _log.warning(
                "attempt failed, trying again after a back-off", pod=entry.pod.key, error=failure.message
            )
            self._queue.fail(entry, failure.message)
        else:
            _log.info("no node for pod, waiting for a change", pod=entry.pod.key, reason=failure.message)
            self._queue.reject(entry, failure.plugins, failure.message)
        if failure.nominated is not None:
            self._cache.nominations.set(entry.pod, failure.nominated)
        self._reporter.report(
            entry.pod, failure.reason, failure.message, event=failure.event, nominated=failure.nominated
        )

    def handle_unbound(self, pod: Pod, status: Status, announced: bool) -> None:
        """Requeue and report a pod that could not be bound.

        ``announced``: the pod's status may already name the node.
        """
        current = self._queue.get(pod.metadata.uid)
        if current is None:
            return  # the pod was deleted
        self._queue.fail(current, status.message)
        reason = UNSCHEDULABLE if status.is_rejection else SCHEDULER_ERROR
        self._reporter.report(current.pod, reason, status.message, nominated="", announced=announced)
