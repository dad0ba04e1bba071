"""The JobSet controller.

Mirrors pkg/controllers/jobset_controller.go and ttl_after_finished.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from dra_shared.api.batch import Job
from dra_shared.api.codec import convert
from dra_shared.api.resources import (
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
)
from dra_shared.client.errors import AlreadyExists, ApiError
from dra_shared.clock import parse_rfc3339
from dra_shared.jobkinds.jobset import count_pods
from dra_shared.jsontypes import JsonObject
from msgspec.structs import replace

from dra_controller.framework import Context
from dra_controller.jobkinds.controller import Draft, JobKindController, to_plain, with_text_quantities
from dra_controller.jobkinds.jobset import jobs as made
from dra_controller.jobkinds.jobset import policies
from dra_controller.jobkinds.jobset.placement import Placement
from dra_controller.jobkinds.operators import JOB_SETS, Custom

_MANAGER = "jobset.sigs.k8s.io/jobset-controller"


@dataclass
class _Jobs:
    """The Jobs of the current attempt, and those of earlier ones."""

    active: list[Job] = field(default_factory=list)
    successful: list[Job] = field(default_factory=list)
    failed: list[Job] = field(default_factory=list)
    previous: list[Job] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        found = (*self.active, *self.successful, *self.failed, *self.previous)
        return {job.metadata.name for job in found}


class JobSetController(JobKindController):
    """The controller of kubernetes-sigs/jobset."""

    name = "jobset-controller"
    queue_name = "jobset"
    operator = "jobset"
    owner = JOB_SETS
    owned = (JOBS, SERVICES)
    event_source = "jobset"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._placement = Placement(
            self.watch(PODS).store, self.watch(NODES).store, self.watch(PRIORITY_CLASSES).store
        )
        context.pod_admission.add(self._placement.admit)

    async def sync(self, obj: Custom, draft: Draft) -> None:
        if obj.spec.get("managedBy", _MANAGER) != _MANAGER:
            return
        jobs = self._find_jobs(obj)
        statuses = _count(obj, jobs)
        _write_counts(draft, statuses)
        if policies.is_finished(draft):
            await self.delete(JOBS, jobs.active, "Foreground")
            await self._expire(obj, draft)
            return
        await self.delete(JOBS, jobs.previous, "Foreground")
        suspended = bool(obj.spec.get("suspend"))
        if not suspended and _are_all_ready(obj, statuses):
            policies.stop_restarting(draft, "JobsReady", "all jobs are ready")
        if jobs.failed:
            policies.apply_failure_policy(draft, jobs.failed)
            return
        if jobs.successful and policies.has_succeeded(draft, jobs.successful):
            policies.complete(draft)
            return
        await self._create_service(obj)
        await self._create_claims(obj)
        await self._create_jobs(obj, jobs, statuses, draft)
        if suspended:
            await self._suspend(jobs.active, draft)
        else:
            await self._resume(obj, jobs.active, statuses, draft)

    def _find_jobs(self, obj: Custom) -> _Jobs:
        restarts = obj.status.get("restarts", 0)
        found = _Jobs()
        for job in self.children(JOBS, obj):
            if int(job.metadata.labels.get(made.RESTARTS, "0")) < restarts:
                found.previous.append(job)
                continue
            end = policies.find_end(job)
            if end is None:
                found.active.append(job)
            elif end.type == "Failed":
                found.failed.append(job)
            else:
                found.successful.append(job)
        return found

    async def _create_service(self, obj: Custom) -> None:
        if not made.has_hostnames(obj):
            return
        service = made.build_service(obj)
        if any(child.metadata.name == service["metadata"]["name"] for child in self.children(SERVICES, obj)):
            return
        try:
            await self.create(SERVICES, service, obj)
        except ApiError as error:
            self.report(obj, "Warning", "HeadlessServiceCreationFailed", str(error))
            raise

    async def _create_claims(self, obj: Custom) -> None:
        for claim, deleted in made.build_claims(obj):
            try:
                if deleted:
                    await self.create(PERSISTENT_VOLUME_CLAIMS, claim, obj)
                else:
                    meta = {**claim["metadata"], "namespace": obj.metadata.namespace}
                    whole = convert(PERSISTENT_VOLUME_CLAIMS, {**claim, "metadata": meta})
                    await self._client.create(PERSISTENT_VOLUME_CLAIMS, whole)
            except AlreadyExists:
                continue
            except ApiError as error:
                self.report(obj, "Warning", "PVCCreationFailed", str(error))
                raise

    async def _create_jobs(self, obj: Custom, jobs: _Jobs, statuses: JsonObject, draft: Draft) -> None:
        strategy = (obj.spec.get("failurePolicy") or {}).get("restartStrategy")
        blocked = bool(jobs.previous) and strategy == "BlockingRecreate"
        in_order = not obj.spec.get("suspend") and _is_in_order(obj)
        names, seen = jobs.names, []
        for replicated in made.replicated_jobs(obj):
            seen.append(replicated)
            if not policies.are_dependencies_met(replicated, seen, statuses):
                continue
            if in_order and policies.are_replicas_started(replicated, statuses[replicated["name"]]):
                continue
            for index in range(0 if blocked else made.replicas(replicated)):
                if made.name_job(obj.metadata.name, replicated["name"], index) not in names:
                    await self._create_job(obj, made.build_job(obj, replicated, index))
            if in_order:
                _start_in_order(draft)
                return
        if in_order:
            text = "in order startup policy has completed"
            policies.set_condition(
                draft, "StartupPolicyCompleted", "True", "InOrderStartupPolicyCompleted", text
            )

    async def _create_job(self, obj: Custom, job: JsonObject) -> None:
        try:
            await self.create(JOBS, job, obj)
        except ApiError as error:
            text = f'job "{job["metadata"]["name"]}" creation failed with error: {error}'
            self.report(obj, "Warning", "JobCreationFailed", text)
            raise

    async def _suspend(self, active: Sequence[Job], draft: Draft) -> None:
        for job in active:
            if not job.spec.suspend:
                await self._client.update(JOBS, replace(job, spec=replace(job.spec, suspend=True)))
        text = "jobset is suspended"
        policies.set_condition(draft, "Suspended", "True", "SuspendedJobs", text)
        policies.stop_restarting(draft, "JobSetSuspended", text)

    async def _resume(self, obj: Custom, active: Sequence[Job], statuses: JsonObject, draft: Draft) -> None:
        in_order, seen = _is_in_order(obj), []
        for replicated in made.replicated_jobs(obj):
            name = replicated["name"]
            seen.append(replicated)
            if not policies.are_dependencies_met(replicated, seen, statuses):
                continue
            if in_order and policies.are_replicas_started(replicated, statuses[name]):
                continue
            for job in active:
                if job.metadata.labels.get(made.REPLICATED_JOB) == name and job.spec.suspend:
                    await self._resume_job(job, replicated["template"]["spec"]["template"])
            if in_order:
                _start_in_order(draft)
                return
        policies.set_condition(draft, "Suspended", "False", "ResumeJobs", "jobset is resumed")

    async def _resume_job(self, job: Job, template: JsonObject) -> None:
        """Resume a Job with the template's changes since it was suspended. Kueue makes such changes."""
        if job.status.start_time is not None:
            status = replace(job.status, start_time=None)
            job = await self._client.update(JOBS, replace(job, status=status), subresource="status")
        body = to_plain(job)
        pod, wanted = body["spec"]["template"], template
        for owner, source, key in (
            (pod.setdefault("metadata", {}), wanted.get("metadata") or {}, "labels"),
            (pod["metadata"], wanted.get("metadata") or {}, "annotations"),
            (pod["spec"], wanted["spec"], "nodeSelector"),
        ):
            owner[key] = {**(owner.get(key) or {}), **(source.get(key) or {})}
        for key in ("tolerations", "schedulingGates"):
            kept = list(pod["spec"].get(key) or ())
            pod["spec"][key] = kept + [one for one in wanted["spec"].get(key) or () if one not in kept]
        body["spec"]["suspend"] = False
        await self._client.update(JOBS, convert(JOBS, with_text_quantities(body)))

    async def _expire(self, obj: Custom, draft: Draft) -> None:
        """Delete the JobSet once its time to live has passed."""
        seconds = obj.spec.get("ttlSecondsAfterFinished")
        if seconds is None:
            return
        end = next(one for name in ("Completed", "Failed") if (one := draft.condition(name)) is not None)
        moment = parse_rfc3339(end["lastTransitionTime"]) + timedelta(seconds=seconds)
        left = (moment - self._clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(obj.key, left)
        else:
            await self.delete(self.owner, [obj], "Foreground")


def _count(obj: Custom, jobs: _Jobs) -> JsonObject:
    """Return the numbers of Jobs by replicated job."""
    states = ("ready", "succeeded", "failed", "active", "suspended")
    counts = {one["name"]: dict.fromkeys(states, 0) for one in made.replicated_jobs(obj)}
    for group, state in ((jobs.successful, "succeeded"), (jobs.failed, "failed")):
        for job in group:
            if (own := counts.get(job.metadata.labels[made.REPLICATED_JOB])) is not None:
                own[state] += 1
    for job in jobs.active:
        own = counts.get(job.metadata.labels[made.REPLICATED_JOB])
        if own is None:
            continue
        pods = count_pods(
            {"parallelism": job.spec.parallelism, "completions": job.spec.completions}
            if job.spec.completions is not None
            else {"parallelism": job.spec.parallelism}
        )
        own["ready"] += (job.status.succeeded or 0) + (job.status.ready or 0) >= pods
        own["active"] += (job.status.active or 0) > 0
        own["suspended"] += bool(job.spec.suspend)
    return counts


def _write_counts(draft: Draft, counts: Mapping[str, Mapping[str, int]]) -> None:
    statuses = [{"name": name, **counts[name]} for name in sorted(counts, reverse=True)]
    if statuses != draft.status.get("replicatedJobsStatus"):
        draft.status["replicatedJobsStatus"] = statuses
        draft.status.setdefault("restarts", 0)


def _are_all_ready(obj: Custom, counts: Mapping[str, Mapping[str, int]]) -> bool:
    wanted = sum(map(made.replicas, made.replicated_jobs(obj)))
    return wanted == sum(one["ready"] + one["succeeded"] for one in counts.values())


def _is_in_order(obj: Custom) -> bool:
    return (obj.spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"


def _start_in_order(draft: Draft) -> None:
    text = "in order startup policy is in progress"
    policies.set_condition(draft, "StartupPolicyInProgress", "True", "InOrderStartupPolicyInProgress", text)
