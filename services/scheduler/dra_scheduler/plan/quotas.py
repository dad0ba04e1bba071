"""ResourceQuotas of a world: new pods and claims that would exceed one are refused as the API server refuses them."""

from dra_shared.api.core import ResourceQuota
from dra_shared.api.pod import Pod
from dra_shared.api.resource import DeviceClass, ResourceClaim
from dra_shared.api.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from dra_shared.quota import NamespaceUsage
from dra_shared.quotacheck import check_claim, check_pod

from dra_scheduler.plan.memory import MemoryClient


class Quotas:
    """Compares new objects with the quotas of their namespace (plugin/pkg/admission/resourcequota)."""

    def __init__(self, client: MemoryClient, *, extended_resources: bool) -> None:
        self._client = client
        self._extended = extended_resources
        self.enforced = True

    def refusal_of_pod(self, pod: Pod) -> str:
        """Return the message with which the API server refuses a new pod, empty if it does not."""
        space = pod.metadata.namespace
        reasons = (check_pod(quota, pod, None, self._usage(space)) for quota in self._quotas(space))
        return next((f'pods "{pod.metadata.name}" is forbidden: {why}' for why in reasons if why), "")

    def refusal_of_claim(self, claim: ResourceClaim) -> str:
        """Return the message with which the API server refuses a new claim, empty if it does not."""
        space = claim.metadata.namespace
        reasons = (check_claim(quota, claim, None, self._usage(space)) for quota in self._quotas(space))
        name = f'{RESOURCE_CLAIMS.group_resource} "{claim.metadata.name}"'
        return next((f"{name} is forbidden: {why}" for why in reasons if why), "")

    def _quotas(self, namespace: str) -> list[ResourceQuota]:
        found = self._client.objects(RESOURCE_QUOTAS) if self.enforced else ()
        mine = [quota for quota in found if quota.metadata.namespace == namespace]
        return sorted(mine, key=lambda quota: quota.metadata.name)

    def _usage(self, namespace: str) -> NamespaceUsage:
        objects = self._client.objects

        def classes() -> list[DeviceClass] | None:
            return objects(DEVICE_CLASSES) if self._extended else None

        return NamespaceUsage(
            lambda: [pod for pod in objects(PODS) if pod.metadata.namespace == namespace],
            lambda: [claim for claim in objects(RESOURCE_CLAIMS) if claim.metadata.namespace == namespace],
            classes,
        )
