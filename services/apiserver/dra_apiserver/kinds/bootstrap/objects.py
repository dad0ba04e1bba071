"""The objects that exist from the start."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.kinds.flowcontrol.bootstrap import flow_schemas, priority_levels
from dra_apiserver.kinds.metrics import objects as metrics_server
from dra_apiserver.kinds.networking.servicestrategy import SERVICE_RANGE
from dra_apiserver.kinds.rbac.bootstrap import roles_and_bindings
from dra_apiserver.kinds.rbac.reconciled import reconcile
from dra_apiserver.storage import Put, Record, Resource, object_key

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES = {
    "system-cluster-critical": (
        2_000_000_000,
        "For pods that the cluster needs, on whichever node they run.",
    ),
    "system-node-critical": (2_000_001_000, "For pods that their node needs and that must stay on it."),
}


async def make_missing(api: Api, port: int) -> None:
    """Create missing objects. Existing ones are unchanged, except that roles get their missing rules.

    `port` is the server's own.
    """
    made = [*system_namespaces(), *_classes(), service_range(api.now()), own_service(port)]
    made += [*priority_levels(), *flow_schemas(api.now())]
    if api.config.metrics_server:
        made += metrics_server.objects()
    given = [_give_back(api, obj) for obj in _policy(api)]
    await asyncio.gather(*(make(api, obj) for obj in made), *given)


def _policy(api: Api) -> Iterator[JsonObject]:
    """Return the roles and bindings for the served resources."""
    yield from roles_and_bindings(api.features)
    if api.registry.resource("resource.k8s.io", "v1alpha3", "resourceclasses") is not None:
        from dra_apiserver.kinds.classic.roles import roles_and_bindings as classic

        yield from classic()


def system_namespaces() -> Iterator[JsonObject]:
    """Yield the namespaces that every cluster has."""
    for name in _NAMESPACES:
        yield {
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


def _classes() -> Iterator[JsonObject]:
    for name, (value, description) in _PRIORITIES.items():
        yield {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }


def service_range(now: str) -> JsonObject:
    """Return the range of service addresses, ready since `now`."""
    condition = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    }
    return {
        "kind": "ServiceCIDR",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [str(SERVICE_RANGE)]},
        "status": {"conditions": [condition]},
    }


def own_service(port: int) -> JsonObject:
    """Return the service through which pods reach the server, which listens on `port`."""
    ports = [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": ports,
            "clusterIP": str(SERVICE_RANGE[1]),
            "clusterIPs": [str(SERVICE_RANGE[1])],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


async def _give_back(api: Api, obj: JsonObject) -> None:
    storage, key = place(api, obj)
    if api.store.newest(storage, key) is None:
        await make(api, obj)
        return

    def change(current: Record | None) -> Put | None:
        # The users of other servers may write at the same time.
        whole = None if current is None else reconcile(current.object(), obj)
        return None if whole is None else Put(whole)

    await api.store.write(storage, key, change)


def place(api: Api, obj: JsonObject) -> tuple[Resource, str]:
    """Return the resource and key of the object in the store."""
    group, _, version = obj["apiVersion"].rpartition("/")
    info = api.registry.known_kind(group, version, obj["kind"])
    assert info is not None
    return info.storage, object_key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


async def make(api: Api, obj: JsonObject) -> None:
    """Create an object unless its name exists."""
    storage, key = place(api, obj)
    if api.store.newest(storage, key) is not None:
        return
    obj["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": api.now()}

    def change(current: Record | None) -> Put | None:
        return Put(obj) if current is None else None

    await api.store.write(storage, key, change)
