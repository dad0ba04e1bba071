"""TrainJobs on a real API server: their JobSets, and the conditions of the operator."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from dra_controller.jobkinds.operators import (
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
)
from dra_shared.api.pod import Pod
from dra_shared.api.resources import CONFIG_MAPS, SECRETS
from dra_shared.jobkinds.trainjob import build_jobset
from dra_shared.jsontypes import JsonObject

from tests.controller.cluster import Cluster, controllers
from tests.controller.jobkinds.kinds import Kinds, conditions, is_true, pod_template

_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


def _variables(pod: Pod) -> dict[str, str]:
    return {one.name: one.value for one in pod.spec.containers[0].env}


def _job(name: str, ancestor: str = "", **more: Any) -> JsonObject:
    template = pod_template()
    template["spec"]["containers"][0]["name"] = ancestor if ancestor not in ("", "trainer") else "node"
    labels = {"metadata": {"labels": {_ANCESTOR: ancestor}}} if ancestor else {}
    return {"name": name, "template": {**labels, "spec": {"template": template}}, **more}


def _runtime(*jobs: JsonObject, **policy: Any) -> JsonObject:
    return {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}}


@pytest.fixture
async def kinds(cluster: Cluster) -> AsyncIterator[Kinds]:
    names = ("trainjob", "jobset", "job", "garbagecollector")
    async with controllers(cluster, *names, operators=("trainer",)):
        yield Kinds(cluster)


async def test_a_trainjob_runs_the_requested_number_of_nodes_and_completes(kinds: Kinds) -> None:
    names = await kinds.names(CLUSTER_TRAINING_RUNTIMES)
    assert "torch-distributed" in names
    trainer = {
        "numNodes": 2,
        "command": ["torchrun", "train.py"],
        "env": [{"name": "MODE", "value": "fast"}],
        "resourcesPerNode": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "4"}},
    }
    await kinds.create(TRAIN_JOBS, "t", {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer})
    pods = await kinds.wait_for_pods(2)
    variables = _variables(pods[0])
    assert {key: value for key, value in variables.items() if key.startswith("PET_")} == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "auto",
        "PET_NODE_RANK": "",
        "PET_MASTER_ADDR": "t-node-0-0.t",
        "PET_MASTER_PORT": "29500",
    }
    assert variables["MODE"] == "fast"
    assert pods[0].spec.containers[0].command == ("torchrun", "train.py")
    assert pods[0].spec.containers[0].resources.limits == {"nvidia.com/gpu": "4"}
    running = await kinds.wait(
        TRAIN_JOBS, "t", lambda obj: obj.status.get("jobsStatus", [{}])[0].get("ready") == 1
    )
    assert conditions(running) == {}
    await kinds.end(pods)
    done = await kinds.wait(TRAIN_JOBS, "t", is_true("Complete"))
    assert conditions(done) == {"Complete": ("True", "AllJobsCompleted")}


async def test_a_trainjob_is_not_affected_by_later_changes_of_its_runtime(kinds: Kinds) -> None:
    await kinds.create(TRAINING_RUNTIMES, "mine", _runtime(_job("node", "trainer"), numNodes=1))
    spec = {"runtimeRef": {"name": "mine", "kind": "TrainingRuntime"}, "suspend": True}
    await kinds.create(TRAIN_JOBS, "t", spec)
    waiting = await kinds.wait(TRAIN_JOBS, "t", is_true("Suspended"))
    assert conditions(waiting)["Suspended"] == ("True", "Suspended")
    assert await kinds.get(CONFIG_MAPS, "t-runtime-snapshot") is not None
    await kinds.patch(TRAINING_RUNTIMES, "mine", _runtime(_job("node", "trainer"), numNodes=3))
    await kinds.patch(TRAIN_JOBS, "t", {"suspend": False})
    await kinds.wait_for_pods(1)
    resumed = await kinds.wait(TRAIN_JOBS, "t", lambda obj: not is_true("Suspended")(obj))
    assert conditions(resumed)["Suspended"] == ("False", "Resumed")


async def test_a_trainjob_starts_when_its_runtime_is_created(kinds: Kinds) -> None:
    spec = {"runtimeRef": {"name": "late", "kind": "TrainingRuntime"}}
    await kinds.create(TRAIN_JOBS, "t", spec)
    await kinds.wait_for_events("t", "TrainJobResourcesCreationFailed")
    await kinds.create(TRAINING_RUNTIMES, "late", _runtime(_job("node", "trainer"), numNodes=1))
    await kinds.wait_for_pods(1)


async def test_a_trainjob_fails_at_its_deadline_or_if_its_jobset_fails(kinds: Kinds) -> None:
    reference = {"name": "torch-distributed"}
    await kinds.create(TRAIN_JOBS, "late", {"runtimeRef": reference, "activeDeadlineSeconds": 1})
    done = await kinds.wait(TRAIN_JOBS, "late", is_true("Failed"))
    assert conditions(done)["Failed"] == ("True", "DeadlineExceeded")
    await kinds.wait(JOB_SETS, "late", lambda obj: obj is None)


async def test_mpi_jobs_get_a_hostfile_and_a_key(kinds: Kinds) -> None:
    trainer = {"numNodes": 3, "numProcPerNode": 2}
    spec = {"runtimeRef": {"name": "deepspeed-distributed"}, "trainer": trainer}
    await kinds.create(TRAIN_JOBS, "t", spec)
    pods = await kinds.wait_for_pods(3)
    hosts = (await kinds.get(CONFIG_MAPS, "t-mpi-hostfile")).data["hostfile"].splitlines()
    names = ["t-node-0-0", "t-node-0-1", "t-launcher-0-0"]
    assert hosts == [f"{name}.t slots=2" for name in names]
    assert (await kinds.get(SECRETS, "t-mpi-ssh-auth")).immutable
    (launcher,) = (pod for pod in pods if pod.metadata.name.startswith("t-launcher"))
    assert _variables(launcher)["OMPI_MCA_orte_set_default_slots"] == "2"


def test_patches_and_initializers_change_the_template_of_the_runtime() -> None:
    runtime = {"spec": _runtime(_job("model-initializer", "model-initializer"), _job("node", "trainer"))}
    container = {"name": "node", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    patch = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "replicatedJobs": [
                {
                    "name": "node",
                    "template": {
                        "spec": {
                            "template": {"spec": {"nodeSelector": {"pool": "a"}, "containers": [container]}}
                        }
                    },
                }
            ]
        },
    }
    train = {
        "metadata": {"name": "t"},
        "spec": {
            "runtimeRef": {"name": "r"},
            "initializer": {"model": {"storageUri": "hf://m", "secretRef": {"name": "token"}}},
            "runtimePatches": [{"manager": "a/b", "trainingRuntimeSpec": {"template": patch}}],
        },
    }
    made = build_jobset(train, runtime)
    assert made["metadata"]["labels"] == {"team": "a"}
    model, node = (one["template"]["spec"]["template"]["spec"] for one in made["spec"]["replicatedJobs"])
    assert node["nodeSelector"] == {"pool": "a"}
    assert node["containers"][0]["image"] == "busybox"
    assert node["containers"][0]["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]
    assert model["containers"][0]["env"] == [{"name": "STORAGE_URI", "value": "hf://m"}]
    assert model["containers"][0]["envFrom"] == [{"secretRef": {"name": "token"}}]
