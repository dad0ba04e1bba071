"""The pods of Deployments, Jobs and other workloads, as if their controllers created them all at once."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from dra_shared.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from dra_shared.api.batch import CronJob, Job
from dra_shared.api.core import ReplicationController
from dra_shared.api.meta import Object, ObjectMeta, OwnerReference
from dra_shared.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_shared.api.pod import Affinity, NodeAffinity, Pod, PodSpec, PodTemplateSpec
from dra_shared.api.resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)

_replace = msgspec.structs.replace

TEMPLATED: tuple[Resource[Any], ...] = (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    REPLICATION_CONTROLLERS,
    JOBS,
    CRON_JOBS,
    DAEMON_SETS,
)


def replicas(workload: Object, nodes: int = 0) -> int:
    """Return the number of pods of a workload. A DaemonSet has one per node, a CronJob those of one run."""
    if isinstance(workload, Deployment | ReplicaSet | StatefulSet | ReplicationController):
        return 1 if workload.spec.replicas is None else workload.spec.replicas
    if isinstance(workload, Job | CronJob):
        spec = workload.spec if isinstance(workload, Job) else workload.spec.job_template.spec
        wanted = 1 if spec.parallelism is None else spec.parallelism
        return wanted if spec.completions is None else min(wanted, spec.completions)
    return nodes if isinstance(workload, DaemonSet) else 0


def template(workload: Object) -> PodTemplateSpec | None:
    """Return the template of the workload's pods, or None."""
    if isinstance(workload, CronJob):
        return workload.spec.job_template.spec.template
    found: PodTemplateSpec | None = getattr(getattr(workload, "spec", None), "template", None)
    return found


def pods_of(resource: Resource[Any], workload: Object, nodes: Iterable[str] = ()) -> Iterator[Pod]:
    """Yield the workload's pods, numbered and named after it. A DaemonSet has one for each of ``nodes``."""
    made = template(workload)
    if made is None:
        return
    meta = workload.metadata
    owner = OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=meta.name,
        uid=meta.uid or f"plan-{resource.plural}-{meta.name}",
        controller=True,
    )
    names = list(nodes)
    for index in range(replicas(workload, len(names))):
        pod = Pod(
            metadata=ObjectMeta(
                name=f"{meta.name}-{index}",
                namespace=meta.namespace,
                labels=made.metadata.labels,
                annotations=made.metadata.annotations,
                owner_references=(owner,),
            ),
            spec=made.spec,
        )
        if isinstance(workload, DaemonSet):
            pod = _replace(pod, spec=_bound_to(pod, names[index]))
        yield pod


def _bound_to(pod: Pod, node: str) -> PodSpec:
    """Return the pod's spec limited to the node (upstream's ``ReplaceDaemonSetPodNodeNameNodeAffinity``)."""
    term = NodeSelectorTerm(
        match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,)),)
    )
    required = NodeSelector(node_selector_terms=(term,))
    wanted = NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    affinity = _replace(pod.spec.affinity or Affinity(), node_affinity=wanted)
    return _replace(pod.spec, affinity=affinity)
