"""The name, labels, volumes and number of a StatefulSet's pod. Pure.

Mirrors pkg/controller/statefulset/stateful_set_utils.go.
"""

from dra_shared.api.apps import StatefulSet
from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod
from dra_shared.api.resources import STATEFUL_SETS
from dra_shared.api.volume import PersistentVolumeClaimVolumeSource, Volume
from msgspec.structs import replace

from dra_controller.pods import controller_reference, pod_from_template
from dra_controller.revisions import HASH

POD_NAME = "statefulset.kubernetes.io/pod-name"
INDEX = "apps.kubernetes.io/pod-index"


def ordinal(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """Return the number of the pod; None if its name is not one of this StatefulSet."""
    prefix, _, number = pod.metadata.name.rpartition("-")
    return int(number) if prefix == stateful_set.metadata.name and number.isdigit() else None


def new_pod(stateful_set: StatefulSet, number: int, revision: str) -> Pod:
    """Return the pod with that number. ``revision`` is the name of the revision of its template."""
    pod = pod_from_template(stateful_set.spec.template, controller_reference(STATEFUL_SETS, stateful_set))
    name = f"{stateful_set.metadata.name}-{number}"
    labels = {**pod.metadata.labels, POD_NAME: name, INDEX: str(number), HASH: revision}
    mine = {claim.metadata.name for claim in stateful_set.spec.volume_claim_templates}
    volumes = [
        Volume(
            name=template.metadata.name,
            persistent_volume_claim=PersistentVolumeClaimVolumeSource(
                claim_name=f"{template.metadata.name}-{name}"
            ),
        )
        for template in stateful_set.spec.volume_claim_templates
    ]
    others = [volume for volume in pod.spec.volumes if volume.name not in mine]
    return replace(
        pod,
        metadata=replace(
            pod.metadata,
            name=name,
            generate_name=f"{stateful_set.metadata.name}-",
            namespace=stateful_set.metadata.namespace,
            labels=labels,
        ),
        spec=replace(
            pod.spec, hostname=name, subdomain=stateful_set.spec.service_name, volumes=(*volumes, *others)
        ),
    )


def volume_claims(stateful_set: StatefulSet, number: int) -> list[PersistentVolumeClaim]:
    """Return the volume claims that the pod with that number uses."""
    labels = stateful_set.spec.selector.match_labels
    return [
        PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=f"{template.metadata.name}-{stateful_set.metadata.name}-{number}",
                namespace=stateful_set.metadata.namespace,
                labels={**template.metadata.labels, **labels},
                annotations=template.metadata.annotations,
            ),
            spec=template.spec,
        )
        for template in stateful_set.spec.volume_claim_templates
    ]
