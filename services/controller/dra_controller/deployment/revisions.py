"""The ReplicaSets of a Deployment as its history: the newest one, revision numbers and names.

Mirrors pkg/controller/deployment/sync.go and util/deployment_util.go.
"""

from collections.abc import Sequence

from dra_shared.api.apps import Deployment, ReplicaSet, ReplicaSetSpec
from dra_shared.api.meta import LabelSelector, ObjectMeta
from dra_shared.api.pod import PodTemplateSpec
from dra_shared.api.resources import DEPLOYMENTS
from msgspec.structs import replace

from dra_controller.deployment.rolling import DESIRED, MAX, limits, replicas_of
from dra_controller.hashing import template_hash
from dra_controller.pods import controller_reference

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
_NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    _REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
}


def revision(obj: Deployment | ReplicaSet) -> int:
    """Return the object's number in the history; 0 if it has none."""
    text = obj.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdigit() else 0


def newest_of(deployment: Deployment, replica_sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the ReplicaSet with the present template of the Deployment; the oldest if there are several."""
    wanted = _without_hash(deployment.spec.template)
    ordered = sorted(replica_sets, key=lambda rs: (rs.metadata.creation_timestamp or "", rs.metadata.name))
    return next((rs for rs in ordered if _without_hash(rs.spec.template) == wanted), None)


def _without_hash(template: PodTemplateSpec) -> PodTemplateSpec:
    labels = {key: value for key, value in template.metadata.labels.items() if key != HASH}
    return replace(template, metadata=replace(template.metadata, labels=labels))


def new_replica_set(deployment: Deployment, number: int, replicas: int) -> ReplicaSet:
    """Return a new ReplicaSet for the present template of the Deployment."""
    template = deployment.spec.template
    digest = template_hash(template, deployment.status.collision_count or None)
    labels = {**template.metadata.labels, HASH: digest}
    selector = deployment.spec.selector
    replica_set = ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.metadata.name}-{digest}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            annotations=size_annotations(deployment),
            owner_references=(controller_reference(DEPLOYMENTS, deployment),),
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            min_ready_seconds=deployment.spec.min_ready_seconds,
            selector=LabelSelector(
                match_labels={**selector.match_labels, HASH: digest},
                match_expressions=selector.match_expressions,
            ),
            template=replace(template, metadata=replace(template.metadata, labels=labels)),
        ),
    )
    return annotate(deployment, replica_set, number)


def annotate(deployment: Deployment, replica_set: ReplicaSet, number: int) -> ReplicaSet:
    """Return the ReplicaSet with the annotations of the Deployment and its own number in the history."""
    copied = {key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_COPIED}
    annotations = replica_set.metadata.annotations | copied
    old = revision(replica_set)
    if old < number:
        annotations[REVISION] = str(number)
        if old:
            history = [entry for entry in annotations.get(_REVISION_HISTORY, "").split(",") if entry]
            annotations[_REVISION_HISTORY] = ",".join([*history, str(old)])
    return replace(replica_set, metadata=replace(replica_set.metadata, annotations=annotations))


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that record the size of the Deployment.

    A difference to the spec shows that the Deployment was scaled.
    """
    surge, _ = limits(deployment)
    wanted = replicas_of(deployment)
    return {DESIRED: str(wanted), MAX: str(wanted + surge)}
