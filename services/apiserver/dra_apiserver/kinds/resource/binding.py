"""Validate binding conditions: a device's driver must report them before the pod is bound."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.version import Version

from dra_apiserver.common import names
from dra_apiserver.common.goshapes import show
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.errors import FieldError, duplicate, invalid
from dra_apiserver.kinds.resource.declared import limit
from dra_apiserver.kinds.resource.lists import Lists

_CONDITIONS = limit("Device", "bindingConditions")
_FAILURES = limit("Device", "bindingFailureConditions")


def check_binding(device: JsonObject, path: str, kubernetes: Version) -> list[FieldError]:
    """Validate the binding conditions of a device or of an allocation result."""
    conditions = device.get("bindingConditions") or []
    failures = device.get("bindingFailureConditions") or []
    lists = Lists(kubernetes)
    errors = lists.check_list(conditions, _CONDITIONS, names.label_name, f"{path}.bindingConditions")
    errors += lists.check_list(failures, _FAILURES, names.label_name, f"{path}.bindingFailureConditions")
    known = set(conditions)
    for index in sorted(find_repeated(conditions)):
        errors.append(duplicate(f"{path}.bindingConditions[{index}]", conditions[index]))
    again = find_repeated(failures)
    for index, name in enumerate(failures):
        at = f"{path}.bindingFailureConditions[{index}]"
        if index in again:
            errors.append(duplicate(at, name))
        if name in known:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid(at, name, text))
    if failures and not conditions:
        text = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid(f"{path}.bindingConditions", show(device.get("bindingConditions")), text))
    if conditions and not failures:
        text = "bindingFailureConditions are required to use bindingConditions"
        errors.append(
            invalid(f"{path}.bindingFailureConditions", show(device.get("bindingFailureConditions")), text)
        )
    return errors
