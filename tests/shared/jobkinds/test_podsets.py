"""The pods of objects of job kinds, without a cluster."""

from typing import Any

import pytest
from dra_shared.jobkinds import jobset, leaderworkerset, mpijob, ray
from dra_shared.jobkinds.kinds import KINDS
from dra_shared.jobkinds.podsets import Gangs, UnknownReference
from dra_shared.jsontypes import JsonObject

_POD: JsonObject = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
_OTHER: JsonObject = {"spec": {"containers": [{"name": "other", "image": "busybox"}]}}


def _find_nothing(kind: str, namespace: str, name: str) -> None:
    return None


def _sets(gangs: Gangs) -> dict[str, int]:
    return {one.name: one.count for one in gangs.sets}


def _job(name: str, replicas: int, **spec: Any) -> JsonObject:
    return {"name": name, "replicas": replicas, "template": {"spec": {"template": _POD, **spec}}}


def test_the_pods_of_a_jobset_are_one_gang() -> None:
    jobs = [_job("a", 2, parallelism=3, completions=2), _job("b", 1, parallelism=3), _job("c", 1)]
    gangs = jobset.find_pod_sets({"spec": {"replicatedJobs": jobs}}, _find_nothing)
    assert (gangs.number, gangs.size, _sets(gangs)) == (1, 8, {"a": 4, "b": 3, "c": 1})
    assert gangs.sets[0].template == _POD


def test_each_group_of_a_leaderworkerset_is_a_gang() -> None:
    template = {"size": 4, "leaderTemplate": _OTHER, "workerTemplate": _POD}
    gangs = leaderworkerset.find_pod_sets(
        {"spec": {"replicas": 3, "leaderWorkerTemplate": template}}, _find_nothing
    )
    assert (gangs.number, gangs.size, _sets(gangs)) == (3, 4, {"leader": 1, "worker": 3})
    assert [one.template for one in gangs.sets] == [_OTHER, _POD]


@pytest.mark.parametrize(
    ("group", "pods"),
    [
        ({"replicas": 2}, 2),
        ({"replicas": 2, "numOfHosts": 4}, 8),
        ({"replicas": 5, "maxReplicas": 3}, 3),
        ({"minReplicas": 1}, 1),
        ({"replicas": 2, "suspend": True}, 0),
    ],
)
def test_replicas_of_ray_worker_groups_are_limited_by_their_bounds(group: JsonObject, pods: int) -> None:
    cluster = {
        "headGroupSpec": {"template": _OTHER},
        "workerGroupSpecs": [{"groupName": "w", "template": _POD, **group}],
    }
    assert _sets(ray.find_cluster_pod_sets({"spec": cluster}, _find_nothing)) == {"head": 1, "w": pods}
    job = {"spec": {"rayClusterSpec": cluster}}
    assert _sets(ray.find_job_pod_sets(job, _find_nothing)) == {"head": 1, "w": pods}


def test_a_rayjob_on_an_existing_cluster_has_no_pods_of_its_own() -> None:
    spec = {"clusterSelector": {"ray.io/cluster": "c"}}
    assert ray.find_job_pod_sets({"spec": spec}, _find_nothing).number == 0


def test_an_mpijob_has_a_launcher_and_workers() -> None:
    replicas = {"Worker": {"replicas": 3, "template": _POD}, "Launcher": {"template": _OTHER}}
    gangs = mpijob.find_pod_sets({"spec": {"mpiReplicaSpecs": replicas}}, _find_nothing)
    assert _sets(gangs) == {"launcher": 1, "worker": 3}


def test_a_trainjob_has_the_pods_of_its_training_runtime() -> None:
    step = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}}
    node = {"name": "node", "template": {**step, "spec": {"template": _POD}}}
    runtime = {"spec": {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [node]}}}}
    asked = []

    def look_up(kind: str, namespace: str, name: str) -> JsonObject | None:
        asked.append((kind, namespace, name))
        return runtime if name == "r" else None

    find = KINDS["trainer.kubeflow.org", "TrainJob"]
    train: JsonObject = {"metadata": {"name": "t", "namespace": "n"}, "spec": {"runtimeRef": {"name": "r"}}}
    assert _sets(find(train, look_up)) == {"node": 2}
    train["spec"]["trainer"] = {"numNodes": 4}
    assert _sets(find(train, look_up)) == {"node": 4}
    assert set(asked) == {("ClusterTrainingRuntime", "", "r")}
    train["spec"]["runtimeRef"] = {"name": "gone", "kind": "TrainingRuntime"}
    with pytest.raises(UnknownReference, match="TrainingRuntime gone"):
        find(train, look_up)
    assert asked[-1] == ("TrainingRuntime", "n", "gone")
