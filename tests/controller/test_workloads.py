"""Deployments, Jobs, StatefulSets and DaemonSets against a real API server."""

from typing import Any

import prometheus_client
import pytest
from dra_shared.api.resources import (
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
)
from dra_shared.clock import FakeClock

from tests.controller.cluster import POD_SPEC, Cluster, controllers


def _workload(**spec: Any) -> dict[str, Any]:
    labels = {"app": "test"}
    return {
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": POD_SPEC},
            **spec,
        }
    }


def _version(number: str) -> dict[str, Any]:
    return {"spec": {"template": {"metadata": {"labels": {"version": number}}}}}


async def test_a_rolling_update_keeps_the_minimum_of_available_pods(cluster: Cluster) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    async with controllers(cluster, "deployment-controller", "replicaset-controller"):
        await cluster.create("Deployment", "web", **_workload(replicas=3, strategy=rolling))

        async def complete() -> bool:
            web = await cluster.get("Deployment", "web")
            assert web is not None
            status = web.status
            done = any(c.reason == "NewReplicaSetAvailable" for c in status.conditions)
            counts = (status.replicas, status.updated_replicas, status.available_replicas)
            return done and counts == (3, 3, 3) and status.observed_generation == web.metadata.generation

        await cluster.until(complete, meanwhile=cluster.run_pods)
        await cluster.client.patch(DEPLOYMENTS, "web", _version("2"), "default")
        lowest = 3

        async def step() -> None:
            nonlocal lowest
            await cluster.run_pods()
            pods = await cluster.items("Pod")
            ready = sum(p.status.phase == "Running" and not p.metadata.deletion_timestamp for p in pods)
            lowest = min(lowest, ready)
            assert len(pods) <= 5

        await cluster.until(complete, meanwhile=step)
        assert lowest >= 3
        sets = await cluster.items("ReplicaSet")
        numbers = {s.metadata.annotations["deployment.kubernetes.io/revision"]: s.spec.replicas for s in sets}
        assert numbers == {"1": 0, "2": 3}
        assert {pod.metadata.labels["version"] for pod in await cluster.items("Pod")} == {"2"}


async def test_a_job_counts_each_finished_pod_once(cluster: Cluster) -> None:
    spec = {"completions": 3, "parallelism": 2, "template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}
    async with controllers(cluster, "job-controller"):
        await cluster.create("Job", "work", spec=spec)

        async def finish() -> None:
            for pod in await cluster.items("Pod"):
                if pod.status.phase in ("", "Pending"):
                    await cluster.set_status("Pod", pod, phase="Succeeded")

        async def complete() -> bool:
            job = await cluster.get("Job", "work")
            assert job is not None
            return any(c.type == "Complete" and c.status == "True" for c in job.status.conditions)

        await cluster.until(complete, meanwhile=finish)
        job = await cluster.get("Job", "work")
        assert job is not None
        assert (job.status.succeeded, job.status.failed, job.status.active) == (3, None, None)
        pods = await cluster.items("Pod")
        assert len(pods) == 3
        assert not any(pod.metadata.finalizers for pod in pods)

        def metric(name: str, **labels: str) -> float | None:
            return prometheus_client.REGISTRY.get_sample_value(
                f"job_controller_{name}", {"completion_mode": "NonIndexed", "result": "succeeded", **labels}
            )

        async def is_measured() -> bool:
            finished = metric("jobs_finished_total", reason="CompletionsReached")
            return (finished, metric("job_pods_finished_total")) == (1, 3)

        await cluster.until(is_measured)


async def test_the_finalizer_is_removed_from_pods_of_a_deleted_job(cluster: Cluster) -> None:
    spec = {"parallelism": 2, "template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}
    async with controllers(cluster, "job-controller", "garbage-collector-controller"):
        await cluster.create("Job", "work", spec=spec)

        async def has_pods() -> bool:
            return len(await cluster.items("Pod")) == 2

        await cluster.until(has_pods)
        await cluster.client.delete(JOBS, "work", "default", propagation="Background")

        async def has_none() -> bool:
            return not await cluster.items("Pod")

        await cluster.until(has_none)


async def test_a_job_fails_at_its_backoff_limit(cluster: Cluster) -> None:
    spec = {"backoffLimit": 0, "template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}
    async with controllers(cluster, "job-controller"):
        await cluster.create("Job", "work", spec=spec)

        async def fail() -> None:
            for pod in await cluster.items("Pod"):
                if pod.status.phase in ("", "Pending"):
                    await cluster.set_status("Pod", pod, phase="Failed")

        async def has_failed() -> bool:
            job = await cluster.get("Job", "work")
            assert job is not None
            return any(
                c.type == "Failed" and c.reason == "BackoffLimitExceeded" for c in job.status.conditions
            )

        await cluster.until(has_failed, meanwhile=fail)
        assert len(await cluster.items("Pod")) == 1


async def test_an_index_that_fails_too_often_fails_the_job(cluster: Cluster) -> None:
    spec = {
        "completions": 3,
        "parallelism": 3,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 0,
        "backoffLimit": 100,
        "template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}},
    }
    async with controllers(cluster, "job-controller"):
        await cluster.create("Job", "work", spec=spec)

        async def end() -> None:
            for pod in await cluster.items("Pod"):
                if pod.status.phase in ("", "Pending"):
                    index = pod.metadata.annotations["batch.kubernetes.io/job-completion-index"]
                    await cluster.set_status("Pod", pod, phase="Failed" if index == "1" else "Succeeded")

        async def has_failed() -> bool:
            job = await cluster.get("Job", "work")
            assert job is not None
            return any(c.type == "Failed" and c.reason == "FailedIndexes" for c in job.status.conditions)

        await cluster.until(has_failed, meanwhile=end)
        job = await cluster.get("Job", "work")
        assert job is not None
        assert (job.status.completed_indexes, job.status.failed_indexes) == ("0,2", "1")
        assert (job.status.succeeded, job.status.failed) == (2, 1)


async def test_a_success_policy_ends_a_job_early(cluster: Cluster) -> None:
    spec = {
        "completions": 3,
        "parallelism": 3,
        "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        "template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}},
    }
    async with controllers(cluster, "job-controller"):
        await cluster.create("Job", "work", spec=spec)

        async def lead() -> None:
            for pod in await cluster.items("Pod"):
                index = pod.metadata.annotations["batch.kubernetes.io/job-completion-index"]
                if index == "0" and pod.status.phase != "Succeeded":
                    await cluster.set_status("Pod", pod, phase="Succeeded")
            await cluster.run_pods()

        async def complete() -> bool:
            job = await cluster.get("Job", "work")
            assert job is not None
            return any(c.type == "Complete" and c.reason == "SuccessPolicy" for c in job.status.conditions)

        await cluster.until(complete, meanwhile=lead)
        job = await cluster.get("Job", "work")
        assert job is not None
        assert (job.status.succeeded, job.status.failed) == (1, None)


async def test_pods_that_a_failing_job_deletes_are_failed_pods_but_not_failed_indexes(
    cluster: Cluster,
) -> None:
    spec = {
        "completions": 3,
        "parallelism": 3,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 0,
        "template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}},
    }
    async with controllers(cluster, "job-controller"):
        await cluster.create("Job", "work", spec=spec)

        async def fail() -> None:
            for pod in await cluster.items("Pod"):
                if pod.metadata.annotations["batch.kubernetes.io/job-completion-index"] == "1":
                    await cluster.set_status("Pod", pod, phase="Failed")

        async def has_failed() -> bool:
            job = await cluster.get("Job", "work")
            assert job is not None
            return any(c.type == "Failed" for c in job.status.conditions)

        async def all_there() -> bool:
            return len(await cluster.items("Pod")) == 3

        await cluster.until(all_there)
        await cluster.until(has_failed, meanwhile=fail)
        job = await cluster.get("Job", "work")
        assert job is not None
        assert (job.status.failed, job.status.failed_indexes) == (3, "1")
        assert [c.reason for c in job.status.conditions] == ["MaxFailedIndexesExceeded"] * 2


async def test_a_stateful_set_starts_in_order_and_updates_from_the_end(cluster: Cluster) -> None:
    async with controllers(cluster, "statefulset-controller"):
        await cluster.create("StatefulSet", "db", **_workload(replicas=3, serviceName="db"))
        order: list[str] = []

        async def step() -> None:
            names = [pod.metadata.name for pod in await cluster.items("Pod")]
            order.extend(name for name in names if name not in order)
            await cluster.run_pods()

        async def ready() -> bool:
            db = await cluster.get("StatefulSet", "db")
            assert db is not None
            status = db.status
            current = bool(status.current_revision) and status.current_revision == status.update_revision
            observed = status.observed_generation == db.metadata.generation
            return status.ready_replicas == status.updated_replicas == 3 and current and bool(observed)

        await cluster.until(ready, meanwhile=step)
        # The last pod may have been created between two reads of a step.
        await step()
        assert order == ["db-0", "db-1", "db-2"]
        await cluster.client.patch(STATEFUL_SETS, "db", _version("2"), "default")
        await cluster.until(ready, meanwhile=step)
        pods = await cluster.items("Pod")
        assert {pod.metadata.labels["version"] for pod in pods} == {"2"}
        created = {pod.metadata.name: int(pod.metadata.resource_version) for pod in pods}
        assert created["db-2"] < created["db-0"]


async def test_a_daemon_set_runs_on_the_nodes_that_it_tolerates(cluster: Cluster) -> None:
    taint = {"key": "example.com/dedicated", "effect": "NoSchedule"}
    await cluster.create("Node", "open")
    await cluster.create("Node", "closed", spec={"taints": [taint]})
    async with controllers(cluster, "daemonset-controller", "node-lifecycle-controller"):
        await cluster.create("DaemonSet", "agent", **_workload())

        async def covers(*nodes: str) -> bool:
            agent = await cluster.get("DaemonSet", "agent")
            assert agent is not None
            return bool(len(await cluster.items("Pod")) == len(nodes) == agent.status.number_ready)

        await cluster.until(lambda: covers("open"), meanwhile=cluster.run_pods)
        await cluster.create("Node", "new")
        await cluster.until(lambda: covers("open", "new"), meanwhile=cluster.run_pods)
        await cluster.delete("Node", "open")
        await cluster.until(lambda: covers("new"), meanwhile=cluster.run_pods)


async def test_failed_pods_of_a_daemon_set_are_replaced_with_back_off(cluster: Cluster) -> None:
    """Once, they were deleted without delay, as fast as a kubelet could reject them."""
    await cluster.create("Node", "bad")
    clock = FakeClock()

    async def alive() -> list[Any]:
        return [pod for pod in await cluster.items("Pod") if pod.metadata.deletion_timestamp is None]

    async def time_passes() -> None:
        await cluster.run_pods()
        await clock.advance(0.25)

    async def back_off_passes() -> None:
        # Time does not pass while requests are active, however slow the machine is.
        await cluster.run_pods()
        controller: Any = manager.controllers["daemonset-controller"]
        if controller.queue._due:
            await clock.advance(0.25)

    async def replaced_after(phase: str) -> float:
        """Return the seconds until a pod that ended in that phase is replaced."""
        (pod,) = await alive()
        await cluster.set_status("Pod", pod, phase=phase)

        async def another() -> bool:
            return any(one.metadata.uid != pod.metadata.uid for one in await alive())

        began = clock.monotonic()
        await cluster.until(another, meanwhile=back_off_passes)
        return clock.monotonic() - began

    async with controllers(
        cluster, "daemonset-controller", "node-lifecycle-controller", clock=clock
    ) as manager:
        await cluster.create("DaemonSet", "agent", **_workload())

        async def is_observed() -> bool:
            agent = await cluster.get("DaemonSet", "agent")
            return agent is not None and bool(agent.status.number_ready)

        await cluster.until(is_observed, meanwhile=time_passes)
        await replaced_after("Failed")
        # Each following pod waits for the rest of one, two or four seconds since the one before.
        slowest = max([await replaced_after("Failed") for _ in range(4)])
        assert slowest > 4
        assert await replaced_after("Succeeded") < slowest

        async def is_recorded() -> bool:
            reasons = {event.reason for event in (await cluster.client.list(EVENTS)).items}
            return {"FailedDaemonPod", "SucceededDaemonPod"} <= reasons

        await cluster.until(is_recorded, meanwhile=time_passes)


async def test_objects_are_deleted_with_their_namespace(cluster: Cluster) -> None:
    async with controllers(cluster, "namespace-controller", "serviceaccount-controller"):
        await cluster.create("Namespace", "doomed", spec={"finalizers": ["kubernetes"]})
        await cluster.create("Pod", "pod", "doomed", spec=POD_SPEC)
        await cluster.delete("Namespace", "doomed")

        async def is_gone() -> bool:
            return await cluster.get("Namespace", "doomed") is None

        async def end_pods() -> None:
            await cluster.run_pods("doomed")

        await cluster.until(is_gone, meanwhile=end_pods)
        assert await cluster.get("Pod", "pod", "doomed") is None


async def test_a_terminating_namespace_reports_its_remaining_objects_after_its_pods_are_gone(
    cluster: Cluster,
) -> None:
    """Follows upstream: while pods are left, the conditions do not report content or finalizers."""
    held = {"finalizers": ["example.com/hold"]}

    async def conditions() -> dict[str, tuple[str, str]]:
        namespace = await cluster.get("Namespace", "doomed")
        assert namespace is not None
        return {entry.type: (entry.status, entry.message) for entry in namespace.status.conditions}

    async with controllers(cluster, "namespace-controller"):
        await cluster.create("Namespace", "doomed", spec={"finalizers": ["kubernetes"]})
        await cluster.create("Pod", "pod", "doomed", spec=POD_SPEC, metadata=held)
        await cluster.create("ConfigMap", "config", "doomed", metadata=held)
        await cluster.delete("Namespace", "doomed")

        async def first() -> bool:
            return bool(await conditions())

        await cluster.until(first)
        pod = await cluster.get("Pod", "pod", "doomed")
        config = await cluster.get("ConfigMap", "config", "doomed")
        assert pod is not None
        assert pod.metadata.deletion_timestamp is not None
        assert config is not None
        assert config.metadata.deletion_timestamp is None
        found = await conditions()
        assert found["NamespaceContentRemaining"] == ("False", "All content successfully removed")
        assert found["NamespaceFinalizersRemaining"][0] == "False"
        await cluster.client.patch(PODS, "pod", {"metadata": {"finalizers": None}}, "doomed")
        remaining = "Some resources are remaining: configmaps. has 1 resource instances"

        async def second() -> bool:
            await cluster.run_pods("doomed")
            return (await conditions())["NamespaceContentRemaining"] == ("True", remaining)

        await cluster.until(second)
        found = await conditions()
        waiting = (
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )
        assert found["NamespaceFinalizersRemaining"] == ("True", waiting)


async def test_a_replica_set_without_deployment_ignores_colocated_pods_when_scaling_down(
    cluster: Cluster,
) -> None:
    """kube-controller-manager compares only nodes of ReplicaSets with the same Deployment."""
    async with controllers(cluster, "replicaset-controller"):
        await cluster.create("ReplicaSet", "web", **_workload(replicas=3))

        async def pods(number: int) -> bool:
            return len(await cluster.items("Pod")) == number

        await cluster.until(lambda: pods(3))
        made = await cluster.items("Pod")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        container = {"name": "c", "image": "busybox", "imageID": "", "ready": True}
        for pod, node, restarts in zip(made, ("crowded", "crowded", "lonely"), (0, 0, 1), strict=True):
            binding = {"metadata": {"name": pod.metadata.name}, "target": {"name": node}}
            await cluster.client.create_subresource(PODS, pod.metadata.name, "binding", binding, "default")
            statuses = [{**container, "restartCount": restarts}]
            await cluster.set_status(
                "Pod", pod, phase="Running", conditions=[ready], containerStatuses=statuses
            )
        await cluster.client.patch(REPLICA_SETS, "web", {"spec": {"replicas": 2}}, "default")
        await cluster.until(lambda: pods(2), meanwhile=cluster.run_pods)
        assert {pod.spec.node_name for pod in await cluster.items("Pod")} == {"crowded"}


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
async def test_pods_that_a_quota_rejected_are_created_once_it_allows_them(
    cluster: Cluster, kind: str
) -> None:
    """No event reports that a quota was raised, so the controller has to retry."""
    names = ("replicaset-controller", "replicationcontroller-controller", "resourcequota-controller")

    async def pods(number: int) -> bool:
        return len(await cluster.items("Pod")) == number

    async with controllers(cluster, *names) as manager:
        await cluster.create("ResourceQuota", "quota", spec={"hard": {"pods": "1"}})

        async def is_counted() -> bool:
            quota = await cluster.get("ResourceQuota", "quota")
            return quota is not None and quota.status.used == {"pods": "0"}

        await cluster.until(is_counted)
        fields = _workload(replicas=2)
        if kind == "ReplicationController":
            fields["spec"]["selector"] = {"app": "test"}
        await cluster.create(kind, "web", **fields)
        queue = manager.controllers[f"{kind.lower()}-controller"].queue  # type: ignore[attr-defined]  # of this controller alone

        async def is_rejected_often() -> bool:
            return bool(queue.count_requeues("default/web") > 3)

        await cluster.until(is_rejected_often)
        assert await pods(1)
        await cluster.client.patch(RESOURCE_QUOTAS, "quota", {"spec": {"hard": {"pods": "5"}}}, "default")
        await cluster.until(lambda: pods(2))


async def test_scaling_during_a_rollout_favors_the_newest_replica_set(cluster: Cluster) -> None:
    limits = {"maxSurge": "50%", "maxUnavailable": "25%"}
    spec = _workload(replicas=4, strategy={"type": "RollingUpdate", "rollingUpdate": limits})

    async def sizes(*wanted: int) -> bool:
        # Times have whole seconds. Of objects created in the same second, the name identifies the newest.
        found = sorted(
            await cluster.items("ReplicaSet"), key=lambda each: (each.metadata.creation_timestamp, each.key)
        )
        return tuple(each.spec.replicas for each in found) == wanted

    async def available() -> bool:
        found = await cluster.get("Deployment", "d")
        return found is not None and found.status.available_replicas == 4

    async with controllers(cluster, "deployment-controller", "replicaset-controller"):
        await cluster.create("Deployment", "d", **spec)
        await cluster.until(available, meanwhile=cluster.run_pods)
        await cluster.client.patch(DEPLOYMENTS, "d", _version("2"), "default")
        # None of the new pods ever becomes ready.
        await cluster.until(lambda: sizes(3, 3))
        await cluster.client.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 10}}, "default")
        await cluster.until(lambda: sizes(7, 8))
