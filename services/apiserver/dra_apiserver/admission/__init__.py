"""Admission: what is refused or filled in whatever the kind's own strategy says.

`MUTATING` run on a new or changed object before its strategy, `VALIDATING` after it; each is called with the object in
the stored version (None for a delete), the old one (None for a create), the request's context and the operation, and
refuses by raising StatusError. What is registered in the cluster, policies and webhooks, comes after the mutating
plugins, and before the quota.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dra_apiserver.admission.classes import (
    default_ingress_class,
    default_storage_class,
    priority,
    runtime_class,
)
from dra_apiserver.admission.limits import limit_defaults, limit_ranges
from dra_apiserver.admission.podgroups import protect, workload_exists
from dra_apiserver.admission.pods import default_tolerations, service_account, topology
from dra_apiserver.admission.quota import resource_quota
from dra_apiserver.strategy import Context

if TYPE_CHECKING:
    from dra_apiserver.admission.dynamic.registered import Admission

JsonObject = dict[str, Any]
Resource = tuple[str, str]
Plugin = Callable[[JsonObject | None, JsonObject | None, Context, str], None]

_PODS, _GROUPS = ("", "pods"), ("scheduling.k8s.io", "podgroups")
_VOLUME_CLAIMS = ("", "persistentvolumeclaims")

# Those that have to do with a kind, in upstream's order.
MUTATING: Mapping[Resource, Sequence[Plugin]] = {
    _PODS: (limit_defaults, service_account, priority, default_tolerations, runtime_class, topology),
    _GROUPS: (protect,),
    _VOLUME_CLAIMS: (default_storage_class,),
    ("networking.k8s.io", "ingresses"): (default_ingress_class,),
    ("scheduling.k8s.io", "priorityclasses"): (priority,),
}
VALIDATING: Mapping[Resource, Sequence[Plugin]] = {
    _PODS: (limit_ranges,),
    _GROUPS: (workload_exists,),
    _VOLUME_CLAIMS: (limit_ranges,),
}


def mutate(
    obj: JsonObject | None,
    old: JsonObject | None,
    ctx: Context,
    operation: str,
    registered: Admission | None = None,
) -> None:
    """Run the mutating plugins; `operation` is CREATE, UPDATE, DELETE or CONNECT.

    Raises:
        StatusError: one of them refuses.
    """
    plugins = MUTATING.get((ctx.kind.group, ctx.kind.plural), ())
    for plugin in plugins:
        plugin(obj, old, ctx, operation)
    if registered is not None and registered.mutate(obj, old, ctx, operation):
        for plugin in plugins:
            plugin(obj, old, ctx, operation)
        registered.mutate(obj, old, ctx, operation, again=True)


def validate(
    obj: JsonObject | None,
    old: JsonObject | None,
    ctx: Context,
    operation: str,
    registered: Admission | None = None,
) -> None:
    """Run the validating plugins.

    Raises:
        StatusError: one of them refuses.
    """
    for plugin in VALIDATING.get((ctx.kind.group, ctx.kind.plural), ()):
        plugin(obj, old, ctx, operation)
    if registered is not None:
        registered.validate(obj, old, ctx, operation)
    resource_quota(obj, old, ctx, operation)
