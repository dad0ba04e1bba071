"""The CronJob controller.

Mirrors pkg/controller/cronjob/cronjob_controllerv2.go.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dra_shared.api.batch import CronJob, CronJobStatus, Job
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import ObjectReference
from dra_shared.api.resources import CRON_JOBS, JOBS
from dra_shared.claims import controller_of
from dra_shared.client.errors import AlreadyExists, ApiError, NotFound
from dra_shared.client.events import reference
from dra_shared.clock import parse_rfc3339, rfc3339
from msgspec.structs import replace
from prometheus_client import Histogram

from dra_controller.cronjob import schedule as cron
from dra_controller.cronjob.schedule import Schedule
from dra_controller.framework import Context, QueueController
from dra_controller.job.policy import has_condition, is_finished
from dra_controller.pods import OWNER_INDEX, controller_reference
from dra_controller.workload import index_by_owner

_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
# Wake a moment after the scheduled time, so that it is also due on a clock that differs a little.
_SLACK_SECONDS = 0.1
_MANY = 100
_FORBIDDEN = "Not starting job because prior execution is running and concurrency policy is Forbid"
_MISSED = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


class CronJobController(QueueController):
    """The cronjob-controller of kube-controller-manager."""

    name = "cronjob-controller"
    queue_name = "cronjob"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        cron_jobs = self.watch(CRON_JOBS)
        jobs = self.watch(JOBS)
        index_by_owner(jobs)
        self._cron_jobs, self._jobs = cron_jobs.store, jobs.store
        self._recorder = context.recorder(self.name)
        cron_jobs.add_handler(self._enqueue, lambda _, new: self._enqueue(new))
        jobs.add_handler(self._job_changed, lambda _, new: self._job_changed(new), self._job_changed)
        self._skew = Histogram(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "Seconds from the time for which a Job was scheduled to its creation",
            buckets=tuple(2.0**power for power in range(10)),
            registry=context.registry,
        )

    def _enqueue(self, cron_job: CronJob) -> None:
        self.queue.add(cron_job.key)

    def _job_changed(self, job: Job) -> None:
        owner = controller_of(job)
        if owner is not None and owner.kind == CRON_JOBS.kind:
            self.queue.add(f"{job.metadata.namespace}/{owner.name}")

    async def reconcile(self, key: str) -> None:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            return
        jobs = self._jobs.by_index(OWNER_INDEX, cron_job.metadata.uid)
        gone = await self._clean_up(cron_job, jobs)
        status = await self._follow(cron_job, jobs, gone)
        if cron_job.metadata.deletion_timestamp is None and not cron_job.spec.suspend:
            cron_job = await self._write(cron_job, status)
            status = await self._start(cron_job, status)
        await self._write(cron_job, status)

    async def _follow(self, cron_job: CronJob, jobs: Sequence[Job], gone: set[str]) -> CronJobStatus:
        """Return the status with the active Jobs and the time of the last success.

        ``gone`` are the uids of Jobs that were just deleted.
        """
        left = tuple(entry for entry in cron_job.status.active if entry.uid not in gone)
        status = replace(cron_job.status, active=left)
        listed = {entry.uid for entry in status.active}
        known = {job.metadata.uid: job for job in jobs}
        if any(uid not in listed and not is_finished(job) for uid, job in known.items()):
            # The informer of Jobs may be ahead of that of CronJobs.
            listed |= await self._active(cron_job)
        success = status.last_successful_time
        for job in jobs:
            uid, name = job.metadata.uid, job.metadata.name
            if uid not in listed and not is_finished(job):
                text = f"Saw a job that the controller did not create or forgot: {name}"
                self._warn(cron_job, "UnexpectedJob", text)
            if is_finished(job):
                complete = has_condition(job, "Complete")
                if uid in listed:
                    kind = "Complete" if complete else "Failed"
                    self._say(cron_job, "SawCompletedJob", f"Saw completed job: {name}, condition: {kind}")
                ended = job.status.completion_time if complete else None
                if ended is not None and (success is None or success < ended):
                    success = ended
        active = []
        for entry in status.active:
            if entry.uid in known:
                if not is_finished(known[entry.uid]):
                    active.append(entry)
                continue
            # A missing Job may not be in the informer yet, so ask the API server.
            try:
                job = await self._client.get(JOBS, entry.name, cron_job.metadata.namespace)
                missing = job.metadata.uid != entry.uid
            except NotFound:
                missing = True
            if missing and entry.uid in await self._active(cron_job):
                self._say(cron_job, "MissingJob", f"Active job went missing: {entry.name}")
            elif not missing:
                active.append(entry)
        return replace(status, active=tuple(active), last_successful_time=success)

    async def _active(self, cron_job: CronJob) -> set[str]:
        """Return the uids of the Jobs that are active according to the API server."""
        live = await self._client.get(CRON_JOBS, cron_job.metadata.name, cron_job.metadata.namespace)
        return {entry.uid for entry in live.status.active}

    async def _clean_up(self, cron_job: CronJob, jobs: Sequence[Job]) -> set[str]:
        """Delete the oldest finished Jobs beyond the limits of the history. Return their uids."""
        gone: set[str] = set()
        for kind, limit in (
            ("Complete", cron_job.spec.successful_jobs_history_limit),
            ("Failed", cron_job.spec.failed_jobs_history_limit),
        ):
            if limit is None:
                continue
            done = [job for job in jobs if has_condition(job, kind)]
            done.sort(key=lambda job: (job.status.start_time or "", job.metadata.name))
            for job in done[: max(0, len(done) - limit)]:
                await self._delete(cron_job, job.metadata.name, job.metadata.uid)
                gone.add(job.metadata.uid)
        return gone

    async def _start(self, cron_job: CronJob, status: CronJobStatus) -> CronJobStatus:
        """Start the Job that is due, and queue the CronJob for the next one."""
        now = self._clock.now()
        try:
            zone: tzinfo = ZoneInfo(cron_job.spec.time_zone) if cron_job.spec.time_zone else UTC
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            text = f'invalid timeZone: "{cron_job.spec.time_zone}": {error}'
            self._warn(cron_job, "UnknownTimeZone", text)
            return status
        try:
            schedule = cron.parse(cron_job.spec.schedule)
        except ValueError as error:
            text = f'unparseable schedule: "{cron_job.spec.schedule}" : {error}'
            self._warn(cron_job, "UnparseableSchedule", text)
            return status
        due = self._due(cron_job, schedule, zone, now)
        if due is not None and status.last_schedule_time != rfc3339(due):
            status = await self._start_at(cron_job, status, due, zone, now)
        following = schedule.after(now, zone)
        if following is not None:
            self.queue.add_after(cron_job.key, (following - now).total_seconds() + _SLACK_SECONDS)
        return status

    def _due(self, cron_job: CronJob, schedule: Schedule, zone: tzinfo, now: datetime) -> datetime | None:
        """Return the last scheduled time until now, if it is after the last time a Job was created."""
        since = parse_rfc3339(
            cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp or rfc3339(now)
        )
        deadline = cron_job.spec.starting_deadline_seconds
        if deadline is not None:
            since = max(since, now - timedelta(seconds=deadline))
        first = schedule.after(since, zone)
        if first is None or first > now:
            return None
        second = schedule.after(first, zone)
        if second is None or second > now:
            return first
        step = second - first
        if (now - first) // step >= _MANY:
            self._warn(cron_job, "TooManyMissedTimes", _MISSED)
        return _last(schedule, zone, first, now, step)

    async def _start_at(
        self, cron_job: CronJob, status: CronJobStatus, due: datetime, zone: tzinfo, now: datetime
    ) -> CronJobStatus:
        deadline = cron_job.spec.starting_deadline_seconds
        if deadline is not None and due + timedelta(seconds=deadline) < now:
            text = f"Missed scheduled time to start a job: {due:%a, %d %b %Y %H:%M:%S %z}"
            self._warn(cron_job, "MissSchedule", text)
            return status
        name = f"{cron_job.metadata.name}-{int(due.timestamp()) // 60}"
        if any(entry.name == name for entry in status.active):
            return status
        if cron_job.spec.concurrency_policy == "Forbid" and status.active:
            self._say(cron_job, "JobAlreadyActive", _FORBIDDEN)
            return status
        if cron_job.spec.concurrency_policy == "Replace":
            for entry in status.active:
                await self._delete(cron_job, entry.name, entry.uid)
            status = replace(status, active=())
        template = cron_job.spec.job_template
        stamp = due.astimezone(zone).isoformat().replace("+00:00", "Z")
        job = Job(
            metadata=ObjectMeta(
                name=name,
                namespace=cron_job.metadata.namespace,
                labels=template.metadata.labels,
                annotations={**template.metadata.annotations, _SCHEDULED: stamp},
                owner_references=(controller_reference(CRON_JOBS, cron_job),),
            ),
            spec=template.spec,
        )
        try:
            made = await self._client.create(JOBS, job)
            self._skew.observe((now - due).total_seconds())
            self._say(cron_job, "SuccessfulCreate", f"Created job {name}")
        except AlreadyExists:
            # The Job exists already: a controller created it and ended before it updated the status, or it has
            # another owner.
            made = await self._client.get(JOBS, name, cron_job.metadata.namespace)
            owner = controller_of(made)
            if owner is None or owner.uid != cron_job.metadata.uid:
                raise
        except ApiError as error:
            self._warn(cron_job, "FailedCreate", f"Error creating job: {error}")
            raise
        active: tuple[ObjectReference, ...] = status.active
        if not is_finished(made):
            active = (*active, reference(JOBS, made))
        return replace(status, active=active, last_schedule_time=rfc3339(due))

    async def _delete(self, cron_job: CronJob, name: str, uid: str) -> None:
        namespace = cron_job.metadata.namespace
        try:
            await self._client.delete(JOBS, name, namespace, uid=uid, propagation="Background")
        except NotFound:
            return
        self._say(cron_job, "SuccessfulDelete", f"Deleted job {name}")

    async def _write(self, cron_job: CronJob, status: CronJobStatus) -> CronJob:
        if status == cron_job.status:
            return cron_job
        return await self._client.update(CRON_JOBS, replace(cron_job, status=status), subresource="status")

    def _say(self, cron_job: CronJob, reason: str, message: str) -> None:
        self._recorder.event(reference(CRON_JOBS, cron_job), "Normal", reason, message)

    def _warn(self, cron_job: CronJob, reason: str, message: str) -> None:
        self._recorder.event(reference(CRON_JOBS, cron_job), "Warning", reason, message)


def _last(schedule: Schedule, zone: tzinfo, first: datetime, now: datetime, step: timedelta) -> datetime:
    """Return the last scheduled time until ``now``. The search steps back ever further, and ends at ``first``."""
    while True:
        found = first if now - step <= first else schedule.after(now - step, zone)
        if found is not None and found <= now:
            while (following := schedule.after(found, zone)) is not None and following <= now:
                found = following
            return found
        step *= 4
