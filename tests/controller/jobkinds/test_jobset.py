"""JobSets on a real API server: their Jobs, and the conditions of the operator."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from dra_controller.jobkinds.jobset.jobs import NAME
from dra_controller.jobkinds.operators import JOB_SETS
from dra_shared.api.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES
from dra_shared.client.errors import Invalid
from dra_shared.jsontypes import JsonObject

from tests.controller.cluster import Cluster, controllers
from tests.controller.jobkinds.kinds import NAMESPACE, Kinds, conditions, is_true, pod_template

_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
_RACK = "example.com/rack"


def _describe_jobs(name: str, replicas: int = 1, pods: int = 1, **more: Any) -> JsonObject:
    job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": pod_template()}
    return {"name": name, "replicas": replicas, "template": {"spec": job}, **more}


@pytest.fixture
async def kinds(cluster: Cluster) -> AsyncIterator[Kinds]:
    names = ("job", "jobset", "garbagecollector")
    async with controllers(cluster, *names, operators=("jobset",)):
        yield Kinds(cluster)


async def test_a_jobset_creates_jobs_and_completes_when_all_have_succeeded(kinds: Kinds) -> None:
    spec = {
        "coordinator": {"replicatedJob": "driver"},
        "replicatedJobs": [_describe_jobs("driver"), _describe_jobs("worker", 2, 2, groupName="w")],
    }
    await kinds.create(JOB_SETS, "train", spec)
    pods = await kinds.wait_for_pods(5)
    assert await kinds.names(JOBS) == ["train-driver-0", "train-worker-0", "train-worker-1"]
    worker = next(pod for pod in pods if pod.metadata.name.startswith("train-worker-1-1-"))
    assert (worker.spec.hostname, worker.spec.subdomain) == ("train-worker-1-1", "train")
    assert worker.spec.restart_policy == "OnFailure"
    labels = {
        key.partition("/")[2]: value
        for key, value in worker.metadata.labels.items()
        if key.startswith("jobset")
    }
    assert labels.pop("jobset-uid")
    assert labels.pop("job-key") == hashlib.sha1(b"default/train-worker-1", usedforsecurity=False).hexdigest()
    assert labels == {
        "coordinator": "train-driver-0-0.train",
        "global-replicas": "3",
        "group-name": "w",
        "group-replicas": "2",
        "job-global-index": "2",
        "job-group-index": "1",
        "job-index": "1",
        "jobset-name": "train",
        "replicatedjob-name": "worker",
        "replicatedjob-replicas": "2",
        "restart-attempt": "0",
    }
    service = await kinds.get(SERVICES, "train")
    assert service.spec.cluster_ip == "None"
    assert service.spec.selector == {NAME: "train"}
    ready = {"ready": 2, "succeeded": 0, "failed": 0, "active": 2, "suspended": 0}
    await kinds.wait(
        JOB_SETS, "train", lambda obj: obj.status["replicatedJobsStatus"][0] == {"name": "worker", **ready}
    )
    await kinds.end(pods)
    done = await kinds.wait(JOB_SETS, "train", is_true("Completed"))
    assert conditions(done) == {"Completed": ("True", "AllJobsCompleted")}
    assert (done.status["terminalState"], done.status["restarts"]) == ("Completed", 0)
    await kinds.wait_for_events("train", "AllJobsCompleted")


async def test_a_jobset_is_stored_with_the_defaults_of_the_real_webhook(kinds: Kinds) -> None:
    job = {"template": {"spec": {"template": pod_template()}}, "name": "a"}
    made = await kinds.create(JOB_SETS, "train", {"replicatedJobs": [job]})
    assert made.spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert made.spec["successPolicy"] == {"operator": "All"}
    assert made.spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    stored = made.spec["replicatedJobs"][0]["template"]["spec"]
    assert stored["completionMode"] == "Indexed"
    assert stored["template"]["spec"]["restartPolicy"] == "OnFailure"
    with pytest.raises(Invalid, match="Value is immutable"):
        await kinds.patch(JOB_SETS, "train", {"successPolicy": {"operator": "Any"}})


async def test_a_jobset_without_a_failure_policy_fails_with_its_first_job(kinds: Kinds) -> None:
    await kinds.create(JOB_SETS, "train", {"replicatedJobs": [_describe_jobs("a", 2)]})
    pods = await kinds.wait_for_pods(2)
    await kinds.end(pods[1:], "Failed")
    done = await kinds.wait(JOB_SETS, "train", is_true("Failed"))
    assert conditions(done) == {"Failed": ("True", "FailedJobs")}
    text = "jobset failed due to one or more job failures (first failed job: train-a-1)"
    assert done.status["conditions"][0]["message"] == text
    # The other Job does not continue.
    await kinds.wait(JOBS, "train-a-0", lambda job: job is None)


async def test_a_jobset_restarts_all_jobs_as_often_as_its_policy_allows(kinds: Kinds) -> None:
    spec = {"failurePolicy": {"maxRestarts": 1}, "replicatedJobs": [_describe_jobs("a", 2)]}
    await kinds.create(JOB_SETS, "train", spec)
    await kinds.end((await kinds.wait_for_pods(2))[:1], "Failed")
    await kinds.wait(JOBS, "train-a-1", lambda job: job is not None and job.metadata.labels[_ATTEMPT] == "1")
    again = await kinds.wait(
        JOB_SETS, "train", lambda obj: conditions(obj).get("RestartingJobSet") == ("False", "JobsReady")
    )
    assert (again.status["restarts"], again.status["restartsCountTowardsMax"]) == (1, 1)
    await kinds.wait_for_events("train", "RestartJobSetFailurePolicyAction", "DefaultFailurePolicy")
    await kinds.end((await kinds.wait_for_pods(2))[:1], "Failed")
    done = await kinds.wait(JOB_SETS, "train", is_true("Failed"))
    assert conditions(done)["Failed"] == ("True", "ReachedMaxRestarts")
    assert done.status["terminalState"] == "Failed"


async def test_rules_of_the_failure_policy_decide_by_job_and_reason(kinds: Kinds) -> None:
    rules = [
        {"action": "FailJobSet", "targetReplicatedJobs": ["leader"]},
        {"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["BackoffLimitExceeded"]},
    ]
    spec = {
        "failurePolicy": {"maxRestarts": 0, "rules": rules},
        "replicatedJobs": [_describe_jobs("leader"), _describe_jobs("worker")],
    }
    await kinds.create(JOB_SETS, "train", spec)
    pods = await kinds.wait_for_pods(2)
    await kinds.end(pods[1:], "Failed")
    again = await kinds.wait(JOB_SETS, "train", lambda obj: obj.status.get("restarts") == 1)
    assert conditions(again)["RestartingJobSet"] == ("True", "FailurePolicy_failurePolicyRule1")
    assert "restartsCountTowardsMax" not in again.status
    await kinds.wait(
        JOBS, "train-leader-0", lambda job: job is not None and job.metadata.labels[_ATTEMPT] == "1"
    )
    await kinds.end((await kinds.wait_for_pods(2))[:1], "Failed")
    done = await kinds.wait(JOB_SETS, "train", is_true("Failed"))
    assert conditions(done)["Failed"] == ("True", "FailJobSetFailurePolicyAction")


async def test_a_success_policy_may_require_only_some_jobs(kinds: Kinds) -> None:
    spec = {
        "successPolicy": {"operator": "Any", "targetReplicatedJobs": ["leader"]},
        "replicatedJobs": [_describe_jobs("leader", 2), _describe_jobs("worker")],
    }
    await kinds.create(JOB_SETS, "train", spec)
    pods = await kinds.wait_for_pods(3)
    await kinds.end(pods[:1])
    await kinds.wait(JOB_SETS, "train", is_true("Completed"))
    await kinds.wait(JOBS, "train-worker-0", lambda job: job is None)


async def test_a_job_of_an_ordered_jobset_starts_when_the_previous_one_is_ready(kinds: Kinds) -> None:
    spec = {
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "replicatedJobs": [_describe_jobs("driver"), _describe_jobs("worker")],
    }
    await kinds.create(JOB_SETS, "train", spec)
    waiting = await kinds.wait(JOB_SETS, "train", is_true("StartupPolicyInProgress"), run=False)
    assert conditions(waiting) == {"StartupPolicyInProgress": ("True", "InOrderStartupPolicyInProgress")}
    assert await kinds.names(JOBS) == ["train-driver-0"]
    done = await kinds.wait(JOB_SETS, "train", is_true("StartupPolicyCompleted"))
    assert conditions(done)["StartupPolicyInProgress"][0] == "False"
    assert await kinds.names(JOBS) == ["train-driver-0", "train-worker-0"]


async def test_a_job_starts_when_the_job_that_it_depends_on_has_completed(kinds: Kinds) -> None:
    dependency = [{"name": "fetch", "status": "Complete"}]
    spec = {"replicatedJobs": [_describe_jobs("fetch"), _describe_jobs("train", dependsOn=dependency)]}
    await kinds.create(JOB_SETS, "set", spec)
    pods = await kinds.wait_for_pods(1)
    await kinds.wait(JOB_SETS, "set", lambda obj: obj.status["replicatedJobsStatus"][-1]["ready"] == 1)
    assert await kinds.names(JOBS) == ["set-fetch-0"]
    await kinds.end(pods)
    await kinds.wait(JOBS, "set-train-0", lambda job: job is not None)


async def test_a_suspended_jobset_runs_once_it_is_resumed_with_changes_of_its_template(kinds: Kinds) -> None:
    await kinds.create(JOB_SETS, "train", {"suspend": True, "replicatedJobs": [_describe_jobs("a")]})
    waiting = await kinds.wait(JOB_SETS, "train", is_true("Suspended"))
    assert conditions(waiting) == {"Suspended": ("True", "SuspendedJobs")}
    (job,) = await kinds.items(JOBS)
    assert job.spec.suspend
    jobs = waiting.spec["replicatedJobs"]
    jobs[0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    await kinds.patch(JOB_SETS, "train", {"suspend": False, "replicatedJobs": jobs})
    (pod,) = await kinds.wait_for_pods(1)
    assert pod.spec.node_selector == {"pool": "a"}
    resumed = await kinds.wait(JOB_SETS, "train", lambda obj: not is_true("Suspended")(obj))
    assert conditions(resumed) == {"Suspended": ("False", "ResumeJobs")}


async def test_a_jobset_with_a_time_to_live_is_deleted_after_its_end(kinds: Kinds) -> None:
    await kinds.create(
        JOB_SETS, "train", {"ttlSecondsAfterFinished": 0, "replicatedJobs": [_describe_jobs("a")]}
    )
    await kinds.end(await kinds.wait_for_pods(1))
    await kinds.wait(JOB_SETS, "train", lambda obj: obj is None)


async def test_exclusive_placement_sends_all_pods_of_a_job_to_the_domain_of_the_first(kinds: Kinds) -> None:
    meta = {"name": "n1", "labels": {_RACK: "r1"}}
    await kinds.cluster.create("Node", "n1", metadata=meta)
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": _RACK}
    await kinds.create(
        JOB_SETS, "train", {"replicatedJobs": [_describe_jobs("a", 1, 2)]}, annotations=annotations
    )
    (leader,) = await kinds.wait_for_pods(1, run=False)
    affinity = leader.spec.affinity
    assert affinity is not None
    assert affinity.pod_affinity is not None
    assert affinity.pod_anti_affinity is not None
    (term,) = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    assert term.topology_key == _RACK
    body = {
        "metadata": {"name": leader.metadata.name},
        "target": {"kind": "Node", "name": "n1"},
    }
    await kinds.client.create_subresource(PODS, leader.metadata.name, "binding", body, NAMESPACE)
    pods = await kinds.wait_for_pods(2)
    (follower,) = (pod for pod in pods if pod.metadata.name != leader.metadata.name)
    assert follower.spec.node_selector == {_RACK: "r1"}
    assert follower.spec.affinity is None


async def test_volume_claims_are_created_and_mounted(kinds: Kinds) -> None:
    job = _describe_jobs("a")
    pod = job["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    policies = [{"templates": [{"metadata": {"name": "data"}, "spec": claim}]}]
    await kinds.create(JOB_SETS, "train", {"volumeClaimPolicies": policies, "replicatedJobs": [job]})
    (made,) = await kinds.wait_for_pods(1, run=False)
    assert await kinds.names(PERSISTENT_VOLUME_CLAIMS) == ["data-train"]
    source = next(volume for volume in made.spec.volumes if volume.name == "data").persistent_volume_claim
    assert source is not None
    assert source.claim_name == "data-train"
