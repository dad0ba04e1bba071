"""Admission plugins that know of classes: of priority, runtime, storage and ingress."""

from __future__ import annotations

from typing import Any

import orjson
from dra_shared.quantity import Quantity

from dra_apiserver.errors import GroupResource, StatusError, forbidden
from dra_apiserver.strategy import Context

JsonObject = dict[str, Any]

_PODS = GroupResource("", "pods")
_LOWER = "PreemptLowerPriority"
_STORAGE_DEFAULTS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_INGRESS_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
_INGRESS_CLASS = "kubernetes.io/ingress.class"


def _is_new(ctx: Context, group: str, plural: str, operation: str) -> bool:
    return (
        operation == "CREATE" and not ctx.subresource and (ctx.kind.group, ctx.kind.plural) == (group, plural)
    )


def _all(ctx: Context, group: str, plural: str) -> list[JsonObject]:
    return [orjson.loads(data) for data in ctx.listing(group, plural, "")]


def _name(obj: JsonObject) -> str:
    name: str = obj["metadata"].get("name", "")
    return name


def _default_priority(ctx: Context) -> JsonObject | None:
    """The class of pods that name none: of several, the one of the lowest value."""
    marked = [
        data
        for data in ctx.listing("scheduling.k8s.io", "priorityclasses", "")
        if b'"globalDefault":true' in data
    ]
    return min(map(orjson.loads, marked), key=lambda found: found.get("value", 0), default=None)


def priority(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """The Priority plugin: the number of a pod's priority class; one class at most is the default.

    Raises:
        StatusError: 403, there is no such class, the pod names another number, or another class is the default.
    """
    if obj is None:
        return
    place = (ctx.kind.group, ctx.kind.plural)
    if place == ("scheduling.k8s.io", "priorityclasses") and obj.get("globalDefault"):
        found = _default_priority(ctx)
        if found is not None and _name(found) != _name(obj):
            text = f"PriorityClass {_name(found)} is already marked as default. Only one default can exist"
            raise forbidden(GroupResource(*place), _name(obj), text)
    if place != ("", "pods") or ctx.subresource:
        return
    spec = obj.setdefault("spec", {})
    if old is not None:
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and (old.get("spec") or {}).get(field) is not None:
                spec[field] = old["spec"][field]
    elif operation == "CREATE":
        _set_priority(obj, spec, ctx)


def _set_priority(pod: JsonObject, spec: JsonObject, ctx: Context) -> None:
    name = spec.get("priorityClassName") or ""
    if name:
        found = ctx.lookup("scheduling.k8s.io", "priorityclasses", "", name)
        if found is None:
            raise forbidden(_PODS, _name(pod), f"no PriorityClass with name {name} was found")
    else:
        found = _default_priority(ctx)
        if found is not None:
            spec["priorityClassName"] = _name(found)
    value, policy = 0, _LOWER
    if found is not None:
        value, policy = found.get("value", 0), found.get("preemptionPolicy") or _LOWER
    if spec.get("priority") not in {None, value}:
        raise _computed(pod, "integer value of priority", spec["priority"], value)
    spec["priority"] = value
    if spec.get("preemptionPolicy") not in {None, policy}:
        raise _computed(pod, "string value of PreemptionPolicy", spec["preemptionPolicy"], policy)
    spec["preemptionPolicy"] = policy


def _computed(pod: JsonObject, what: str, given: Any, computed: Any) -> StatusError:
    text = (
        f"the {what} ({given}) must not be provided in pod spec; "
        f"priority admission controller computed {computed} from the given PriorityClass name"
    )
    return forbidden(_PODS, _name(pod), text)


def runtime_class(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """The RuntimeClass plugin: what a pod's runtime needs itself, and the nodes that have it.

    Raises:
        StatusError: 403, there is no such class, or the pod says otherwise.
    """
    if obj is None or not _is_new(ctx, "", "pods", operation):
        return
    spec = obj.setdefault("spec", {})
    name, overhead = spec.get("runtimeClassName"), spec.get("overhead")
    found: JsonObject = {}
    if name is not None:
        looked_up = ctx.lookup("node.k8s.io", "runtimeclasses", "", name)
        if looked_up is None:
            raise forbidden(_PODS, _name(obj), f'pod rejected: RuntimeClass "{name}" not found')
        found = looked_up
    fixed = (found.get("overhead") or {}).get("podFixed")
    if found.get("overhead") is not None:
        if overhead and not _same_amounts(overhead, fixed or {}):
            text = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise forbidden(_PODS, _name(obj), text)
        if fixed:
            spec["overhead"] = dict(fixed)
    elif overhead is not None:
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden(_PODS, _name(obj), text)
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
            raise forbidden(_PODS, _name(pod), text)
    if wanted:
        spec["nodeSelector"] = {**chosen, **wanted}
    tolerations = list(spec.get("tolerations") or ())
    added = [one for one in scheduling.get("tolerations") or () if one not in tolerations]
    if added:
        spec["tolerations"] = tolerations + added


def _default_class(found: list[JsonObject], annotations: tuple[str, ...]) -> JsonObject | None:
    """The class that is marked as default: of several the youngest, then the first by name."""

    def marked(one: JsonObject) -> bool:
        marks = one["metadata"].get("annotations") or {}
        return any(marks.get(annotation) == "true" for annotation in annotations)

    defaults = sorted((one for one in found if marked(one)), key=_name)
    defaults.sort(key=lambda one: str(one["metadata"].get("creationTimestamp", "")), reverse=True)
    return defaults[0] if defaults else None


def default_storage_class(
    obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
) -> None:
    """The DefaultStorageClass plugin: the class of a claim that names none."""
    if obj is None or not _is_new(ctx, "", "persistentvolumeclaims", operation):
        return
    spec, marks = obj.setdefault("spec", {}), obj["metadata"].get("annotations") or {}
    if spec.get("storageClassName") is not None or _STORAGE_CLASS in marks:
        return
    found = _default_class(_all(ctx, "storage.k8s.io", "storageclasses"), _STORAGE_DEFAULTS)
    if found is not None:
        spec["storageClassName"] = _name(found)


def default_ingress_class(
    obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
) -> None:
    """The DefaultIngressClass plugin: the class of an ingress that names none."""
    if obj is None or not _is_new(ctx, "networking.k8s.io", "ingresses", operation):
        return
    spec, marks = obj.setdefault("spec", {}), obj["metadata"].get("annotations") or {}
    if spec.get("ingressClassName") is not None or _INGRESS_CLASS in marks:
        return
    found = _default_class(_all(ctx, "networking.k8s.io", "ingressclasses"), (_INGRESS_DEFAULT,))
    if found is not None:
        spec["ingressClassName"] = _name(found)
