"""The ResourceQuota admission plugin: reject writes that would exceed the quotas of a namespace.

Upstream compares with the quota's status and writes the new sum first. Here, a server decides about its writes
one after the other, so it counts the stored objects directly. No quota is ever exceeded, even if its status is
outdated. If several servers of one database count at the same time, `rest/counted.py` lets them decide again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import GroupResource, forbidden_error
from dra_apiserver.kindkit.behaviour import Plugin
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.storage import Resource

if TYPE_CHECKING:
    from dra_shared.api.core import ResourceQuota
    from dra_shared.api.resource import DeviceClass
    from dra_shared.quota import NamespaceUsage, Usage


_LEGACY = {
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
}
# The fields of a volume claim's status that count.
_VOLUME_STATUS = ("allocatedResources", "currentVolumeAttributesClassName", "modifyVolumeStatus")
# The metadata of a claim that refers to the pod for which it was created.
_OWNERSHIP = ("annotations", "ownerReferences")


def resource_quota(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Reject a write that would exceed a quota of its namespace.

    Raises:
        StatusError: 403, a quota would be exceeded, or it limits a resource that the pod does not name.
    """
    if obj is None or not ctx.namespace or not may_use_more(obj, old, ctx, operation):
        return
    stored = quotas_of(ctx)
    if not stored:
        return
    from dra_shared.api.codec import convert, decode
    from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
    from dra_shared.quotacheck import check_claim, check_pod

    quotas = sorted((decode(RESOURCE_QUOTAS, data) for data in stored), key=lambda q: q.metadata.name)
    before = old if operation == "UPDATE" else None
    name = obj["metadata"].get("name", "")
    match (ctx.kind.group, ctx.kind.plural):
        case ("", "pods"):
            pod, had = convert(PODS, obj), convert(PODS, before) if before is not None else None
            counted = _namespace_usage(ctx)
            for quota in quotas:
                _refuse(ctx, name, check_pod(quota, pod, had, counted))
        case ("resource.k8s.io", "resourceclaims"):
            claim = convert(RESOURCE_CLAIMS, obj)
            earlier = convert(RESOURCE_CLAIMS, before) if before is not None else None
            counted = _namespace_usage(ctx)
            for quota in quotas:
                _refuse(ctx, name, check_claim(quota, claim, earlier, counted))
        case ("", "services"):
            for quota in quotas:
                _check_service(quota, obj, before, ctx)
        case ("", "persistentvolumeclaims"):
            for quota in quotas:
                _check_volume_claim(quota, obj, before, ctx)
        case _:
            for quota in quotas:
                _check_count(quota, obj, ctx)


def may_use_more(obj: JsonObject, old: JsonObject | None, ctx: Context, operation: str) -> bool:
    """True if the write may count for more than before (the `Handles` of upstream's evaluators).

    An update of a pod matters if the pod is resized or matches other scopes. An update of a claim matters if
    the claim may no longer belong to a pod that counts it already. Services may change their type, and volume
    claims their size.
    """
    if operation == "CREATE":
        return not ctx.subresource
    if operation != "UPDATE" or old is None:
        return False
    match (ctx.kind.group, ctx.kind.plural, ctx.subresource):
        case ("", "pods", "resize"):
            return True
        case ("", "pods", ""):
            return _terminates(obj) != _terminates(old)
        case ("resource.k8s.io", "resourceclaims", ""):
            return any(obj["metadata"].get(field) != old["metadata"].get(field) for field in _OWNERSHIP)
        case ("", "services", "") | ("", "persistentvolumeclaims", ""):
            return obj.get("spec") != old.get("spec")
        case ("", "persistentvolumeclaims", "status"):
            status, before = obj.get("status") or {}, old.get("status") or {}
            return any(status.get(field) != before.get(field) for field in _VOLUME_STATUS)
    return False


def _terminates(pod: JsonObject) -> bool:
    return (pod.get("spec") or {}).get("activeDeadlineSeconds") is not None


def quotas_of(ctx: Context) -> list[bytes]:
    """Return the quotas of the namespace in their stored form."""
    return ctx.listing("", "resourcequotas", ctx.namespace)


def counted_together(resource: Resource) -> tuple[Resource, ...]:
    """Return the resources whose objects count for the same names in a quota."""
    # Pods and claims use the same extended resources.
    both: tuple[Resource, ...] = (("", "pods"), ("resource.k8s.io", "resourceclaims"))
    return both if resource in both else (resource,)


def _namespace_usage(ctx: Context) -> NamespaceUsage:
    from dra_shared.api.codec import decode
    from dra_shared.api.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS
    from dra_shared.quota import NamespaceUsage

    def classes() -> list[DeviceClass] | None:
        if not ctx.features.enabled("DRAExtendedResource"):
            return None
        return [decode(DEVICE_CLASSES, data) for data in ctx.listing("resource.k8s.io", "deviceclasses", "")]

    return NamespaceUsage(
        lambda: [decode(PODS, data) for data in ctx.listing("", "pods", ctx.namespace)],
        lambda: [
            decode(RESOURCE_CLAIMS, data)
            for data in ctx.listing("resource.k8s.io", "resourceclaims", ctx.namespace)
        ],
        classes,
    )


def _check_service(quota: ResourceQuota, obj: JsonObject, old: JsonObject | None, ctx: Context) -> None:
    from dra_shared.api.codec import convert, decode
    from dra_shared.api.resources import SERVICES
    from dra_shared.objectquota import service_usage
    from dra_shared.quotacheck import more

    if quota.spec.scopes or quota.spec.scope_selector is not None:
        return
    had = service_usage(convert(SERVICES, old)) if old is not None else {}
    requested = more(quota, service_usage(convert(SERVICES, obj)), had)
    stored = (decode(SERVICES, data) for data in ctx.listing("", "services", ctx.namespace))
    _refuse_excess(quota, requested, map(service_usage, stored), obj, ctx)


def _check_volume_claim(quota: ResourceQuota, obj: JsonObject, old: JsonObject | None, ctx: Context) -> None:
    from dra_shared.api.codec import convert, decode
    from dra_shared.api.resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
    from dra_shared.objectquota import selects_volume_claim, volume_claim_usage
    from dra_shared.quotacheck import more

    claim, before = convert(CLAIMS, obj), convert(CLAIMS, old) if old is not None else None
    if not selects_volume_claim(quota, claim):
        return
    counted = before is not None and selects_volume_claim(quota, before)
    had = volume_claim_usage(before) if before is not None and counted else {}
    requested = more(quota, volume_claim_usage(claim), had)
    stored = (decode(CLAIMS, data) for data in ctx.listing("", "persistentvolumeclaims", ctx.namespace))
    usages = (volume_claim_usage(one) for one in stored if selects_volume_claim(quota, one))
    _refuse_excess(quota, requested, usages, obj, ctx)


def _refuse_excess(
    quota: ResourceQuota, requested: Usage, usages: Iterable[Usage], obj: JsonObject, ctx: Context
) -> None:
    from dra_shared.quota import add
    from dra_shared.quotacheck import check_excess

    if requested:
        used: Usage = {}
        for usage in usages:
            used = add(used, usage)
        _refuse(ctx, obj["metadata"].get("name", ""), check_excess(quota, requested, used))


def _check_count(quota: ResourceQuota, obj: JsonObject, ctx: Context) -> None:
    from dra_shared.quantity import Quantity
    from dra_shared.quotacheck import check_excess, more

    if quota.spec.scopes or quota.spec.scope_selector is not None:
        return
    kind = ctx.kind
    names = [f"count/{kind.plural}.{kind.group}" if kind.group else f"count/{kind.plural}"]
    if not kind.group and kind.plural in _LEGACY:
        names.append(kind.plural)
    requested = more(quota, {name: Quantity.parse("1") for name in names}, {})
    if requested:
        number = Quantity.parse(str(len(ctx.listing(kind.group, kind.plural, ctx.namespace))))
        name = obj["metadata"].get("name", "")
        _refuse(ctx, name, check_excess(quota, requested, dict.fromkeys(names, number)))


def _refuse(ctx: Context, name: str, why: str) -> None:
    if why:
        raise forbidden_error(GroupResource(ctx.kind.group, ctx.kind.plural), name, why)


QUOTA: Sequence[Plugin] = (("ResourceQuota", resource_quota),)
"""The plugin, for every kind, because the number of its objects can be limited."""
