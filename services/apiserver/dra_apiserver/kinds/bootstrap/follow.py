"""Keep objects that the server derives from other objects in sync with these."""

from __future__ import annotations

import asyncio
import ipaddress
import uuid
from collections.abc import Callable

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.registry import version_priority
from dra_apiserver.storage import Put, Record, Remove, Resource
from dra_apiserver.storage.insist import insist

Wanted = Callable[[], dict[str, JsonObject]]

_SERVICES: Resource = ("", "services")
_ADDRESSES: Resource = ("networking.k8s.io", "ipaddresses")
_API_SERVICES: Resource = ("apiregistration.k8s.io", "apiservices")
_MANAGED_BY = "ipaddress.kubernetes.io/managed-by"
_ALLOCATOR = "ipallocator.k8s.io"
_AUTO = "kube-aggregator.kubernetes.io/automanaged"

# The order of groups in kube-aggregator. Versions have the order of discovery.
_GROUPS = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000,
    "storagemigration.k8s.io": 15800,
    "lifecycle.k8s.io": 15700,
}
_VERSIONS = {
    ("", "v1"): 1,
    ("admissionregistration.k8s.io", "v1beta1"): 12,
    ("autoscaling", "v2"): 30,
    ("coordination.k8s.io", "v1alpha2"): 12,
    ("coordination.k8s.io", "v1beta1"): 13,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1alpha3"): 1,
    ("resource.k8s.io", "v1beta2"): 15,
    ("scheduling.k8s.io", "v1alpha2"): 2,
}
_STABLE, _OTHER = 15, 9
_CUSTOM_GROUP, _CUSTOM_VERSION = 1000, 100
_AGGREGATED_PRIORITY = 100
# The aggregator's own group has no APIService.
_AGGREGATOR = "apiregistration.k8s.io"


class Followers:
    """Keeps IPAddresses and APIServices in sync with services and served kinds.

    `served` is set after a change of the kinds.
    """

    def __init__(self, api: Api, served: asyncio.Event) -> None:
        self._api = api
        self._served = served

    async def sync(self) -> None:
        """Create missing objects now, and delete those without a source."""
        self._served.clear()
        await asyncio.gather(self.sync_addresses(), self._sync_services())

    async def sync_addresses(self) -> None:
        """Create missing IPAddresses, and delete those that no service uses."""
        await self._sync(_ADDRESSES, self._wanted_addresses)

    async def run(self) -> None:
        """Follow changes until cancelled."""
        await asyncio.gather(self._follow_services(), self._follow_kinds())

    async def _follow_services(self) -> None:
        collection = self._api.store.collection(_SERVICES)
        waiter = collection.waiter()
        try:
            while True:
                await waiter
                collection.discard(waiter)
                # Create these futures before the sync, so that changes during the sync trigger another sync.
                waiter = collection.waiter()
                await insist(self._api.clock, self.sync_addresses)
        finally:
            collection.discard(waiter)

    async def _follow_kinds(self) -> None:
        while True:
            await self._served.wait()
            self._served.clear()
            await insist(self._api.clock, self._sync_services)

    async def _sync_services(self) -> None:
        await self._sync(_API_SERVICES, self._wanted_services)

    async def _sync(self, target: Resource, wanted: Wanted) -> None:
        needed = wanted()
        records = self._api.store.collection(target).records
        write = self._api.store.write
        missing = [write(target, name, self._put(obj)) for name, obj in needed.items() if name not in records]
        unneeded = [
            write(target, name, _remove)
            for name, record in list(records.items())
            if name not in needed and self._ours(target, record)
        ]
        await asyncio.gather(*missing, *unneeded)

    def _put(self, obj: JsonObject) -> Callable[[Record | None], Put | None]:
        obj["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": self._api.now()}
        return lambda current: Put(obj) if current is None else None

    @staticmethod
    def _ours(target: Resource, record: Record) -> bool:
        labels = record.object()["metadata"].get("labels") or {}
        return _AUTO in labels if target == _API_SERVICES else labels.get(_MANAGED_BY) == _ALLOCATOR

    def _wanted_addresses(self) -> dict[str, JsonObject]:
        found: dict[str, JsonObject] = {}
        for key, record in self._api.store.collection(_SERVICES).records.items():
            namespace, _, name = key.partition("/")
            for address in (record.object().get("spec") or {}).get("clusterIPs") or ():
                if address != "None":
                    found[address] = _address(address, namespace, name)
        return found

    def _wanted_services(self) -> dict[str, JsonObject]:
        registry = self._api.registry
        found = {}
        for group in registry.groups():
            if group == _AGGREGATOR:
                continue
            custom = group not in _GROUPS
            versions = sorted(registry.versions(group), key=version_priority)
            for index, version in enumerate(versions):
                priority = _CUSTOM_VERSION - index if custom else _version_priority(group, version)
                service = registry.kinds_in(group, version)[0].service
                made = self._api_service(group, version, priority, custom)
                found[f"{version}.{group}"] = _aggregated_service(made, service) if service else made
        return found

    def _api_service(self, group: str, version: str, priority: int, custom: bool) -> JsonObject:
        spec: JsonObject = {"group": group} if group else {}
        spec |= {"version": version, "groupPriorityMinimum": _GROUPS.get(group, _CUSTOM_GROUP)}
        condition = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": self._api.now(),
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        return {
            "kind": "APIService",
            "apiVersion": "apiregistration.k8s.io/v1",
            "metadata": {
                "name": f"{version}.{group}",
                "labels": {_AUTO: "true" if custom else "onstart"},
            },
            "spec": {**spec, "versionPriority": priority},
            "status": {"conditions": [condition]},
        }


def _aggregated_service(local: JsonObject, service: str) -> JsonObject:
    """Return the APIService of a group that is served by a service (metrics-server's manifests)."""
    namespace, _, name = service.partition("/")
    (condition,) = local["status"]["conditions"]
    labels = {"k8s-app": name, **local["metadata"]["labels"]}
    spec = {
        **local["spec"],
        "service": {"namespace": namespace, "name": name, "port": 443},
        "groupPriorityMinimum": _AGGREGATED_PRIORITY,
        "versionPriority": _AGGREGATED_PRIORITY,
        "insecureSkipTLSVerify": True,
    }
    passed = {**condition, "reason": "Passed", "message": "all checks passed"}
    return {
        **local,
        "metadata": {**local["metadata"], "labels": labels},
        "spec": spec,
        "status": {"conditions": [passed]},
    }


def _version_priority(group: str, version: str) -> int:
    stable = "alpha" not in version and "beta" not in version
    return _VERSIONS.get((group, version), _STABLE if stable else _OTHER)


def _address(address: str, namespace: str, name: str) -> JsonObject:
    family = f"IPv{ipaddress.ip_address(address).version}"
    return {
        "kind": "IPAddress",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {
            "name": address,
            "labels": {"ipaddress.kubernetes.io/ip-family": family, _MANAGED_BY: _ALLOCATOR},
        },
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
    }


def _remove(current: Record | None) -> Remove | None:
    return None if current is None else Remove(current.object())
