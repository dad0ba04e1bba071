"""Admission plugins for pod groups.

PodGroupProtection keeps groups while their pods run. PodGroupWorkloadExists requires the workload's template
that a group names.
"""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import GroupResource, StatusError, forbidden_error, quote
from dra_apiserver.kindkit.strategy import Context

_GROUPS = GroupResource("scheduling.k8s.io", "podgroups")
_FINALIZER = "scheduling.k8s.io/podgroup-protection"


def protect(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Add the finalizer that the podgroup-protection-controller removes."""
    if operation != "CREATE" or obj is None or ctx.subresource or not ctx.features.enabled("GenericWorkload"):
        return
    if (ctx.kind.group, ctx.kind.plural) != _GROUPS:
        return
    finalizers = obj["metadata"].get("finalizers") or []
    if _FINALIZER not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, _FINALIZER]


def workload_exists(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Reject a new pod group whose workload, or its template, is missing.

    Raises:
        StatusError: 403, it is missing.
    """
    if operation != "CREATE" or obj is None or ctx.subresource or not ctx.features.enabled("GenericWorkload"):
        return
    if (ctx.kind.group, ctx.kind.plural) != _GROUPS:
        return
    # A group of 1.37 names its workload in another field, and may be created first.
    reference = ((obj.get("spec") or {}).get("podGroupTemplateRef") or {}).get("workload")
    if reference is None:
        return
    name, template = reference.get("workloadName", ""), reference.get("podGroupTemplateName", "")
    workload = ctx.lookup(_GROUPS.group, "workloads", ctx.namespace, name)
    if workload is None:
        raise _rejection(obj, f"Workload {quote(name)} not found")
    if workload["metadata"].get("deletionTimestamp"):
        raise _rejection(obj, f"Workload {quote(name)} is being deleted")
    templates = (workload.get("spec") or {}).get("podGroupTemplates") or ()
    if not any(one.get("name") == template for one in templates):
        raise _rejection(obj, f"PodGroupTemplate {quote(template)} not found in Workload {quote(name)}")


def _rejection(obj: JsonObject, why: str) -> StatusError:
    return forbidden_error(_GROUPS, obj["metadata"].get("name", ""), f"PodGroup rejected: {why}")
