"""CronJobs against a real API server, with a clock that the test sets."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dra_controller.cronjob import CronJobController
from dra_controller.framework import Context
from dra_controller.manager import ControllerConfig, ControllerManager
from dra_shared.api.codec import convert
from dra_shared.api.resources import CRON_JOBS, JOBS
from dra_shared.client.informer import InformerFactory
from dra_shared.client.rest import Client
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from prometheus_client import CollectorRegistry

from tests.controller.cluster import POD_SPEC, Cluster
from tests.support.fakeapi import FakeApi

_TEMPLATE = {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}}


def _every_minute(**spec: Any) -> dict[str, Any]:
    return {"spec": {"schedule": "* * * * *", "jobTemplate": _TEMPLATE, **spec}}


async def _names(cluster: Cluster) -> list[str]:
    return sorted(job.metadata.name for job in await cluster.items("Job"))


def _clock(minutes: float) -> FakeClock:
    """Return a clock that is that many seconds past the start of the current minute."""
    start = datetime.now(UTC).replace(second=30, microsecond=0)
    return FakeClock(start + timedelta(minutes=minutes))


def _name(clock: FakeClock, cron_job: str = "tick") -> str:
    return f"{cron_job}-{int(clock.now().timestamp()) // 60}"


async def _run(cluster: Cluster, clock: FakeClock, wanted: list[str]) -> None:
    async with (
        Client(cluster.url) as client,
        ControllerManager(ControllerConfig(controllers=("cronjob-controller",)), client, clock),
    ):

        async def is_converged() -> bool:
            cron_job = await cluster.get("CronJob", "tick")
            active = sorted(entry.name for entry in cron_job.status.active) if cron_job else []
            return await _names(cluster) == wanted and active == wanted

        await cluster.until(is_converged)


async def test_one_job_is_created_at_each_time_and_one_for_all_missed_times(cluster: Cluster) -> None:
    await cluster.create("CronJob", "tick", **_every_minute())
    first, later = _clock(2), _clock(500)
    await _run(cluster, first, [_name(first)])
    (job,) = await cluster.items("Job")
    assert job.metadata.owner_references[0].kind == "CronJob"
    assert "batch.kubernetes.io/cronjob-scheduled-timestamp" in job.metadata.annotations
    await _run(cluster, later, sorted([_name(first), _name(later)]))


async def test_replace_policy_deletes_the_running_job(cluster: Cluster) -> None:
    await cluster.create("CronJob", "tick", **_every_minute(concurrencyPolicy="Replace"))
    first, later = _clock(2), _clock(3)
    await _run(cluster, first, [_name(first)])
    await _run(cluster, later, [_name(later)])


async def test_forbid_policy_waits_and_history_is_limited(cluster: Cluster) -> None:
    fields = _every_minute(concurrencyPolicy="Forbid", successfulJobsHistoryLimit=0)
    await cluster.create("CronJob", "tick", **fields)
    first, later = _clock(2), _clock(3)
    await _run(cluster, first, [_name(first)])
    await _run(cluster, later, [_name(first)])
    (job,) = await cluster.items("Job")
    time = "2026-01-01T00:00:00Z"
    done = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    await cluster.set_status("Job", job, conditions=done, startTime=time, completionTime=time, succeeded=1)
    await _run(cluster, later, [_name(later)])
    cron_job = await cluster.client.get(CRON_JOBS, "tick", "default")
    assert cron_job.status.last_successful_time == time


async def test_a_job_that_its_cron_job_does_not_list_yet_is_not_reported_as_unexpected() -> None:
    """The informers may know of the Job before they know that the CronJob lists it as active."""
    cron_job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default", "uid": "tick", "resourceVersion": "1"},
        **_every_minute(suspend=True),
    }
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": "tick", "controller": True}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "tick-1", "namespace": "default", "uid": "job", "ownerReferences": [owner]},
        "spec": _TEMPLATE["spec"],
    }
    active = {"active": [{"kind": "Job", "name": "tick-1", "namespace": "default", "uid": "job"}]}
    api, clock = FakeApi({**cron_job, "status": active}), FakeClock()
    informers = InformerFactory(api.client(), clock)
    controller = CronJobController(
        Context(api.client(), informers, clock, FeatureGates(), CollectorRegistry())
    )
    informers.informer(CRON_JOBS)._apply(convert(CRON_JOBS, cron_job))
    informers.informer(JOBS)._apply(convert(JOBS, job))
    await controller.reconcile("default/tick")
    await controller._recorder.flush()
    assert not api.writes("events")
    api.add(cron_job)
    await controller.reconcile("default/tick")
    await controller._recorder.flush()
    (event,) = api.writes("events")
    assert event.body["reason"] == "UnexpectedJob"


async def test_a_cleaned_up_job_is_not_reported_as_missing() -> None:
    """The informers may observe the deletion of the Job before the CronJob's update."""
    cron_job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default", "uid": "tick", "resourceVersion": "1"},
        **_every_minute(suspend=True),
    }
    active = {"active": [{"kind": "Job", "name": "tick-1", "namespace": "default", "uid": "job"}]}
    api, clock = FakeApi(cron_job), FakeClock()
    informers = InformerFactory(api.client(), clock)
    controller = CronJobController(
        Context(api.client(), informers, clock, FeatureGates(), CollectorRegistry())
    )
    informers.informer(CRON_JOBS)._apply(convert(CRON_JOBS, {**cron_job, "status": active}))
    await controller.reconcile("default/tick")
    await controller._recorder.flush()
    assert not api.writes("events")
    api.add({**cron_job, "status": active})
    informers.informer(CRON_JOBS)._apply(convert(CRON_JOBS, api.get("cronjobs", "default", "tick")))
    await controller.reconcile("default/tick")
    await controller._recorder.flush()
    (event,) = api.writes("events")
    assert event.body["reason"] == "MissingJob"


async def test_no_event_reports_the_end_of_a_job_that_is_deleted_at_once() -> None:
    cron_job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default", "uid": "tick", "resourceVersion": "1"},
        **_every_minute(suspend=True, successfulJobsHistoryLimit=0),
        "status": {"active": [{"kind": "Job", "name": "tick-1", "namespace": "default", "uid": "job"}]},
    }
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": "tick", "controller": True}
    time = "2026-01-01T00:00:00Z"
    complete = {"type": "Complete", "status": "True"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "tick-1", "namespace": "default", "uid": "job", "ownerReferences": [owner]},
        "spec": _TEMPLATE["spec"],
        "status": {"conditions": [complete], "completionTime": time},
    }
    api, clock = FakeApi(cron_job, job), FakeClock()
    informers = InformerFactory(api.client(), clock)
    controller = CronJobController(
        Context(api.client(), informers, clock, FeatureGates(), CollectorRegistry())
    )
    informers.informer(CRON_JOBS)._apply(convert(CRON_JOBS, api.get("cronjobs", "default", "tick")))
    informers.informer(JOBS)._apply(convert(JOBS, api.get("jobs", "default", "tick-1")))
    await controller.reconcile("default/tick")
    await controller._recorder.flush()
    assert [call.body["reason"] for call in api.writes("events")] == ["SuccessfulDelete"]
    assert not api.of("jobs")
    status = api.get("cronjobs", "default", "tick")["status"]
    assert (status.get("active", []), status["lastSuccessfulTime"]) == ([], time)
