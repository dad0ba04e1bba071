"""Validate a device's use of its node's resources: ``nodeAllocatableResources``, and the mappings of 1.36."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity
from dra_shared.version import V1_38, Version

from dra_apiserver.common import names
from dra_apiserver.errors import FieldError, field_not_found, invalid, json_value, missing_field


def check_allocatable(device: JsonObject, path: str, kubernetes: Version) -> list[FieldError]:
    """Validate the forms of 1.36 and of later versions. Each version of Kubernetes has only one of them."""
    errors = _check_mappings(device, f"{path}.nodeAllocatableResourceMappings")
    for name, entry in (device.get("nodeAllocatableResources") or {}).items():
        at = f"{path}.nodeAllocatableResources[{name}]"
        if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
            errors.append(_name_error(name, at))
        mapping, overhead = entry.get("mapping"), entry.get("overhead")
        if mapping is None and overhead is None:
            errors.append(missing_field(at, "at least one of mapping or overhead must be set"))
        if mapping is not None:
            errors += _check_mapping(mapping, device, f"{at}.mapping", kubernetes)
        if overhead is not None:
            errors += _check_overhead(overhead, f"{at}.overhead")
    return errors


def _check_mapping(
    mapping: JsonObject, device: JsonObject, path: str, kubernetes: Version
) -> list[FieldError]:
    key, each = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    errors: list[FieldError] = []
    if key is not None:
        # Since 1.38 the name is validated. Do not report a missing capacity as well if the name is invalid.
        bad = (
            names.qualified_name(key, f"{path}.capacityKey", kubernetes)
            if key and kubernetes >= V1_38
            else []
        )
        errors += bad or _check_key(key, device, f"{path}.capacityKey")
        at = f"{path}.capacityMultiplier"
        if each is None:
            errors.append(missing_field(at, "capacityMultiplier is required when capacityKey is set"))
        else:
            errors += _check_sign(each, at, positive=True)
    if mapping.get("deviceMultiplier") is not None:
        errors += _check_sign(mapping["deviceMultiplier"], f"{path}.deviceMultiplier", positive=True)
    if each is not None and key is None:
        text = "capacityKey is required when capacityMultiplier is set"
        errors.append(missing_field(f"{path}.capacityKey", text))
    return errors


def _check_overhead(overhead: JsonObject, path: str) -> list[FieldError]:
    given = [name for name in ("perPod", "perContainer") if overhead.get(name) is not None]
    if not given:
        return [invalid(path, "", "at least one of perPod or perContainer must be set")]
    return [
        error for name in given for error in _check_sign(overhead[name], f"{path}.{name}", positive=False)
    ]


def _check_mappings(device: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, mapping in (device.get("nodeAllocatableResourceMappings") or {}).items():
        at = f"{path}[{name}]"
        key, multiplier = mapping.get("capacityKey"), mapping.get("allocationMultiplier")
        if "/" in name and "kubernetes.io/" not in name:
            errors.append(_name_error(name, at))
        if key is None and multiplier is None:
            text = "at least one of allocationMultiplier or capacityKey must be set"
            errors.append(invalid(at, "", text))
        if multiplier is not None:
            errors += _check_sign(multiplier, f"{at}.allocationMultiplier", positive=True)
        if key is not None:
            errors += _check_key(key, device, f"{at}.capacityKey")
    return errors


def _name_error(name: str, path: str) -> FieldError:
    return invalid(path, json_value(name), "must be a node allocatable resource name")


def _check_key(key: str, device: JsonObject, path: str) -> list[FieldError]:
    if not key:
        return [invalid(path, "", "capacityKey must not be an empty string")]
    return [] if key in (device.get("capacity") or {}) else [field_not_found(path, json_value(key))]


def _check_sign(value: Any, path: str, *, positive: bool) -> list[FieldError]:
    quantity = Quantity.parse(str(value))
    if quantity.sign() > 0 or (quantity.sign() == 0 and not positive):
        return []
    return [invalid(path, str(quantity), f"must be {'positive' if positive else 'non-negative'}")]
