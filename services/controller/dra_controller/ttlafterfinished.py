"""Deletes finished Jobs whose TTL has expired.

Mirrors pkg/controller/ttlafterfinished/ttlafterfinished_controller.go.
"""

from datetime import timedelta

from dra_shared.api.batch import Job
from dra_shared.api.resources import JOBS
from dra_shared.client.errors import NotFound
from dra_shared.clock import parse_rfc3339
from dra_shared.log import logger
from prometheus_client import Histogram

from dra_controller.framework import Context, QueueController
from dra_controller.job.policy import is_finished

_log = logger(__name__)


class TTLAfterFinishedController(QueueController):
    """The ttl-after-finished-controller of kube-controller-manager."""

    name = "ttl-after-finished-controller"
    queue_name = "ttl_jobs_to_delete"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        jobs = self.watch(JOBS)
        self._jobs = jobs.store
        jobs.add_handler(self._enqueue, lambda _, new: self._enqueue(new))
        self._delay = Histogram(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "Seconds from the moment when a Job might be deleted to its deletion",
            buckets=tuple(0.1 * 2**power for power in range(14)),
            registry=context.registry,
        )

    def _enqueue(self, job: Job) -> None:
        if job.metadata.deletion_timestamp is None and self._seconds_left(job) is not None:
            self.queue.add(job.key)

    def _seconds_left(self, job: Job) -> float | None:
        """Return the seconds until the Job is deleted; None if it is never deleted, or has not finished."""
        if job.spec.ttl_seconds_after_finished is None or not is_finished(job):
            return None
        for entry in job.status.conditions:
            if entry.type in ("Complete", "Failed") and entry.status == "True" and entry.last_transition_time:
                end = parse_rfc3339(entry.last_transition_time)
                end += timedelta(seconds=job.spec.ttl_seconds_after_finished)
                return (end - self._clock.now()).total_seconds()
        return None

    async def reconcile(self, key: str) -> None:
        if key not in self._jobs:
            return
        namespace, _, name = key.partition("/")
        try:
            # The TTL may have been raised, or the Job replaced, since the informer reported it.
            job = await self._client.get(JOBS, name, namespace)
        except NotFound:
            return
        left = self._seconds_left(job)
        if left is None or job.metadata.deletion_timestamp is not None:
            return
        if left > 0:
            self.queue.add_after(key, left)
            return
        await self._client.delete(JOBS, name, namespace, uid=job.metadata.uid, propagation="Foreground")
        self._delay.observe(-left)
        _log.info("deleted finished job", job=key)
