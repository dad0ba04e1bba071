"""ResourceQuotas of a world: new pods and claims that exceed one are refused, as by the API server."""

from collections.abc import Callable, Iterable

import msgspec
from dra_shared.api.core import ResourceQuota
from dra_shared.api.pod import Pod
from dra_shared.api.resource import DeviceClass, ResourceClaim
from dra_shared.api.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from dra_shared.quantity import Quantity
from dra_shared.quota import NamespaceUsage, Usage
from dra_shared.quotacheck import check_claim, check_pod, more

from dra_scheduler.plan.memory import MemoryClient
from dra_scheduler.plan.objects import Objects

_replace = msgspec.structs.replace


class Quotas:
    """Compares new objects with the quotas of their namespace (plugin/pkg/admission/resourcequota)."""

    def __init__(self, client: MemoryClient, *, extended_resources: bool) -> None:
        self._client = client
        self._extended = extended_resources
        self.enforced = True
        # For each quota, the usage in its status beyond the world's objects. Dumps may lack some objects.
        self._unseen: dict[str, Usage] = {}

    def compare_with_objects(self) -> None:
        """Compare the status of each new quota with the world's initial objects."""
        for quota in self._client.objects(RESOURCE_QUOTAS):
            if _identity(quota) not in self._unseen:
                counted = self._usage(quota.metadata.namespace).sum_usage(quota, quota.spec.hard)
                used = {
                    name: Quantity.parse(text)
                    for name, text in quota.status.used.items()
                    if name in quota.spec.hard
                }
                self._unseen[_identity(quota)] = more(quota, used, counted)

    def refusal_of_pod(self, pod: Pod) -> str:
        """Return the message with which the API server refuses a new pod, or an empty string."""
        space = pod.metadata.namespace
        counted = self._usage(space)
        reasons = (
            check_pod(quota, pod, None, counted, self._unseen.get(_identity(quota)))
            for quota in self._quotas(space)
        )
        return next((f'pods "{pod.metadata.name}" is forbidden: {why}' for why in reasons if why), "")

    def refusal_of_claim(self, claim: ResourceClaim) -> str:
        """Return the message with which the API server refuses a new claim, or an empty string."""
        space = claim.metadata.namespace
        counted = self._usage(space)
        reasons = (
            check_claim(quota, claim, None, counted, self._unseen.get(_identity(quota)))
            for quota in self._quotas(space)
        )
        name = f'{RESOURCE_CLAIMS.group_resource} "{claim.metadata.name}"'
        return next((f"{name} is forbidden: {why}" for why in reasons if why), "")

    def _quotas(self, namespace: str) -> list[ResourceQuota]:
        found = self._client.objects(RESOURCE_QUOTAS) if self.enforced else ()
        mine = [quota for quota in found if quota.metadata.namespace == namespace]
        return sorted(mine, key=lambda quota: quota.metadata.name)

    def _usage(self, namespace: str) -> NamespaceUsage:
        objects = self._client.objects
        return _usage(
            namespace,
            lambda: objects(PODS),
            lambda: objects(RESOURCE_CLAIMS),
            lambda: objects(DEVICE_CLASSES) if self._extended else None,
        )


def _usage(
    namespace: str,
    pods: Callable[[], Iterable[Pod]],
    claims: Callable[[], Iterable[ResourceClaim]],
    classes: Callable[[], Iterable[DeviceClass] | None],
) -> NamespaceUsage:
    return NamespaceUsage(
        lambda: [pod for pod in pods() if pod.metadata.namespace == namespace],
        lambda: [claim for claim in claims() if claim.metadata.namespace == namespace],
        classes,
    )


def without_usage(before: Objects, after: Objects) -> Objects:
    """Return ``after`` with the usage of removed pods and claims subtracted from its quotas' status."""
    changed = []
    for quota in after.of(RESOURCE_QUOTAS).values():
        gone, left = (_count_usage(quota, objects) for objects in (before, after))
        gone = {name: amount.sub(left[name]) if name in left else amount for name, amount in gone.items()}
        used = {
            name: str(Quantity.parse(text).sub(gone[name])) if name in gone else text
            for name, text in quota.status.used.items()
        }
        changed.append((RESOURCE_QUOTAS, _replace(quota, status=_replace(quota.status, used=used))))
    return after.with_objects(changed) if changed else after


def _count_usage(quota: ResourceQuota, objects: Objects) -> Usage:
    counted = _usage(
        quota.metadata.namespace,
        objects.of(PODS).values,
        objects.of(RESOURCE_CLAIMS).values,
        objects.of(DEVICE_CLASSES).values,
    )
    return counted.sum_usage(quota, quota.spec.hard)


def _identity(quota: ResourceQuota) -> str:
    return f"{quota.key} {quota.metadata.uid}"
