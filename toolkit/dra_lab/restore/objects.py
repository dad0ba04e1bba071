"""A world's objects in the form in which a new cluster can create them, without fields of the old server."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from dra_scheduler.plan.objects import RESOURCES
from dra_shared.api.resources import (
    CONFIG_MAPS,
    CRON_JOBS,
    DEPLOYMENTS,
    LIMIT_RANGES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    WORKLOADS,
    Resource,
)
from dra_shared.jsontypes import JsonObject
from dra_worlds.documents import Document

#: Kinds that are restored although scheduling does not depend on them.
MORE = (CONFIG_MAPS, CRON_JOBS, WORKLOADS)
# The order: owners before owned objects, and pods before the claims that are reserved for them. Quotas and limits come
# last, because existing pods may exceed limits and quotas that were lowered later.
_LAST = (PODS, RESOURCE_CLAIMS, LIMIT_RANGES, RESOURCE_QUOTAS)
ORDER: tuple[Resource[Any], ...] = (
    *MORE,
    DEPLOYMENTS,
    *(resource for resource in RESOURCES if resource not in (DEPLOYMENTS, *_LAST)),
    *_LAST,
)
_BY_KIND = {(resource.group, resource.kind): resource for resource in ORDER}

_SERVERS = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
)
_MACHINES = (
    "containerStatuses",
    "ephemeralContainerStatuses",
    "hostIP",
    "hostIPs",
    "initContainerStatuses",
    "podIP",
    "podIPs",
)
_STATIC = ("kubernetes.io/config.mirror", "kubernetes.io/config.source", "kubernetes.io/config.hash")
# Taints for a node's past state. Controllers set them again if they still hold.
_PASSING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# Each API server creates the Service by which pods reach it.
_OWN_SERVICE = ("Service", "default", "kubernetes")
_TOKEN_VOLUME = "kube-api-access-"


def restorable(documents: Iterable[Document], problems: list[str]) -> list[tuple[Resource[Any], JsonObject]]:
    """Return the objects to create, in order, each with its old uid and its status."""
    found: dict[Resource[Any], list[JsonObject]] = {}
    for document in documents:
        resource = _BY_KIND.get((document.group, document.kind))
        if resource is None:
            continue
        try:
            value = _read(resource, document)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            problems.append(f"{document.where}: a {document.kind} cannot be read: {error}")
            continue
        meta = value.get("metadata") or {}
        if meta.get("name") and (document.kind, meta.get("namespace"), meta["name"]) != _OWN_SERVICE:
            found.setdefault(resource, []).append(_clean(resource, value))
    return [(resource, value) for resource in ORDER for value in found.get(resource, ())]


def _read(resource: Resource[Any], document: Document) -> JsonObject:
    value: JsonObject = orjson.loads(bytes(document.data))
    if document.version != resource.version:
        from dra_apiserver import offline

        value = offline.convert_with_defaults(
            document.group, document.version, document.kind, value, resource.version
        )
    return {**value, "apiVersion": resource.api_version, "kind": resource.kind}


def _clean(resource: Resource[Any], value: JsonObject) -> JsonObject:
    meta = {key: part for key, part in value["metadata"].items() if key not in _SERVERS}
    if resource.namespaced:
        meta.setdefault("namespace", "default")
    cleaned = {**value, "metadata": meta}
    if resource.kind == "Pod":
        cleaned["spec"] = _pod_spec(value.get("spec") or {})
        cleaned["status"] = _pod_status(value.get("status") or {})
        annotations = meta.get("annotations") or {}
        meta["annotations"] = {key: text for key, text in annotations.items() if key not in _STATIC}
    elif resource.kind == "Node":
        spec = value.get("spec") or {}
        taints = [taint for taint in spec.get("taints") or () if taint.get("key") not in _PASSING]
        cleaned["spec"] = {**spec, "taints": taints}
    return cleaned


def _pod_spec(spec: JsonObject) -> JsonObject:
    """Return the spec without the token volume of the old server, because the new server adds its own."""
    kept = {**spec, "volumes": [v for v in spec.get("volumes") or () if not _of_token(v)]}
    for kind in ("containers", "initContainers"):
        if kept.get(kind):
            kept[kind] = [
                {**each, "volumeMounts": [m for m in each.get("volumeMounts") or () if not _of_token(m)]}
                for each in kept[kind]
            ]
    return kept


def _pod_status(status: JsonObject) -> JsonObject:
    """Return the status without the fields of the old machine, because running containers start again."""
    if status.get("phase") in ("Succeeded", "Failed"):
        return status
    return {key: part for key, part in status.items() if key not in _MACHINES}


def _of_token(entry: JsonObject) -> bool:
    return str(entry.get("name", "")).startswith(_TOKEN_VOLUME)


def priority_classes(objects: Iterable[tuple[Resource[Any], JsonObject]]) -> Iterator[JsonObject]:
    """Return the classes that pods name and the dump lacks, with the pods' own priorities."""
    known = {obj["metadata"]["name"] for resource, obj in objects if resource is PRIORITY_CLASSES}
    for resource, obj in objects:
        spec = obj.get("spec") or {}
        name = spec.get("priorityClassName") if resource is PODS else None
        if name and name not in known and not name.startswith("system-"):
            known.add(name)
            value = {"metadata": {"name": name}, "value": spec.get("priority") or 0}
            yield {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind, **value}
