"""All kinds of jobs, with the function that finds the pods of an object."""

from collections.abc import Callable, Mapping

from dra_shared.jobkinds import jobset, leaderworkerset, mpijob, ray, trainjob, volcano
from dra_shared.jobkinds.podsets import Gangs, Lookup
from dra_shared.jobkinds.trainingjob import pod_sets_of
from dra_shared.jsontypes import JsonObject

KINDS: Mapping[tuple[str, str], Callable[[JsonObject, Lookup], Gangs]] = {
    ("jobset.x-k8s.io", "JobSet"): jobset.find_pod_sets,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leaderworkerset.find_pod_sets,
    ("ray.io", "RayCluster"): ray.find_cluster_pod_sets,
    ("ray.io", "RayJob"): ray.find_job_pod_sets,
    ("ray.io", "RayService"): ray.find_service_pod_sets,
    ("kubeflow.org", "MPIJob"): mpijob.find_pod_sets,
    ("kubeflow.org", "PyTorchJob"): pod_sets_of("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): pod_sets_of("tfReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): pod_sets_of("xgbReplicaSpecs"),
    ("kubeflow.org", "JAXJob"): pod_sets_of("jaxReplicaSpecs"),
    ("kubeflow.org", "PaddleJob"): pod_sets_of("paddleReplicaSpecs"),
    ("trainer.kubeflow.org", "TrainJob"): trainjob.find_pod_sets,
    ("batch.volcano.sh", "Job"): volcano.find_pod_sets,
}
"""The functions by API group and kind. They raise UnknownReference if another object that they need is missing."""

REFERENCES = frozenset(
    (("trainer.kubeflow.org", "TrainingRuntime"), ("trainer.kubeflow.org", "ClusterTrainingRuntime"))
)
"""Kinds that the objects above refer to. They create no pods themselves."""
