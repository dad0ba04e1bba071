"""Count the usage of namespaces for their quotas.

Mirrors pkg/controller/resourcequota/resource_quota_controller.go.
"""

import asyncio

import httpx
from dra_shared.api.core import ResourceQuota, ResourceQuotaStatus
from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import (
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SERVICES,
)
from dra_shared.client.errors import ApiError
from dra_shared.log import logger
from dra_shared.objectquota import (
    is_service_resource,
    is_volume_claim_resource,
    selects_volume_claim,
    service_usage,
    volume_claim_usage,
)
from dra_shared.quantity import Quantity
from dra_shared.quota import NamespaceUsage, Usage, add, equal
from msgspec.structs import replace

from dra_controller.discovery import Kind, discover
from dra_controller.framework import Context, QueueController

# kube-controller-manager's --resource-quota-sync-period: objects that are only counted are not watched.
_RESYNC_SECONDS = 300.0
_LEGACY = {
    "configmaps",
    "secrets",
    "replicationcontrollers",
    "resourcequotas",
}

_log = logger(__name__)


class ResourceQuotaController(QueueController):
    """The resourcequota-controller of kube-controller-manager.

    The API server rejects objects that exceed a quota.
    """

    name = "resourcequota-controller"
    queue_name = "resourcequota_primary"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        quotas = self.watch(RESOURCE_QUOTAS)
        pods = self.watch(PODS)
        claims = self.watch(RESOURCE_CLAIMS)
        self._classes = self.watch(DEVICE_CLASSES).store
        self._quotas, self._pods, self._claims = quotas.store, pods.store, claims.store
        self._kinds: dict[str, Kind] = {}
        for store in (self._quotas, self._pods, self._claims):
            store.add_index("namespace", _namespace)
        quotas.add_handler(self._enqueue, self._quota_updated)
        # The usage of a pod changes when it is created, resized, ended or deleted, or changes its scope.
        pods.add_handler(
            self._enqueue_quotas,
            self._pod_updated,
            self._enqueue_quotas,
        )
        claims.add_handler(self._enqueue_quotas, on_delete=self._enqueue_quotas)

    def _enqueue(self, quota: ResourceQuota) -> None:
        self.queue.add(quota.key)

    def _quota_updated(self, old: ResourceQuota, new: ResourceQuota) -> None:
        if old.spec != new.spec:
            self._enqueue(new)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if old.status.phase != new.status.phase or old.spec != new.spec:
            self._enqueue_quotas(new)

    def _enqueue_quotas(self, obj: Object) -> None:
        for quota in self._quotas.by_index("namespace", obj.metadata.namespace):
            self._enqueue(quota)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            while True:
                await self._clock.sleep(_RESYNC_SECONDS)
                self._kinds = {}
                for quota in self._quotas.list():
                    self._enqueue(quota)

    async def reconcile(self, key: str) -> None:
        quota = self._quotas.get(key)
        if quota is None:
            return
        used = await self._usage(quota)
        status = ResourceQuotaStatus(
            hard=quota.spec.hard,
            used={name: str(used.get(name, Quantity.parse("0"))) for name in quota.spec.hard},
        )
        if not equal(status.hard, quota.status.hard) or not equal(status.used, quota.status.used):
            await self._client.update(RESOURCE_QUOTAS, replace(quota, status=status), subresource="status")

    async def _usage(self, quota: ResourceQuota) -> Usage:
        namespace = quota.metadata.namespace
        objects = NamespaceUsage(
            lambda: self._pods.by_index("namespace", namespace),
            lambda: self._claims.by_index("namespace", namespace),
            lambda: self._classes.list() if self._context.features.enabled("DRAExtendedResource") else None,
        )
        used = objects.sum_usage(quota, quota.spec.hard)
        if any(map(is_volume_claim_resource, quota.spec.hard)):
            for claim in (await self._client.list(PERSISTENT_VOLUME_CLAIMS, namespace)).items:
                if selects_volume_claim(quota, claim):
                    used = add(used, volume_claim_usage(claim))
        if quota.spec.scopes or quota.spec.scope_selector is not None:
            # No other objects have scopes.
            return used
        if any(map(is_service_resource, quota.spec.hard)):
            for service in (await self._client.list(SERVICES, namespace)).items:
                used = add(used, service_usage(service))
        for name in quota.spec.hard:
            if name not in used:
                number = await self._count(name, namespace)
                if number is not None:
                    used[name] = Quantity.parse(str(number))
        return used

    async def _count(self, name: str, namespace: str) -> int | None:
        """Return how many objects there are if ``name`` limits the number of objects of a kind; None if it does not."""
        if name in _LEGACY:
            resource = name
        elif name.startswith("count/"):
            resource = name.removeprefix("count/")
        else:
            return None
        if not self._kinds:
            served = await discover(self._client)
            self._kinds = {
                entry.resource.group_resource: entry.resource
                for entry in served
                if entry.preferred and entry.resource.namespaced and "list" in entry.verbs
            }
        kind = self._kinds.get(resource)
        if kind is None:
            return None
        try:
            return len((await self._client.list(kind, namespace)).items)
        except (ApiError, httpx.HTTPError) as error:
            _log.info("objects not counted", resource=resource, namespace=namespace, error=str(error))
            raise


def _namespace(obj: Object) -> list[str]:
    return [obj.metadata.namespace]
