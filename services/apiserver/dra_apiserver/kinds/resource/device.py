"""Validate one device of a ResourceSlice."""

from __future__ import annotations

import functools
import re

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, V1_37, V1_38, Version

from dra_apiserver.common import names
from dra_apiserver.common.goshapes import NODE_SELECTOR_TERM, show
from dra_apiserver.common.validspecs import KnownGood
from dra_apiserver.errors import FieldError, Verbatim, invalid, missing_field, too_long
from dra_apiserver.kinds.resource.allocatable import check_allocatable
from dra_apiserver.kinds.resource.binding import check_binding
from dra_apiserver.kinds.resource.capacity import check_exclusive_capacity, check_shared_capacity
from dra_apiserver.kinds.resource.counters import (
    CONSUMPTIONS,
    check_consumption,
    counters_and_devices_are_apart,
)
from dra_apiserver.kinds.resource.goshapes import device_attribute
from dra_apiserver.kinds.resource.lists import Lists
from dra_apiserver.kinds.resource.selectors import check_node_selector
from dra_apiserver.kinds.resource.taints import TAINTS, TAINTS_OF_1_34, check_taint
from dra_apiserver.schema import same_members

_DEVICE = "io.k8s.api.resource.v1.Device"
_ATTRIBUTES_AND_CAPACITIES = 32
_ATTRIBUTE_VALUES = 48
_VALUE_LENGTH = 64

_BUILD = r"[0-9a-zA-Z-]+"
_LONGEST_NUMBER = 18


def _compile_semver(digits: str) -> re.Pattern[str]:
    number = rf"(0|[1-9]\d{digits})"
    part = rf"({number}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
    return re.compile(
        rf"{number}\.{number}\.{number}(-{part}(\.{part})*)?(\+{_BUILD}(\.{_BUILD})*)?", re.ASCII
    )


_SEMVER = _compile_semver("*")
# Since 1.38 numbers fit in 64 bits, which is all that the scheduler can compare.
_SEMVER_SINCE_1_38 = _compile_semver(f"{{0,{_LONGEST_NUMBER - 1}}}")
_good = KnownGood()
_SCALARS = ("int", "bool", "string", "version")
_LISTS = ("ints", "bools", "strings", "versions")


def check_device(
    device: JsonObject, old: JsonObject | None, per_device: bool, path: str, gates: FeatureGates
) -> list[FieldError]:
    """Validate a device.

    `old` is the previous device of that name. `per_device`: each device of the slice selects its own nodes.
    """
    if old is not None and not nodes_are_apart(gates.version):
        return _check(device, old, per_device, path, gates)
    return _good.check(
        _shape(device), lambda: _check(device, None, per_device, path, gates), under=(gates, per_device)
    )


def _shape(device: JsonObject) -> JsonObject:
    """Return a cache key for valid devices. Equal nodes have equal devices except for UUIDs and addresses."""
    attributes = device.get("attributes") or {}
    return {
        **device,
        "attributes": {name: None if _is_short(value) else value for name, value in attributes.items()},
    }


def _is_short(attribute: JsonObject) -> bool:
    """True if the attribute is a string that no rule rejects."""
    text = attribute.get("string")
    return text is not None and len(attribute) == 1 and not _check_string(text, "")


def _check(
    device: JsonObject, old: JsonObject | None, per_device: bool, path: str, gates: FeatureGates
) -> list[FieldError]:
    kubernetes, lists = gates.version, Lists(gates.version)
    qualified_name = functools.partial(names.qualified_name, kubernetes=kubernetes)
    errors = names.label(device.get("name", ""), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    entries = len(attributes) + len(capacity)
    if entries > _ATTRIBUTES_AND_CAPACITIES:
        text = f"the total number of attributes and capacities must not exceed {_ATTRIBUTES_AND_CAPACITIES}"
        errors.append(invalid(path, entries, text))
    values = sum(_value_count(attribute) for attribute in attributes.values())
    too_many_values: list[FieldError] = []
    if values > _ATTRIBUTE_VALUES:
        text = f"the total number of attribute values must not exceed {_ATTRIBUTE_VALUES}"
        too_many_values.append(invalid(path, values, text))
    bad_attributes = lists.check_map(
        attributes,
        None,
        names.KEY_LENGTH,
        qualified_name,
        lambda attribute, at: check_attribute(attribute, at, kubernetes),
        f"{path}.attributes",
    )
    first, second = too_many_values, bad_attributes
    errors += first + second if _checks_counts_first(kubernetes) else second + first
    if (
        old is None
        or not _unchanged_capacity_stays(kubernetes)
        or not same_members(_DEVICE, device, old, "capacity")
    ):
        check = (
            functools.partial(check_shared_capacity, gates=gates)
            if device.get("allowMultipleAllocations")
            else check_exclusive_capacity
        )
        errors += lists.check_map(capacity, None, names.KEY_LENGTH, qualified_name, check, f"{path}.capacity")
    taints = device.get("taints") or []
    if old is None or kubernetes < V1_35 or not same_members(_DEVICE, device, old, "taints"):
        errors += lists.check_list(
            taints,
            TAINTS if kubernetes >= V1_35 else TAINTS_OF_1_34,
            lambda taint, at: check_taint(taint, at, kubernetes),
            f"{path}.taints",
        )
    errors += lists.check_set(
        device.get("consumesCounters"),
        CONSUMPTIONS if counters_and_devices_are_apart(kubernetes) else None,
        lambda consumption, at: check_consumption(consumption, at, kubernetes),
        lambda consumption: consumption.get("counterSet", ""),
        f"{path}.consumesCounters",
        "counterSet",
    )
    if not nodes_are_apart(kubernetes):
        errors += check_nodes(device, per_device, path, kubernetes)
    errors += check_binding(device, path, kubernetes)
    return errors + check_allocatable(device, path, kubernetes)


def nodes_are_apart(kubernetes: Version) -> bool:
    """True if the node fields of devices are validated after all devices, and unchanged devices are skipped."""
    return kubernetes >= V1_38


def _checks_counts_first(kubernetes: Version) -> bool:
    """True if the number of attribute values is checked before the attributes."""
    return kubernetes >= V1_37


def _unchanged_capacity_stays(kubernetes: Version) -> bool:
    """True if capacity that an update did not change is not validated again."""
    return kubernetes >= V1_37


def _value_count(attribute: JsonObject) -> int:
    """Return the number of values of an attribute; a scalar is one."""
    return max(1, sum(len(attribute.get(name) or ()) for name in _LISTS))


def check_attribute(attribute: JsonObject, path: str, kubernetes: Version) -> list[FieldError]:
    """Validate an attribute: exactly one kind of value, within its limits."""
    errors: list[FieldError] = []
    given = [name for name in (*_SCALARS, *_LISTS) if attribute.get(name) is not None]
    if attribute.get("string") is not None:
        errors += _check_string(attribute["string"], f"{path}.string")
    if attribute.get("version") is not None:
        errors += _check_version(attribute["version"], f"{path}.version", kubernetes)
    for name in _LISTS:
        if attribute.get(name) is not None and not attribute[name]:
            errors.append(invalid(f"{path}.{name}", show([]), "must not be empty if specified"))
    check_version = functools.partial(_check_version, kubernetes=kubernetes)
    for name, check in (("strings", _check_string), ("versions", check_version)):
        errors += Lists(kubernetes).check_list(attribute.get(name), None, check, f"{path}.{name}")
    if not given:
        text = "exactly one value must be specified"
        errors.append(invalid(path, "", text) if kubernetes >= V1_35 else missing_field(path, text))
    elif len(given) > 1:
        shown = show(attribute, device_attribute(kubernetes))
        errors.append(invalid(path, shown, "exactly one value must be specified"))
    return errors


def _check_string(value: str, path: str) -> list[FieldError]:
    return [too_long(path, _VALUE_LENGTH)] if len(value.encode()) > _VALUE_LENGTH else []


def _check_version(value: str, path: str, kubernetes: Version) -> list[FieldError]:
    errors = []
    text, pattern = "must be a string compatible with semver.org spec 2.0.0", _SEMVER
    if kubernetes >= V1_38:
        text, pattern = f"{text}, with at most {_LONGEST_NUMBER} digits in numbers", _SEMVER_SINCE_1_38
    if not pattern.fullmatch(value):
        errors.append(invalid(path, value, text))
    return errors + _check_string(value, path)


def check_nodes(device: JsonObject, per_device: bool, path: str, kubernetes: Version) -> list[FieldError]:
    """Validate the nodes of a device, which it only has if each device selects its own."""
    name, selector, everywhere = (
        device.get("nodeName"),
        device.get("nodeSelector"),
        device.get("allNodes"),
    )
    if not per_device:
        if name is None and selector is None and everywhere is None:
            return []
        text = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set "
            "if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
        )
        return [invalid(path, Verbatim("null"), text)]
    errors: list[FieldError] = []
    given = []
    if name is not None:
        if name:
            given.append("`nodeName`")
            errors += names.subdomain(name, f"{path}.nodeName")
        else:
            errors.append(invalid(f"{path}.nodeName", name, "must not be empty"))
    if selector is not None:
        given.append("`nodeSelector`")
        errors += check_node_selector(selector, f"{path}.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if kubernetes >= V1_38 and len(terms) != 1:
            shown = show(selector.get("nodeSelectorTerms"), [NODE_SELECTOR_TERM])
            at = f"{path}.nodeSelector.nodeSelectorTerms"
            errors.append(invalid(at, shown, "must have exactly one node selector term"))
    if everywhere is not None:
        if everywhere:
            given.append("`allNodes`")
        else:
            text = "must be either unset or set to true"
            errors.append(invalid(f"{path}.allNodes", everywhere, text))
    text = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required "
        "when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    )
    if not given:
        errors.append(missing_field(path, text))
    elif len(given) > 1:
        errors.append(invalid(path, f"{{{', '.join(given)}}}", text))
    return errors
