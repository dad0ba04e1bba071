"""The DefaultIngressClass admission plugin (upstream's `plugin/pkg/admission/network/defaultingressclass`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.classes import all_of, default_class, is_new, name_of
from dra_apiserver.kindkit.strategy import Context

_INGRESS_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_INGRESS_CLASS = "kubernetes.io/ingress.class"


def default_ingress_class(
    obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
) -> None:
    """Set the class of an ingress that names none (the DefaultIngressClass plugin)."""
    if obj is None or not is_new(ctx, "networking.k8s.io", "ingresses", operation):
        return
    spec, marks = obj.setdefault("spec", {}), obj["metadata"].get("annotations") or {}
    if spec.get("ingressClassName") is not None or _INGRESS_CLASS in marks:
        return
    found = default_class(all_of(ctx, "networking.k8s.io", "ingressclasses"), (_INGRESS_DEFAULT,))
    if found is not None:
        spec["ingressClassName"] = name_of(found)
