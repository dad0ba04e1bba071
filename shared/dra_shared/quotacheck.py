"""Compare new pods and claims with the quotas of their namespace (plugin/pkg/admission/resourcequota). Pure.

Each function returns the reason of a rejection, empty if the object may be stored.
"""

from collections.abc import Iterable

from dra_shared.api.core import ResourceQuota
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.quantity import Quantity
from dra_shared.quota import (
    NamespaceUsage,
    Usage,
    add,
    has_pod_level_resources,
    is_claim_resource,
    pod_usage,
    selects,
)

_ZERO = Quantity.parse("0")
# If a quota limits one of these, each container of a pod must have a request or a limit for it.
_CONSTRAINED = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")


def check_pod(
    quota: ResourceQuota,
    pod: Pod,
    before: Pod | None,
    counted: NamespaceUsage,
    unseen: Usage | None = None,
) -> str:
    """Compare a pod, which replaces ``before``, with a quota.

    ``unseen`` is additional usage, of objects that ``counted`` does not include.
    """
    if not selects(quota, pod):
        return ""
    named = [name for name in _CONSTRAINED if name in quota.spec.hard]
    missing = {name: holders for name in named if (holders := _silent(pod, name))}
    if missing and not has_pod_level_resources(pod):
        texts = "; ".join(f"{name} for: {','.join(holders)}" for name, holders in missing.items())
        return f"failed quota: {quota.metadata.name}: must specify {texts}"
    had = pod_usage(before) if before is not None and selects(quota, before) else {}
    return _compare(quota, more(quota, pod_usage(pod), had), counted, unseen)


def check_claim(
    quota: ResourceQuota,
    claim: ResourceClaim,
    before: ResourceClaim | None,
    counted: NamespaceUsage,
    unseen: Usage | None = None,
) -> str:
    """Compare a claim, which replaces ``before``, with a quota. Quotas with scopes ignore claims."""
    if quota.spec.scopes or quota.spec.scope_selector is not None:
        return ""
    if not any(is_claim_resource(name, counted.classes) for name in quota.spec.hard):
        return ""
    had = counted.of_claim(before) if before is not None else {}
    return _compare(quota, more(quota, counted.of_claim(claim), had), counted, unseen)


def more(quota: ResourceQuota, usage: Usage, had: Usage) -> Usage:
    """Return the part of the usage that is limited by the quota and not counted yet."""
    limited = {
        name: amount.sub(had[name]) if name in had else amount
        for name, amount in usage.items()
        if name in quota.spec.hard
    }
    return {name: amount for name, amount in limited.items() if amount.compare(_ZERO) > 0}


def check_excess(quota: ResourceQuota, requested: Usage, used: Usage) -> str:
    """Compare the requested and used amounts with the quota."""
    hard = {limited: Quantity.parse(text) for limited, text in quota.spec.hard.items()}
    over = [
        limited
        for limited, amount in sorted(requested.items())
        if used.get(limited, _ZERO).add(amount).compare(hard[limited]) > 0
    ]
    if not over:
        return ""
    return (
        f"exceeded quota: {quota.metadata.name}, requested: {_text(requested, over)}, "
        f"used: {_text({key: used.get(key, _ZERO) for key in over}, over)}, limited: {_text(hard, over)}"
    )


def _compare(quota: ResourceQuota, requested: Usage, counted: NamespaceUsage, unseen: Usage | None) -> str:
    if not requested:
        return ""
    others = {name: amount for name, amount in (unseen or {}).items() if name in requested}
    return check_excess(quota, requested, add(counted.sum_usage(quota, requested), others))


def _silent(pod: Pod, name: str) -> list[str]:
    """Return the containers that do not name the resource."""
    side, _, resource = name.rpartition(".")
    return sorted(
        container.name
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        if container.resources is None
        or resource not in (container.resources.limits if side == "limits" else container.resources.requests)
    )


def _text(amounts: Usage, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)
