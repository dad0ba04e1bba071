"""The names of ``--with``, and the kinds that each of them brings."""

from collections.abc import Iterable
from typing import Any

from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource
from msgspec import field

#: The operators. The value is the other operators whose kinds it needs.
OPERATORS: dict[str, tuple[str, ...]] = {
    "jobset": (),
    "lws": (),
    "ray": (),
    "mpi": (),
    "trainer": ("jobset",),
}


class Custom(Object):
    """An object of a custom kind."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", Custom)
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", Custom)
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster", Custom)
RAY_JOBS = Resource("ray.io", "v1", "rayjobs", "RayJob", Custom)
MPI_JOBS = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob", Custom)
_TRAINER = ("trainer.kubeflow.org", "v1alpha1")
TRAIN_JOBS = Resource(*_TRAINER, "trainjobs", "TrainJob", Custom)
TRAINING_RUNTIMES = Resource(*_TRAINER, "trainingruntimes", "TrainingRuntime", Custom)
CLUSTER_TRAINING_RUNTIMES = Resource(
    *_TRAINER, "clustertrainingruntimes", "ClusterTrainingRuntime", Custom, namespaced=False
)


def parse_operators(text: str) -> frozenset[str]:
    """Return the operators of a value of ``--with``, with those that they need.

    Raises:
        ValueError: there is no such operator.
    """
    return complete(name.strip() for name in text.split(",") if name.strip())


def complete(names: Iterable[str]) -> frozenset[str]:
    """Return the names with those that they need.

    Raises:
        ValueError: there is no such operator.
    """
    found: set[str] = set()
    for name in names:
        if name not in OPERATORS:
            raise ValueError(f'"{name}" is not one of {", ".join(OPERATORS)}')
        found |= {name, *OPERATORS[name]}
    return frozenset(found)
