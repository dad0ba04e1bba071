"""The metrics of the job controller, with the names of kube-controller-manager.

Mirrors pkg/controller/job/metrics/metrics.go.
"""

from dra_shared.api.batch import Job, JobStatus
from prometheus_client import CollectorRegistry, Counter

from dra_controller.job.indexes import parse_indexes
from dra_controller.job.policy import is_indexed


class JobMetrics:
    """Counts finished Jobs, and their pods once they are in the counters of the Job."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._jobs = Counter(
            "job_controller_jobs_finished_total",
            "Finished jobs",
            ["completion_mode", "result", "reason"],
            registry=registry,
        )
        self._pods = Counter(
            "job_controller_job_pods_finished_total",
            "Finished pods that are fully accounted for",
            ["completion_mode", "result"],
            registry=registry,
        )

    def count_finished(self, job: Job, *, succeeded: bool, reason: str) -> None:
        """Count a Job that is done."""
        self._jobs.labels(_mode(job), "succeeded" if succeeded else "failed", reason).inc()

    def count_pods(self, job: Job, status: JobStatus) -> None:
        """Count the pods that ``status`` has in its counters and the Job's present status has not."""
        for result, before, after in (
            ("succeeded", _count_succeeded(job, job.status), _count_succeeded(job, status)),
            ("failed", job.status.failed or 0, status.failed or 0),
        ):
            self._pods.labels(_mode(job), result).inc(max(0, after - before))


def _count_succeeded(job: Job, status: JobStatus) -> int:
    return len(parse_indexes(status.completed_indexes)) if is_indexed(job) else status.succeeded or 0


def _mode(job: Job) -> str:
    return "Indexed" if is_indexed(job) else "NonIndexed"
