"""The RuntimeClass admission plugin (upstream's `plugin/pkg/admission/runtimeclass`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity

from dra_apiserver.common.classes import PODS, is_new, name_of
from dra_apiserver.errors import forbidden_error
from dra_apiserver.kindkit.strategy import Context


def runtime_class(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Add the overhead and the node selection of a pod's runtime class (the RuntimeClass plugin).

    Raises:
        StatusError: 403, the class does not exist, or the pod contradicts it.
    """
    if obj is None or not is_new(ctx, "", "pods", operation):
        return
    spec = obj.setdefault("spec", {})
    name, overhead = spec.get("runtimeClassName"), spec.get("overhead")
    found: JsonObject = {}
    if name is not None:
        looked_up = ctx.lookup("node.k8s.io", "runtimeclasses", "", name)
        if looked_up is None:
            raise forbidden_error(PODS, name_of(obj), f'pod rejected: RuntimeClass "{name}" not found')
        found = looked_up
    fixed = (found.get("overhead") or {}).get("podFixed")
    if found.get("overhead") is not None:
        if overhead and not _same_amounts(overhead, fixed or {}):
            text = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise forbidden_error(PODS, name_of(obj), text)
        if fixed:
            spec["overhead"] = dict(fixed)
    elif overhead is not None:
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden_error(PODS, name_of(obj), text)
    _set_scheduling(obj, spec, found.get("scheduling") or {})


def _same_amounts(left: JsonObject, right: JsonObject) -> bool:
    return left.keys() == right.keys() and all(
        Quantity.parse(str(left[key])) == Quantity.parse(str(right[key])) for key in left
    )


def _set_scheduling(pod: JsonObject, spec: JsonObject, scheduling: JsonObject) -> None:
    wanted = scheduling.get("nodeSelector") or {}
    chosen = spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if chosen.get(key, value) != value:
            text = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {chosen[key]}"
            )
            raise forbidden_error(PODS, name_of(pod), text)
    if wanted:
        spec["nodeSelector"] = {**chosen, **wanted}
    tolerations = list(spec.get("tolerations") or ())
    added = [one for one in scheduling.get("tolerations") or () if one not in tolerations]
    if added:
        spec["tolerations"] = tolerations + added
