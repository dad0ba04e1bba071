"""RayClusters and RayJobs on a real API server: their pods, and the status of the operator."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from dra_controller.jobkinds.operators import RAY_CLUSTERS, RAY_JOBS
from dra_controller.jobkinds.ray.names import GROUP, HOST_INDEX, NODE_TYPE, REPLICA_INDEX, REPLICA_NAME
from dra_controller.jobkinds.ray.startparams import complete_params, format_command
from dra_shared.api.pod import Pod
from dra_shared.api.resources import JOBS, PODS, SERVICES
from dra_shared.jsontypes import JsonObject

from tests.controller.cluster import Cluster, controllers
from tests.controller.jobkinds.kinds import NAMESPACE, Kinds, conditions
from tests.support.cases import each_case


def _pod(**container: Any) -> JsonObject:
    return {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.46.0", **container}]}}


def _group(name: str = "gpu", replicas: int = 2, **more: Any) -> JsonObject:
    resources = {"limits": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}}
    return {"groupName": name, "replicas": replicas, "template": _pod(resources=resources), **more}


def _cluster(*groups: JsonObject, **more: Any) -> JsonObject:
    head = {"rayStartParams": {}, "template": _pod(resources={"limits": {"cpu": "1", "memory": "2Gi"}})}
    return {"rayVersion": "2.46.0", "headGroupSpec": head, "workerGroupSpecs": list(groups), **more}


def _variables(pod: Pod) -> dict[str, str]:
    return {one.name: one.value for one in pod.spec.containers[0].env}


def _workers(pods: list[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.labels[NODE_TYPE] == "worker"]


@pytest.fixture
async def kinds(cluster: Cluster) -> AsyncIterator[Kinds]:
    names = ("raycluster", "rayjob", "job", "garbagecollector")
    async with controllers(cluster, *names, operators=("ray",)):
        yield Kinds(cluster)


async def test_a_raycluster_has_a_head_and_workers_that_get_the_heads_address(kinds: Kinds) -> None:
    await kinds.create(RAY_CLUSTERS, "c", _cluster(_group()))
    pods = await kinds.wait_for_pods(3)
    (head,) = (pod for pod in pods if pod.metadata.labels[NODE_TYPE] == "head")
    assert head.metadata.name == "c-head"
    assert (
        head.spec.containers[0]
        .args[0]
        .endswith(
            "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0 "
            " --memory=2147483648  --metrics-export-port=8080  --num-cpus=1 "
        )
    )
    workers = _workers(pods)
    assert all(pod.metadata.name.startswith("c-gpu-worker-") for pod in workers)
    assert {pod.metadata.labels[REPLICA_INDEX] for pod in workers} == {"0", "1"}
    assert "--num-gpus=1" in workers[0].spec.containers[0].args[0]
    domain = "c-head-svc.default.svc.cluster.local"
    assert _variables(workers[0])["RAY_ADDRESS"] == f"{domain}:6379"
    assert _variables(head)["RAY_ADDRESS"] == "127.0.0.1:6379"
    assert [one.name for one in workers[0].spec.init_containers] == ["wait-gcs-ready"]
    service = await kinds.get(SERVICES, "c-head-svc")
    assert service.spec.cluster_ip == "None"
    ports = {port.name: port.port for port in service.spec.ports}
    assert ports == {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}
    done = await kinds.wait(RAY_CLUSTERS, "c", lambda obj: obj.status.get("state") == "ready")
    assert conditions(done) == {
        "HeadPodReady": ("True", "HeadPodRunningAndReady"),
        "RayClusterProvisioned": ("True", "AllPodRunningAndReadyFirstTime"),
        "RayClusterSuspended": ("False", "RayClusterSuspended"),
        "RayClusterSuspending": ("False", "RayClusterSuspending"),
    }
    numbers = ("desiredWorkerReplicas", "readyWorkerReplicas", "availableWorkerReplicas", "maxWorkerReplicas")
    assert [done.status[name] for name in numbers] == [2, 2, 2, 2**31 - 1]
    assert [done.status[f"desired{name}"] for name in ("CPU", "Memory", "GPU", "TPU")] == [
        "5",
        "10Gi",
        "2",
        "0",
    ]
    assert done.status["head"]["serviceName"] == "c-head-svc"
    await kinds.wait_for_events("c", "CreatedService", "CreatedHeadPod", "CreatedWorkerPod")


async def test_worker_groups_are_scaled_and_their_failed_pods_are_replaced(kinds: Kinds) -> None:
    await kinds.create(RAY_CLUSTERS, "c", _cluster(_group(replicas=1)))
    worker = _workers(await kinds.wait_for_pods(2))[0]
    await kinds.patch(RAY_CLUSTERS, "c", {"workerGroupSpecs": [_group(replicas=3)]})
    await kinds.wait_for_pods(4)
    await kinds.end([worker], "Failed")
    await kinds.wait(PODS, worker.metadata.name, lambda pod: pod is None)
    await kinds.wait_for_pods(4)
    named = _workers(await kinds.active_pods())[0].metadata.name
    group = _group(replicas=2, scaleStrategy={"workersToDelete": [named]})
    await kinds.patch(RAY_CLUSTERS, "c", {"workerGroupSpecs": [group]})
    pods = await kinds.wait_for_pods(3)
    assert named not in [pod.metadata.name for pod in pods]


async def test_the_pods_of_a_multi_host_replica_are_created_and_deleted_together(kinds: Kinds) -> None:
    await kinds.create(RAY_CLUSTERS, "c", _cluster(_group("tpu", 2, numOfHosts=2)))
    workers = _workers(await kinds.wait_for_pods(5))
    places = {(pod.metadata.labels[REPLICA_INDEX], pod.metadata.labels[HOST_INDEX]) for pod in workers}
    assert places == {("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")}
    assert await kinds.get(SERVICES, "c-headless") is not None
    gone = workers[0].metadata.labels[REPLICA_NAME]
    await kinds.client.delete(PODS, workers[0].metadata.name, NAMESPACE)

    async def is_replaced() -> bool:
        now = _workers(await kinds.active_pods())
        return len(now) == 4 and gone not in {pod.metadata.labels[REPLICA_NAME] for pod in now}

    await kinds.cluster.until(is_replaced, meanwhile=kinds.cluster.run_pods)


async def test_a_suspended_raycluster_has_no_pods(kinds: Kinds) -> None:
    await kinds.create(RAY_CLUSTERS, "c", _cluster(_group(replicas=1)))
    await kinds.wait(RAY_CLUSTERS, "c", lambda obj: obj.status.get("state") == "ready")
    await kinds.patch(RAY_CLUSTERS, "c", {"suspend": True})
    done = await kinds.wait(RAY_CLUSTERS, "c", lambda obj: obj.status.get("state") == "suspended")
    assert conditions(done)["RayClusterSuspended"] == ("True", "RayClusterSuspended")
    assert await kinds.pods() == []
    await kinds.patch(RAY_CLUSTERS, "c", {"suspend": False})
    await kinds.wait(RAY_CLUSTERS, "c", lambda obj: obj.status.get("state") == "ready")


async def test_a_rayjob_creates_a_cluster_and_ends_when_its_submitter_ends(kinds: Kinds) -> None:
    spec = {
        "entrypoint": "python train.py",
        "rayClusterSpec": _cluster(_group(replicas=1)),
        "shutdownAfterJobFinishes": True,
        "runtimeEnvYAML": "pip: [torch]\n",
    }
    await kinds.create(RAY_JOBS, "train", spec)
    running = await kinds.wait(RAY_JOBS, "train", lambda obj: obj.status.get("jobStatus") == "RUNNING")
    assert running.status["jobDeploymentStatus"] == "Running"
    name = running.status["rayClusterName"]
    assert running.status["dashboardURL"] == f"{name}-head-svc.default.svc.cluster.local:8265"
    job = await kinds.get(JOBS, "train")
    (command,) = job.spec.template.spec.containers[0].args
    assert "ray job submit --address http://" in command
    assert r'--runtime-env-json "{\"pip\":[\"torch\"]}"' in command
    assert f"--submission-id {running.status['jobId']} -- python train.py ;" in command
    submitters = [pod for pod in await kinds.active_pods() if GROUP not in pod.metadata.labels]
    await kinds.end(submitters)
    done = await kinds.wait(RAY_JOBS, "train", lambda obj: obj.status["jobDeploymentStatus"] == "Complete")
    assert (done.status["jobStatus"], done.status["succeeded"]) == ("SUCCEEDED", 1)
    await kinds.wait(RAY_CLUSTERS, name, lambda cluster: cluster is None)
    await kinds.wait_for_events("train", "CreatedRayCluster", "CreatedRayJobSubmitter", "DeletedRayCluster")


async def test_a_failed_rayjob_is_retried_with_a_new_cluster(kinds: Kinds) -> None:
    spec = {
        "entrypoint": "false",
        "backoffLimit": 1,
        "submitterConfig": {"backoffLimit": 0},
        "rayClusterSpec": _cluster(),
    }
    await kinds.create(RAY_JOBS, "train", spec)
    first = await kinds.wait(RAY_JOBS, "train", lambda obj: obj.status.get("jobStatus") == "RUNNING")
    for attempt in (1, 2):
        submitters = [pod for pod in await kinds.active_pods() if GROUP not in pod.metadata.labels]
        await kinds.end(submitters, "Failed")
        if attempt == 1:
            again = await kinds.wait(
                RAY_JOBS,
                "train",
                lambda obj: obj.status.get("jobStatus") == "RUNNING" and obj.status["failed"] == 1,
            )
            assert again.status["rayClusterName"] != first.status["rayClusterName"]
    done = await kinds.wait(RAY_JOBS, "train", lambda obj: obj.status["jobDeploymentStatus"] == "Failed")
    assert (done.status["reason"], done.status["failed"]) == ("AppFailed", 2)


async def test_a_suspended_rayjob_deletes_its_cluster(kinds: Kinds) -> None:
    await kinds.create(RAY_JOBS, "train", {"entrypoint": "true", "rayClusterSpec": _cluster()})
    await kinds.wait(RAY_JOBS, "train", lambda obj: obj.status.get("jobStatus") == "RUNNING")
    await kinds.patch(RAY_JOBS, "train", {"suspend": True})
    done = await kinds.wait(RAY_JOBS, "train", lambda obj: obj.status["jobDeploymentStatus"] == "Suspended")
    assert "rayClusterName" not in done.status
    assert await kinds.names(RAY_CLUSTERS) == []
    await kinds.patch(RAY_JOBS, "train", {"suspend": False})
    await kinds.wait(RAY_JOBS, "train", lambda obj: obj.status.get("jobStatus") == "RUNNING")


async def test_a_head_pod_that_cannot_be_created_is_reported_in_a_condition(kinds: Kinds) -> None:
    cluster = _cluster()
    cluster["headGroupSpec"]["template"]["spec"]["priorityClassName"] = "none-such"
    await kinds.create(RAY_CLUSTERS, "c", cluster)
    failed = await kinds.wait(RAY_CLUSTERS, "c", lambda obj: "RayClusterReplicaFailure" in conditions(obj))
    assert conditions(failed)["RayClusterReplicaFailure"] == ("True", "FailedCreateHeadPod")
    await kinds.wait_for_events("c", "FailedToCreateHeadPod")


@each_case(
    ("group", "limits", "words"),
    [
        ({"resources": {"CPU": "4", "GPU": "1", "custom": "2"}}, {}, ["--num-cpus=4", "--num-gpus=1"]),
        ({"resources": {"custom": "2"}}, {}, ["--resources='{\"custom\":2}'"]),
        ({}, {"google.com/tpu": "4"}, ["--resources='{\"TPU\":4}'"]),
        (
            {"rayStartParams": {"resources": '"{\\"CPU\\": 4}"'}},
            {"nvidia.com/gpu": "1"},
            ['--resources="{\\"CPU\\": 4}"'],
        ),
        ({"labels": {"b": "2", "a": "1"}}, {}, ["--labels=a=1,b=2"]),
        (
            {"rayStartParams": {"num-gpus": "0", "include-dashboard": "false"}},
            {"nvidia.com/gpu": "8"},
            ["--num-gpus=0", "--include-dashboard=false"],
        ),
    ],
)
def test_the_start_command_contains_the_resources_of_the_node(
    group: JsonObject, limits: dict[str, str], words: list[str]
) -> None:
    command = format_command(complete_params(group, {"limits": limits}, "head:6379"), head=False)
    assert command.startswith("ray start  --address=head:6379 ")
    assert all(f" {word} " in command for word in words)
