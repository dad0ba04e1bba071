"""The ResourceQuota admission plugin: what would use more than a namespace may is refused.

Upstream compares with what the quota's status says and writes the sum back first. Here a process decides about its
writes one after the other, so what is there is counted itself: no quota is ever exceeded, whether its status is up to
date or not. What servers of one database count at the same moment, `rest/counted.py` has decided again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dra_apiserver.errors import GroupResource, forbidden
from dra_apiserver.kinds.kind import Plugin
from dra_apiserver.kinds.strategy import Context

if TYPE_CHECKING:
    from dra_shared.api.core import ResourceQuota
    from dra_shared.api.pod import Pod
    from dra_shared.api.resource import ResourceClaim
    from dra_shared.quantity import Quantity
    from dra_shared.quota import Usage

JsonObject = dict[str, Any]

_LEGACY = {
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
}
# What a pod's containers must name, each of them, where a quota limits it.
_CONSTRAINED = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")


def resource_quota(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """The ResourceQuota plugin, for what is created in a namespace and for pods that are resized.

    Raises:
        StatusError: 403, a quota would be exceeded, or limits what the pod does not name.
    """
    if obj is None or not ctx.namespace or not (stored := quotas_for(ctx, operation)):
        return
    from dra_shared.api.codec import convert, decode
    from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS

    quotas = sorted((decode(RESOURCE_QUOTAS, data) for data in stored), key=lambda q: q.metadata.name)
    match (ctx.kind.group, ctx.kind.plural):
        case ("", "pods"):
            pod, before = convert(PODS, obj), convert(PODS, old) if old is not None else None
            for quota in quotas:
                _check_pod(quota, pod, before, ctx)
        case ("resource.k8s.io", "resourceclaims"):
            claim = convert(RESOURCE_CLAIMS, obj)
            for quota in quotas:
                _check_claim(quota, claim, ctx)
        case _:
            for quota in quotas:
                _check_count(quota, obj, ctx)


def quotas_for(ctx: Context, operation: str) -> list[bytes]:
    """The namespace's quotas, where the write is of what quotas limit: creations, and pods that are resized."""
    resized = (operation, ctx.kind.plural, ctx.subresource) == ("UPDATE", "pods", "resize")
    created = operation == "CREATE" and not ctx.subresource
    return ctx.listing("", "resourcequotas", ctx.namespace) if created or resized else []


def _check_pod(quota: ResourceQuota, pod: Pod, before: Pod | None, ctx: Context) -> None:
    from dra_shared.api.codec import decode
    from dra_shared.api.resources import PODS
    from dra_shared.quota import add, pod_usage, selects

    requested = _limited(quota, pod_usage(pod))
    if before is not None:
        had = pod_usage(before)
        requested = {
            name: amount.sub(had[name]) if name in had else amount for name, amount in requested.items()
        }
    named = [name for name in _CONSTRAINED if name in quota.spec.hard]
    if not (requested or named) or not selects(quota, pod):
        return
    missing = {name: holders for name in named if (holders := _silent(pod, name))}
    if missing:
        texts = "; ".join(f"{name} for: {','.join(holders)}" for name, holders in missing.items())
        _refuse(ctx, pod.metadata.name, f"failed quota: {quota.metadata.name}: must specify {texts}")
    used: Usage = {}
    for data in ctx.listing("", "pods", ctx.namespace):
        other = decode(PODS, data)
        if selects(quota, other):
            used = add(used, pod_usage(other))
    _compare(quota, requested, used, ctx, pod.metadata.name)


def _silent(pod: Pod, name: str) -> list[str]:
    """The containers that don't name the resource."""
    side, _, resource = name.rpartition(".")
    return sorted(
        container.name
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        if container.resources is None
        or resource not in (container.resources.limits if side == "limits" else container.resources.requests)
    )


def _check_claim(quota: ResourceQuota, claim: ResourceClaim, ctx: Context) -> None:
    from dra_shared.api.codec import decode
    from dra_shared.api.resources import RESOURCE_CLAIMS
    from dra_shared.quota import add

    if quota.spec.scopes or quota.spec.scope_selector is not None:
        return
    requested = _limited(quota, _claim_usage(claim, ctx))
    if not requested:
        return
    used: Usage = {}
    for data in ctx.listing("resource.k8s.io", "resourceclaims", ctx.namespace):
        used = add(used, _claim_usage(decode(RESOURCE_CLAIMS, data), ctx))
    _compare(quota, requested, used, ctx, claim.metadata.name)


def _claim_usage(claim: ResourceClaim, ctx: Context) -> Usage:
    from dra_shared.api.codec import convert
    from dra_shared.api.resources import PODS
    from dra_shared.claims import controller_of
    from dra_shared.quantity import Quantity
    from dra_shared.quota import claim_usage

    def extended_name(device_class: str) -> str | None:
        found = ctx.lookup("resource.k8s.io", "deviceclasses", "", device_class)
        name: str | None = ((found or {}).get("spec") or {}).get("extendedResourceName")
        return name

    owner = controller_of(claim)
    found = ctx.lookup("", "pods", ctx.namespace, owner.name) if owner and owner.kind == "Pod" else None
    pod = convert(PODS, found) if found is not None else None
    return {
        name: Quantity.parse(str(number)) for name, number in claim_usage(claim, pod, extended_name).items()
    }


def _check_count(quota: ResourceQuota, obj: JsonObject, ctx: Context) -> None:
    from dra_shared.quantity import Quantity

    if quota.spec.scopes or quota.spec.scope_selector is not None:
        return
    kind = ctx.kind
    names = [f"count/{kind.plural}.{kind.group}" if kind.group else f"count/{kind.plural}"]
    if not kind.group and kind.plural in _LEGACY:
        names.append(kind.plural)
    requested = _limited(quota, {name: Quantity.parse("1") for name in names})
    if requested:
        number = Quantity.parse(str(len(ctx.listing(kind.group, kind.plural, ctx.namespace))))
        used = dict.fromkeys(names, number)
        _compare(quota, requested, used, ctx, obj["metadata"].get("name", ""))


def _limited(quota: ResourceQuota, usage: Usage) -> Usage:
    return {name: amount for name, amount in usage.items() if name in quota.spec.hard}


def _compare(quota: ResourceQuota, requested: Usage, used: Usage, ctx: Context, name: str) -> None:
    from dra_shared.quantity import Quantity

    zero = Quantity.parse("0")
    hard = {limited: Quantity.parse(text) for limited, text in quota.spec.hard.items()}
    over = [
        limited
        for limited, amount in sorted(requested.items())
        if amount.compare(zero) > 0 and used.get(limited, zero).add(amount).compare(hard[limited]) > 0
    ]
    if over:
        _refuse(
            ctx,
            name,
            f"exceeded quota: {quota.metadata.name}, requested: {_text(requested, over)}, "
            f"used: {_text({key: used.get(key, zero) for key in over}, over)}, limited: {_text(hard, over)}",
        )


def _text(amounts: dict[str, Quantity], names: list[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)


def _refuse(ctx: Context, name: str, why: str) -> None:
    raise forbidden(GroupResource(ctx.kind.group, ctx.kind.plural), name, why)


QUOTA: Sequence[Plugin] = (("ResourceQuota", resource_quota),)
"""The plugin, for every kind: how many objects there are of it can be limited, too."""
