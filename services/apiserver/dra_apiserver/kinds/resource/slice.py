"""Validate ResourceSlices."""

from __future__ import annotations

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.common.goshapes import NODE_SELECTOR_TERM, show
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, Verbatim, invalid, missing_field
from dra_apiserver.kinds.resource.counters import (
    check_consumption_of,
    check_counter_set,
    check_totals,
    counters_and_devices_are_apart,
)
from dra_apiserver.kinds.resource.declared import limit
from dra_apiserver.kinds.resource.device import check_device, check_nodes, nodes_are_apart
from dra_apiserver.kinds.resource.lists import Lists
from dra_apiserver.kinds.resource.partitiontype import check_partition_type
from dra_apiserver.kinds.resource.selectors import check_node_selector
from dra_apiserver.kinds.resource.skips import check_skips
from dra_apiserver.schema import same_members

_SPEC = "io.k8s.api.resource.v1.ResourceSliceSpec"
_DEVICES = 128
_DEVICES_WITH_DETAILS = 64
"""The limit if any device has taints, consumes counters or has attribute lists."""
_COUNTER_SETS = limit("ResourceSliceSpec", "sharedCounters")
_WHERE = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE = f"exactly one of {', '.join(f'`{name}`' for name in _WHERE)} is required"
_LISTS = ("ints", "bools", "strings", "versions")


def check_slice(
    spec: JsonObject, gates: FeatureGates, old: JsonObject | None = None, path: str = "spec"
) -> list[FieldError]:
    """Validate the spec of a slice, new or changed from `old`."""
    lists, apart = Lists(gates.version), counters_and_devices_are_apart(gates.version)
    errors = names.driver_name(spec.get("driver", ""), f"{path}.driver", gates.version)
    errors += _check_pool(spec.get("pool") or {}, f"{path}.pool")
    if old is not None:
        errors += _check_unchanged(spec, old, path)
    errors += _check_place(spec, path)
    if apart and spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        text = "only one of `sharedCounters` or `devices` is allowed"
        errors.append(invalid(path, "", text))
    devices = spec.get("devices") or []
    before = {device.get("name", ""): device for device in (old or {}).get("devices") or ()}
    per_device = bool(spec.get("perDeviceNodeSelection"))

    def check(device: JsonObject, at: str) -> list[FieldError]:
        found = check_device(device, before.get(device.get("name", "")), per_device, at, gates)
        return found if apart else found + check_consumption_of(device, spec.get("sharedCounters"), at)

    alone = nodes_are_apart(gates.version)
    changed = not alone or old is None or not same_members(_SPEC, spec, old, "devices")
    if changed:
        errors += lists.check_set(
            devices,
            _DEVICES_WITH_DETAILS if apart and _any_detailed(devices) else _DEVICES,
            check,
            lambda device: device.get("name", ""),
            f"{path}.devices",
            "name",
        )
    if alone and (changed or not same_members(_SPEC, spec, old or {}, "perDeviceNodeSelection")):
        for index, device in enumerate(devices):
            errors += check_nodes(device, per_device, f"{path}.devices[{index}]", gates.version)
    if not apart:
        errors += check_totals(spec, path)
    errors += lists.check_set(
        spec.get("sharedCounters"),
        _COUNTER_SETS if apart else None,
        lambda counter_set, at: check_counter_set(counter_set, at, gates.version),
        lambda counter_set: counter_set.get("name", ""),
        f"{path}.sharedCounters",
        "name",
    )
    errors += check_partition_type(spec, old, path, gates)
    stored = (old or {}).get("skipNodeOperations") or ()
    return errors + check_skips(spec.get("skipNodeOperations"), f"{path}.skipNodeOperations", stored)


def _any_detailed(devices: list[JsonObject]) -> bool:
    return any(
        device.get("taints") or device.get("consumesCounters") or _has_lists(device) for device in devices
    )


def _has_lists(device: JsonObject) -> bool:
    return any(
        attribute.get(name) is not None
        for attribute in (device.get("attributes") or {}).values()
        for name in _LISTS
    )


def _check_pool(pool: JsonObject, path: str) -> list[FieldError]:
    errors = names.pool_name(pool.get("name", ""), f"{path}.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        errors.append(invalid(f"{path}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.generation", generation, text))
    return errors


def _check_unchanged(spec: JsonObject, old: JsonObject, path: str) -> list[FieldError]:
    errors = []
    new_pool, old_pool = spec.get("pool") or {}, old.get("pool") or {}
    if new_pool.get("name", "") != old_pool.get("name", ""):
        errors.append(invalid(f"{path}.pool.name", new_pool.get("name", ""), IMMUTABLE))
    if spec.get("driver", "") != old.get("driver", ""):
        errors.append(invalid(f"{path}.driver", spec.get("driver", ""), IMMUTABLE))
    name = spec.get("nodeName")
    if name != old.get("nodeName"):
        errors.append(invalid(f"{path}.nodeName", Verbatim("null") if name is None else name, IMMUTABLE))
    return errors


def _check_place(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the nodes of the devices: one node, selected nodes, all nodes, or set for each device."""
    errors: list[FieldError] = []
    given = []
    name, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if name is not None:
        if name:
            given.append("`nodeName`")
            errors += names.subdomain(name, f"{path}.nodeName")
        else:
            text = "must be either unset or set to a non-empty string"
            errors.append(invalid(f"{path}.nodeName", name, text))
    if selector is not None:
        given.append("`nodeSelector`")
        errors += check_node_selector(selector, f"{path}.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            shown = show(selector.get("nodeSelectorTerms"), [NODE_SELECTOR_TERM])
            text = "must have exactly one node selector term"
            errors.append(invalid(f"{path}.nodeSelector.nodeSelectorTerms", shown, text))
    for flag in ("allNodes", "perDeviceNodeSelection"):
        value = spec.get(flag)
        if value:
            given.append(f"`{flag}`")
        elif value is not None:
            errors.append(invalid(f"{path}.{flag}", value, "must be either unset or set to true"))
    if not given:
        errors.append(missing_field(path, _ONE_PLACE))
    elif len(given) > 1:
        shown_fields = f"{{{', '.join(given)}}}"
        errors.append(invalid(path, shown_fields, f"{_ONE_PLACE}, but multiple fields are set"))
    return errors
