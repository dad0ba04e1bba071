"""The shared parts of the claim controller: informer stores, recent creations, the client and the recorder."""

from dataclasses import dataclass

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceClaimTemplate
from dra_shared.api.resources import Resource
from dra_shared.api.scheduling import PodGroup
from dra_shared.claims import controller_of, pod_group_name
from dra_shared.client.events import Recorder
from dra_shared.client.rest import Client
from dra_shared.client.store import Store
from dra_shared.client.workqueue import Retry
from dra_shared.features import FeatureGates
from dra_shared.podgroups import pod_groups
from dra_shared.version import V1_37

from dra_controller.resourceclaim.created import CreatedClaims
from dra_controller.resourceclaim.metrics import ClaimMetrics
from dra_controller.uids import RecentUids

OWNER_INDEX = "claimOwner"


class SyncError(Retry):
    """A key could not be reconciled; the text is for the log and for events."""


@dataclass(frozen=True)
class Views:
    """The shared parts (see the docstring of the module)."""

    client: Client
    recorder: Recorder
    features: FeatureGates
    metrics: ClaimMetrics
    pods: Store[Pod]
    claims: Store[ResourceClaim]
    templates: Store[ResourceClaimTemplate]
    groups: Store[PodGroup] | None
    """None while DRAWorkloadResourceClaims is off."""
    created: CreatedClaims
    deleted: RecentUids

    @property
    def pod_groups(self) -> bool:
        """True if pod groups may have claims."""
        return self.groups is not None

    @property
    def group_resource(self) -> Resource[PodGroup]:
        """The resource of pod groups."""
        return pod_groups(self.features.version)

    def may_be_the_groups(self, pod: Pod) -> bool:
        """Return True if a claim of the pod may be meant for the pod's group, while claims of groups are disabled.

        Since 1.37 no claim is created for the pod alone in that case.
        """
        return (
            self.groups is None and pod.spec.scheduling_group is not None and self.features.version >= V1_37
        )

    def group_of(self, pod: Pod) -> PodGroup | None:
        """Return the group of the pod; None if the pod has none or the feature is off.

        Raises: SyncError: the group does not exist (yet).
        """
        name = pod_group_name(pod)
        if self.groups is None or name is None:
            return None
        group = self.groups.get(f"{pod.metadata.namespace}/{name}")
        if group is None:
            raise SyncError(f'podgroup.scheduling.k8s.io "{name}" not found')
        return group

    def owned_claims(self, uid: str) -> list[ResourceClaim]:
        """Return the claims that were created for the pod or pod group with that uid."""
        return [*self.claims.by_index(OWNER_INDEX, uid), *self.created.owned_by(uid)]


def owner_index(claim: ResourceClaim) -> list[str]:
    """Return the uid of the pod or pod group for which the claim was created (an index function)."""
    owner = controller_of(claim)
    if owner is None:
        return []
    is_pod = owner.api_version == "v1" and owner.kind == "Pod"
    is_group = owner.api_version.startswith("scheduling.k8s.io/") and owner.kind == "PodGroup"
    return [owner.uid] if is_pod or is_group else []
