"""The plugins for pod groups.

PodGroupProtection keeps them as long as their pods run; PodGroupWorkloadExists wants a workload's template that they
name to be there.
"""

from __future__ import annotations

from typing import Any

from dra_apiserver.errors import GroupResource, StatusError, forbidden, quote
from dra_apiserver.kindkit.strategy import Context

JsonObject = dict[str, Any]

_GROUPS = GroupResource("scheduling.k8s.io", "podgroups")
_FINALIZER = "scheduling.k8s.io/podgroup-protection"


def protect(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Give a new pod group the finalizer that the podgroup-protection-controller takes away."""
    if operation != "CREATE" or obj is None or ctx.subresource or not ctx.features.enabled("GenericWorkload"):
        return
    if (ctx.kind.group, ctx.kind.plural) != _GROUPS:
        return
    finalizers = obj["metadata"].get("finalizers") or []
    if _FINALIZER not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, _FINALIZER]


def workload_exists(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Refuse a new pod group whose workload, or whose template in it, is missing.

    Raises:
        StatusError: 403, it is.
    """
    if operation != "CREATE" or obj is None or ctx.subresource or not ctx.features.enabled("GenericWorkload"):
        return
    if (ctx.kind.group, ctx.kind.plural) != _GROUPS:
        return
    # A group of 1.37 names its workload in another field, and may be there before it.
    reference = ((obj.get("spec") or {}).get("podGroupTemplateRef") or {}).get("workload")
    if reference is None:
        return
    name, template = reference.get("workloadName", ""), reference.get("podGroupTemplateName", "")
    workload = ctx.lookup(_GROUPS.group, "workloads", ctx.namespace, name)
    if workload is None:
        raise _rejected(obj, f"Workload {quote(name)} not found")
    if workload["metadata"].get("deletionTimestamp"):
        raise _rejected(obj, f"Workload {quote(name)} is being deleted")
    templates = (workload.get("spec") or {}).get("podGroupTemplates") or ()
    if not any(one.get("name") == template for one in templates):
        raise _rejected(obj, f"PodGroupTemplate {quote(template)} not found in Workload {quote(name)}")


def _rejected(obj: JsonObject, why: str) -> StatusError:
    return forbidden(_GROUPS, obj["metadata"].get("name", ""), f"PodGroup rejected: {why}")
