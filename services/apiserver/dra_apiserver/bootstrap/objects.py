"""The objects that are there from the start."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

from dra_apiserver.bootstrap.flowcontrol import flow_schemas, priority_levels
from dra_apiserver.bootstrap.policy import roles_and_bindings
from dra_apiserver.handlers.api import Api
from dra_apiserver.storage import Put, Record, object_key
from dra_apiserver.strategy.service import SERVICE_RANGE

Object = dict[str, Any]

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES = {
    "system-cluster-critical": (
        2_000_000_000,
        "For pods that the cluster needs, on whichever node they run.",
    ),
    "system-node-critical": (2_000_001_000, "For pods that their node needs and that must stay on it."),
}


async def make_missing(api: Api) -> None:
    """Make what is not there; what is there stays as its users left it."""
    made = [*_namespaces(), *_classes(), *_addresses(api), *priority_levels()]
    made += [*flow_schemas(api.now()), *roles_and_bindings()]
    await asyncio.gather(*(_make(api, obj) for obj in made))


def _namespaces() -> Iterator[Object]:
    for name in _NAMESPACES:
        yield {
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


def _classes() -> Iterator[Object]:
    for name, (value, description) in _PRIORITIES.items():
        yield {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }


def _addresses(api: Api) -> Iterator[Object]:
    condition = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": api.now(),
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    }
    yield {
        "kind": "ServiceCIDR",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [str(SERVICE_RANGE)]},
        "status": {"conditions": [condition]},
    }
    port = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": api.config.port or 443}
    yield {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [port],
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


async def _make(api: Api, obj: Object) -> None:
    group, _, version = obj["apiVersion"].rpartition("/")
    info = api.registry.known_kind(group, version, obj["kind"])
    assert info is not None
    meta = obj["metadata"]
    key = object_key(meta.get("namespace", ""), meta["name"])
    if api.store.newest(info.storage, key) is not None:
        return
    meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": api.now()}

    def change(current: Record | None) -> Put | None:
        return Put(obj) if current is None else None

    await api.store.write(info.storage, key, change)
