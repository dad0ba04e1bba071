"""The LimitRanger admission plugin: defaults and limits from a namespace's LimitRanges."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity

from dra_apiserver.errors import GroupResource, forbidden_error
from dra_apiserver.kindkit.strategy import Context

Amounts = dict[str, Quantity]

_ANNOTATION = "kubernetes.io/limit-ranger"
_ZERO = Quantity.parse("0")


def _applies(old: JsonObject | None, ctx: Context, operation: str) -> bool:
    place = (ctx.kind.group, ctx.kind.plural)
    if old is not None and old["metadata"].get("deletionTimestamp"):
        return False
    if place == ("", "pods"):
        wanted = ("CREATE", "") if not ctx.subresource else ("UPDATE", "resize")
        return (operation, ctx.subresource) == wanted
    return (
        place == ("", "persistentvolumeclaims") and operation in ("CREATE", "UPDATE") and not ctx.subresource
    )


def _ranges(ctx: Context) -> list[JsonObject]:
    return [orjson.loads(data) for data in ctx.listing("", "limitranges", ctx.namespace)]


def limit_defaults(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Set missing requests and limits of a pod's containers."""
    if obj is None or (ctx.kind.group, ctx.kind.plural) != ("", "pods") or not _applies(old, ctx, operation):
        return
    for found in _ranges(ctx):
        _fill(obj, (found.get("spec") or {}).get("limits") or [])


def _fill(pod: JsonObject, items: list[JsonObject]) -> None:
    requests: JsonObject = {}
    limits: JsonObject = {}
    for item in items:
        if item.get("type") == "Container":
            requests |= item.get("defaultRequest") or {}
            limits |= item.get("default") or {}
    messages: list[str] = []
    for kind, containers in (("container", "containers"), ("init container", "initContainers")):
        for container in pod["spec"].get(containers) or ():
            for field, word, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
                set_here = _merge(container, field, defaults)
                if set_here:
                    messages.append(f"{', '.join(set_here)} {word} for {kind} {container.get('name', '')}")
    if messages:
        meta = pod["metadata"]
        text = "LimitRanger plugin set: " + "; ".join(messages)
        meta["annotations"] = {**(meta.get("annotations") or {}), _ANNOTATION: text}


def _merge(container: JsonObject, field: str, defaults: JsonObject) -> list[str]:
    known = (container.get("resources") or {}).get(field) or {}
    missing = sorted(set(defaults) - set(known))
    if missing:
        resources = container.setdefault("resources", {})
        resources[field] = {**known, **{name: defaults[name] for name in missing}}
    return missing


def limit_ranges(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Reject an object whose requests or limits are outside a range.

    Raises:
        StatusError: 403.
    """
    if obj is None or not _applies(old, ctx, operation):
        return
    check = _pod_problems if ctx.kind.plural == "pods" else _claim_problems
    for found in _ranges(ctx):
        problems = list(dict.fromkeys(check(obj, (found.get("spec") or {}).get("limits") or [])))
        if problems:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            resource = GroupResource(ctx.kind.group, ctx.kind.plural)
            raise forbidden_error(resource, obj["metadata"].get("name", ""), text)


def _claim_problems(claim: JsonObject, items: list[JsonObject]) -> Iterator[str]:
    asked = _amounts(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    for item in items:
        if item.get("type") != "PersistentVolumeClaim":
            continue
        for name, least in _amounts(item.get("min")).items():
            yield from _below(item["type"], name, least, asked, {})
        for name, most in _amounts(item.get("max")).items():
            start = f"maximum {name} usage per {item['type']} is {most}"
            if name not in asked:
                yield f"{start}.  No request is specified"
            elif _compare(asked[name], most) > 0:
                yield f"{start}, but request is {asked[name]}"


def _pod_problems(pod: JsonObject, items: list[JsonObject]) -> Iterator[str]:
    spec = pod.get("spec") or {}
    for item in items:
        if item.get("type") == "Container":
            for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
                resources = container.get("resources") or {}
                yield from _outside(
                    item, _amounts(resources.get("requests")), _amounts(resources.get("limits"))
                )
        elif item.get("type") == "Pod":
            yield from _outside(item, _of_pod(spec, "requests"), _of_pod(spec, "limits"))


def _outside(item: JsonObject, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = item["type"]
    for name, least in _amounts(item.get("min")).items():
        yield from _below(kind, name, least, requests, limits)
    for name, most in _amounts(item.get("max")).items():
        start = f"maximum {name} usage per {kind} is {most}"
        if name not in limits:
            yield f"{start}.  No limit is specified"
        elif _compare(limits[name], most) > 0:
            yield f"{start}, but limit is {limits[name]}"
        elif name in requests and _compare(requests[name], most) > 0:
            yield f"{start}, but request is {requests[name]}"
    for name, ratio in _amounts(item.get("maxLimitRequestRatio")).items():
        start = f"{name} max limit to request ratio per {kind} is {ratio}, but"
        if requests.get(name, _ZERO) == _ZERO:
            yield f"{start} no request is specified or request is 0"
        elif limits.get(name, _ZERO) == _ZERO:
            yield f"{start} no limit is specified or limit is 0"
        else:
            observed = _number(limits[name]) / _number(requests[name])
            if observed > _number(ratio):
                yield f"{start} provided ratio is {observed:f}"


def _below(kind: str, name: str, least: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {least}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif _compare(requests[name], least) < 0:
        yield f"{start}, but request is {requests[name]}"
    elif name in limits and _compare(limits[name], least) < 0:
        yield f"{start}, but limit is {limits[name]}"


def _amounts(given: JsonObject | None) -> Amounts:
    return {name: Quantity.parse(str(amount)) for name, amount in (given or {}).items()}


def _number(amount: Quantity) -> float:
    return float(amount.milli_value()) / 1000


def _compare(left: Quantity, right: Quantity) -> int:
    return left.compare(right)


def _of_pod(spec: JsonObject, field: str) -> Amounts:
    """Return the total of the pod: the sum of its containers, or the largest init container if that is more."""

    def add(total: Amounts, more: Amounts) -> Amounts:
        return {name: total.get(name, _ZERO).add(more.get(name, _ZERO)) for name in total | more}

    def most(left: Amounts, right: Amounts) -> Amounts:
        return {name: max(left.get(name, _ZERO), right.get(name, _ZERO)) for name in left | right}

    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = add(total, _amounts((container.get("resources") or {}).get(field)))
    staying: Amounts = {}
    before: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _amounts((container.get("resources") or {}).get(field))
        if container.get("restartPolicy") == "Always":
            total, staying = add(total, own), add(staying, own)
            before = most(before, staying)
        else:
            before = most(before, add(own, staying))
    total = most(total, before)
    return {**total, **_amounts((spec.get("resources") or {}).get(field))}
