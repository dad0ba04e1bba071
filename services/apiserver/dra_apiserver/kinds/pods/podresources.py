"""Defaults of the resources of a whole pod, from those of its containers.

Until 1.36, and without ``PodLevelResourcesFixDefaulting``, upstream sets them whenever it reads a pod
(``pkg/apis/core/v1/defaults.go``). With the gate it sets them in a new or resized pod, limits too
(``pkg/api/pod/util.go``).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity, QuantityError

_GATE, _FIX = "PodLevelResources", "PodLevelResourcesFixDefaulting"
_FIX_QUALITY = "PodLevelResourcesFixKubeletQOSClass"
_OVERCOMMITTED = ("cpu", "memory")
_PAGES = "hugepages-"

Amounts = dict[str, Quantity]


def default_pod_resources(spec: JsonObject, features: FeatureGates) -> None:
    """Complete the resources of a pod that has some of its own."""
    resources = spec.get("resources")
    if not features.enabled(_GATE) or not resources:
        return
    if not resources.get("requests") and not resources.get("limits"):
        return
    try:
        _complete(spec, resources, with_limits=features.enabled(_FIX))
    except QuantityError:
        return  # Validation reports the quantity.


def keep_pod_resources(
    spec: JsonObject, old: JsonObject, features: FeatureGates, *, resized: bool = False
) -> None:
    """Keep the old pod-level resources if the update omits them, because the client may not know the field.

    Add defaults where upstream does.
    """
    if features.enabled(_FIX):
        if spec.get("resources") is None and old.get("resources") is not None:
            spec["resources"] = copy.deepcopy(old["resources"])
        if not resized:
            return
    default_pod_resources(spec, features)


def has_own_quality(spec: JsonObject, features: FeatureGates) -> bool:
    """True if the resources of the whole pod decide on its quality of service."""
    resources = spec.get("resources")
    if not features.enabled(_GATE) or resources is None:
        return False
    is_set = bool(resources.get("requests") or resources.get("limits"))
    return is_set or not features.enabled(_FIX_QUALITY)


def _complete(spec: JsonObject, resources: JsonObject, *, with_limits: bool) -> None:
    requests: JsonObject = dict(resources.get("requests") or {})
    limits: JsonObject = dict(resources.get("limits") or {})
    summed_limits = _sum(spec, "limits")
    for name, amount in summed_limits.items():
        if name.startswith(_PAGES) and name not in requests:
            limits.setdefault(name, str(amount))
    if with_limits or limits:
        for name, amount in _sum(spec, "requests").items():
            if name in _OVERCOMMITTED:
                requests.setdefault(name, str(amount))
        for name, value in limits.items():
            if name in _OVERCOMMITTED or name.startswith(_PAGES):
                requests.setdefault(name, value)
    if with_limits:
        for name in requests.keys() - limits.keys():
            if name in summed_limits and all(name in given for given in _list_given(spec, "limits")):
                asked = Quantity.parse(str(requests[name]))
                limits[name] = str(max(asked, summed_limits[name]))
    for field, amounts in (("requests", requests), ("limits", limits)):
        if amounts:
            resources[field] = amounts


def _list_given(spec: JsonObject, field: str) -> Iterator[JsonObject]:
    """Yield the requests or limits of every container."""
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        yield (container.get("resources") or {}).get(field) or {}


def _sum(spec: JsonObject, field: str) -> Amounts:
    """Return the sum of what the containers use at the same time (component-helpers' AggregateContainerRequests)."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _parse(container, field))
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _parse(container, field)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        _raise_to(most, own)
    _raise_to(total, most)
    return total


def _parse(container: JsonObject, field: str) -> Amounts:
    given = (container.get("resources") or {}).get(field) or {}
    return {name: Quantity.parse(str(value)) for name, value in given.items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name].add(amount) if name in total else amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in total or total[name] < amount:
            total[name] = amount
