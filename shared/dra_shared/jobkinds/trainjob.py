"""The pods of a TrainJob, which come from its runtime."""

from dra_shared.jobkinds import jobset
from dra_shared.jobkinds.podsets import Gangs, Lookup, UnknownReference, integer
from dra_shared.jsontypes import JsonObject

_GROUP = "trainer.kubeflow.org"
_STEP = f"{_GROUP}/trainjob-ancestor-step"
_CONTAINER = "node"
"""The container of a trainer's pod whose resources a TrainJob sets."""


def find_pod_sets(obj: JsonObject, lookup: Lookup) -> Gangs:
    """Return the pods of the JobSet that the TrainJob's runtime describes. They are one gang.

    The TrainJob sets the number of its trainers and their resources. Mirrors pkg/runtime of kubeflow/trainer.

    Raises:
        UnknownReference: there is no such runtime.
    """
    spec = obj["spec"]
    reference = spec["runtimeRef"]
    kind = reference.get("kind") or "ClusterTrainingRuntime"
    namespace = "" if kind == "ClusterTrainingRuntime" else obj["metadata"].get("namespace") or "default"
    runtime = lookup(kind, namespace, reference["name"])
    if runtime is None:
        raise UnknownReference(f"{kind} {reference['name']}")
    trainer = spec.get("trainer") or {}
    nodes = integer(trainer, "numNodes", integer(runtime["spec"].get("mlPolicy") or {}, "numNodes", 1))
    jobs = []
    for job in runtime["spec"]["template"]["spec"].get("replicatedJobs") or ():
        template = job["template"]
        labels = (template.get("metadata") or {}).get("labels") or {}
        if labels.get(_STEP) == "trainer":
            template = {
                **template,
                "spec": _with_trainers(template["spec"], nodes, trainer.get("resourcesPerNode")),
            }
        jobs.append({**job, "template": template})
    return jobset.find_pod_sets({"spec": {"replicatedJobs": jobs}}, lookup)


def _with_trainers(job: JsonObject, nodes: int, resources: JsonObject | None) -> JsonObject:
    pod = job["template"]
    if resources:
        containers = [
            {**each, "resources": resources} if each["name"] == _CONTAINER else each
            for each in pod["spec"]["containers"]
        ]
        pod = {**pod, "spec": {**pod["spec"], "containers": containers}}
    return {**job, "parallelism": nodes, "completions": nodes, "template": pod}
