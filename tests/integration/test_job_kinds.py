"""Objects of job kinds whose pods get devices from claim templates, run on nodes, and end."""

import pytest
from dra_shared.jsontypes import JsonObject
from dra_testing.cluster import AsyncCluster

_TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec:
  spec:
    devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}
"""


pytestmark = pytest.mark.dra_cluster(
    scope="module",
    nodes=2,
    gpus="4xA100-SXM4-40GB",
    operators=("lws", "ray", "mpi", "trainer"),
    # A Ray node is ready ten seconds after its start at the earliest.
    fake_clock=True,
)


@pytest.fixture
async def lab(dra_cluster: AsyncCluster) -> AsyncCluster:
    await dra_cluster.apply(_TEMPLATE)
    return dra_cluster


def _pod(command: str = "nvidia-smi -L && sleep 1", name: str = "main") -> JsonObject:
    container = {
        "name": name,
        "image": "busybox",
        "command": ["sh", "-c", command],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    spec = {"resourceClaims": claims, "containers": [container], "terminationGracePeriodSeconds": 1}
    return {"spec": spec}


async def _devices(lab: AsyncCluster) -> set[str]:
    """Return the devices that claims have now."""
    return {
        f"{result['pool']}/{result['device']}"
        for claim in await lab.list("resourceclaims", "default")
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    }


async def test_the_pods_of_a_jobset_get_devices_and_end(lab: AsyncCluster) -> None:
    job = {"parallelism": 2, "completions": 2, "template": _pod()}
    await lab.apply(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "train"},
            "spec": {"replicatedJobs": [{"name": "worker", "replicas": 2, "template": {"spec": job}}]},
        }
    )

    async def are_all_allocated() -> bool:
        return len(await _devices(lab)) == 4

    await lab.until(are_all_allocated)
    await lab.wait_for("jobset/train", "Completed")
    pods = await lab.list("pods", "default", selector="jobset.sigs.k8s.io/jobset-name=train")
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
    log = await lab.pod(pods[0]["metadata"]["name"]).logs()
    assert log.count("NVIDIA A100") == 1


async def test_the_groups_of_a_leaderworkerset_get_devices_and_become_available(lab: AsyncCluster) -> None:
    command = "echo $LWS_LEADER_ADDRESS $LWS_WORKER_INDEX of $LWS_GROUP_SIZE && nvidia-smi -L && sleep 1000"
    template = {"size": 2, "workerTemplate": _pod(command)}
    await lab.apply(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "serve"},
            "spec": {"replicas": 2, "leaderWorkerTemplate": template},
        }
    )
    await lab.wait_for("leaderworkerset/serve", "Available")
    assert len(await _devices(lab)) == 4
    log = await lab.pod("serve-1-1").logs()
    assert log.startswith("serve-1.serve.default 1 of 2\nGPU 0: NVIDIA A100")
    await lab.delete("leaderworkerset/serve")

    async def are_all_free() -> bool:
        return not await _devices(lab)

    await lab.until(are_all_free)


async def test_the_workers_of_a_raycluster_get_devices(lab: AsyncCluster) -> None:
    worker = _pod("unused", "ray")
    del worker["spec"]["containers"][0]["command"]
    worker["spec"]["containers"][0]["image"] = "rayproject/ray:2.46.0"
    head = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.46.0"}]}}
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": head},
        "workerGroupSpecs": [
            {"groupName": "gpu", "replicas": 2, "rayStartParams": {}, "template": worker},
        ],
    }
    await lab.apply(
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "c"}, "spec": cluster}
    )
    await lab.wait_for("raycluster/c", "RayClusterProvisioned")
    assert len(await _devices(lab)) == 2


async def test_the_workers_of_an_mpijob_get_devices_until_the_launcher_ends(lab: AsyncCluster) -> None:
    launcher = {"spec": {"containers": [{"name": "main", "image": "busybox", "command": ["sleep", "2"]}]}}
    replicas = {
        "Launcher": {"template": launcher},
        "Worker": {"replicas": 2, "template": _pod("sleep 1000")},
    }
    await lab.apply(
        {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": {"name": "pi"},
            "spec": {"mpiReplicaSpecs": replicas, "runPolicy": {"cleanPodPolicy": "Running"}},
        }
    )

    async def are_all_allocated() -> bool:
        return len(await _devices(lab)) == 2

    await lab.until(are_all_allocated)
    await lab.wait_for("mpijob/pi", "Succeeded")

    async def are_all_free() -> bool:
        return not await _devices(lab)

    await lab.until(are_all_free)


async def test_the_nodes_of_a_trainjob_get_devices(lab: AsyncCluster) -> None:
    step = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}}
    node = {"name": "node", "template": {**step, "spec": {"template": _pod(name="node")}}}
    group = "trainer.kubeflow.org/v1alpha1"
    await lab.apply(
        {
            "apiVersion": group,
            "kind": "TrainingRuntime",
            "metadata": {"name": "gpus"},
            "spec": {
                "mlPolicy": {"numNodes": 1, "torch": {}},
                "template": {"spec": {"replicatedJobs": [node]}},
            },
        },
        {
            "apiVersion": group,
            "kind": "TrainJob",
            "metadata": {"name": "t"},
            "spec": {
                "runtimeRef": {"name": "gpus", "kind": "TrainingRuntime"},
                "trainer": {"numNodes": 3, "command": ["sh", "-c", "echo $PET_NNODES && sleep 1"]},
            },
        },
    )

    async def are_all_allocated() -> bool:
        return len(await _devices(lab)) == 3

    await lab.until(are_all_allocated)
    await lab.wait_for("trainjob/t", "Complete")
    pods = await lab.list("pods", "default", selector="jobset.sigs.k8s.io/jobset-name=t")
    assert await lab.pod(pods[0]["metadata"]["name"]).logs() == "3\n"


async def test_a_rayjob_runs_its_entrypoint_and_deletes_its_cluster(lab: AsyncCluster) -> None:
    head = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.46.0"}]}}
    spec = {
        "entrypoint": "echo trained",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": head}},
    }
    await lab.apply({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": spec})
    done = await lab.wait_for(
        "rayjob/r", lambda obj: obj.get("status", {}).get("jobDeploymentStatus") == "Complete"
    )
    assert done["status"]["jobStatus"] == "SUCCEEDED"
    (pod,) = await lab.list("pods", "default", selector="batch.kubernetes.io/job-name=r")
    assert await lab.pod(pod["metadata"]["name"]).logs() == "trained\n"
    await lab.wait_for(f"raycluster/{done['status']['rayClusterName']}", "gone")
