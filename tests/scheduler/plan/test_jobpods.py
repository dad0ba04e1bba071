"""The pods of JobSets and other kinds that operators define, and gangs of other schedulers."""

from typing import Any

import pytest
from dra_scheduler.plan.errors import PlanError
from dra_scheduler.plan.manifests import Manifests
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.wanted import of
from dra_shared.jobkinds.kinds import KINDS
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

_POD: JsonObject = {"spec": {"containers": [{"name": "node", "image": "x"}]}}


def _object(api_version: str, kind: str, name: str = "x", namespace: str = "n", **spec: Any) -> JsonObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _replicas(**counts: int) -> JsonObject:
    return {role: {"replicas": count, "template": _POD} for role, count in counts.items()}


_CLUSTER: JsonObject = {
    "headGroupSpec": {"template": _POD},
    "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "template": _POD}],
}
_JOBS: list[JsonObject] = [
    {"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2, "template": _POD}}}
]
_OBJECTS: list[tuple[JsonObject, list[str]]] = [
    (
        _object("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=_JOBS),
        ["x-a-0", "x-a-1", "x-a-2", "x-a-3"],
    ),
    (
        _object(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            replicas=2,
            leaderWorkerTemplate={"size": 3, "workerTemplate": _POD},
        ),
        ["x-0-leader-0", "x-0-worker-0", "x-0-worker-1", "x-1-leader-0", "x-1-worker-0", "x-1-worker-1"],
    ),
    (_object("ray.io/v1", "RayCluster", **_CLUSTER), ["x-head-0", "x-w-0", "x-w-1"]),
    (_object("ray.io/v1", "RayJob", rayClusterSpec=_CLUSTER), ["x-head-0", "x-w-0", "x-w-1"]),
    (_object("ray.io/v1", "RayService", rayClusterConfig=_CLUSTER), ["x-head-0", "x-w-0", "x-w-1"]),
    (
        _object("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs=_replicas(Launcher=1, Worker=2)),
        ["x-launcher-0", "x-worker-0", "x-worker-1"],
    ),
    *(
        (
            _object("kubeflow.org/v1", kind, "x", "n", **{field: _replicas(Worker=2)}),
            ["x-worker-0", "x-worker-1"],
        )
        for kind, field in (
            ("PyTorchJob", "pytorchReplicaSpecs"),
            ("TFJob", "tfReplicaSpecs"),
            ("XGBoostJob", "xgbReplicaSpecs"),
            ("JAXJob", "jaxReplicaSpecs"),
            ("PaddleJob", "paddleReplicaSpecs"),
        )
    ),
    (
        _object("batch.volcano.sh/v1alpha1", "Job", tasks=[{"name": "t", "replicas": 2, "template": _POD}]),
        ["x-t-0", "x-t-1"],
    ),
]
_TRAIN_JOB = _object(
    "trainer.kubeflow.org/v1alpha1",
    "TrainJob",
    runtimeRef={"name": "torch"},
    trainer={"numNodes": 3, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "2"}}},
)
_TRAINER: JsonObject = {
    "name": "node",
    "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": _POD},
    },
}
_RUNTIME = _object(
    "trainer.kubeflow.org/v1alpha1",
    "ClusterTrainingRuntime",
    "torch",
    template={
        "spec": {"replicatedJobs": [{"name": "init", "template": {"spec": {"template": _POD}}}, _TRAINER]}
    },
)


@each_case(("obj", "names"), _OBJECTS, ids=[str(obj["kind"]) for obj, _ in _OBJECTS])
def test_object_of_a_job_kind_counts_as_its_pods(obj: JsonObject, names: list[str]) -> None:
    found = Manifests.of([obj])
    wanted = of(found, Objects())
    assert ([pod.metadata.name for pod in wanted.pods], wanted.left_out) == (names, ())
    assert {pod.metadata.owner_references[0].kind for pod in wanted.pods} == {obj["kind"]}


def test_each_supported_job_kind_has_a_test_case() -> None:
    tried = {(obj["apiVersion"].rpartition("/")[0], obj["kind"]) for obj, _ in _OBJECTS}
    assert tried | {("trainer.kubeflow.org", "TrainJob")} == {*KINDS}


@pytest.mark.parametrize("given", [[_RUNTIME, _TRAIN_JOB], [_TRAIN_JOB, _RUNTIME]], ids=["before", "after"])
def test_trainjob_has_the_pods_of_its_runtime(given: list[JsonObject]) -> None:
    wanted = of(Manifests.of(given), Objects())
    assert [pod.metadata.name for pod in wanted.pods] == ["x-init-0", "x-node-0", "x-node-1", "x-node-2"]
    limits = [pod.spec.containers[0].resources.limits for pod in wanted.pods]
    assert limits == [{}, *[{"nvidia.com/gpu": "2"}] * 3]


def test_trainjob_without_its_runtime_is_left_out_with_a_reason() -> None:
    with pytest.raises(
        PlanError, match="of unknown kinds: TrainJob n/x without ClusterTrainingRuntime torch"
    ):
        of(Manifests.of([_TRAIN_JOB]), Objects())


def test_job_in_a_change_is_named_because_its_pods_are_not_added() -> None:
    found = Manifests.of([obj for obj, _ in _OBJECTS])
    assert (found.objects, found.left_out) == ([], [f"{obj['kind']} n/x" for obj, _ in _OBJECTS])


def test_gang_of_a_volcano_job_counts_as_a_pod_group() -> None:
    tasks = [{"name": "t", "replicas": 3, "template": _POD}]
    found = Manifests.of([_object("batch.volcano.sh/v1alpha1", "Job", minAvailable=2, tasks=tasks)])
    wanted = of(found, Objects())
    (group,) = wanted.groups
    assert group.spec.scheduling_policy.gang is not None
    assert group.spec.scheduling_policy.gang.min_count == 2
    assert {pod.spec.scheduling_group.pod_group_name for pod in wanted.pods if pod.spec.scheduling_group} == {
        "x"
    }
    assert wanted.assumed == (
        "the gang of Job n/x counts as a PodGroup with minCount 2, placed by kube-scheduler",
    )


@pytest.mark.parametrize(
    ("api_version", "annotation"),
    [
        ("scheduling.volcano.sh/v1beta1", "scheduling.k8s.io/group-name"),
        ("scheduling.volcano.sh/v1beta1", "scheduling.volcano.sh/group-name"),
        ("scheduling.run.ai/v2alpha2", "pod-group-name"),
    ],
)
def test_pod_joins_the_group_that_its_annotation_names(api_version: str, annotation: str) -> None:
    pod = _object("v1", "Pod", schedulerName="other", **_POD["spec"])
    pod["metadata"]["annotations"] = {annotation: "g"}
    wanted = of(Manifests.of([_object(api_version, "PodGroup", "g", minMember=4), pod]), Objects())
    assert [
        group.spec.scheduling_policy.gang.min_count
        for group in wanted.groups
        if group.spec.scheduling_policy.gang
    ] == [4]
    (made,) = wanted.pods
    assert made.spec.scheduling_group is not None
    assert (made.spec.scheduling_group.pod_group_name, made.spec.scheduler_name) == ("g", "default-scheduler")


def test_job_without_templates_is_rejected() -> None:
    found = Manifests.of([_object("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[{"name": "a"}])])
    with pytest.raises(PlanError, match="a JobSet cannot be read"):
        of(found, Objects())
