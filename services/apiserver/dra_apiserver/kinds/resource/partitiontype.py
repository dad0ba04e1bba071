"""Validate the attribute that contains the type of a slice's partitions (validatePartitionTypeAttribute)."""

from __future__ import annotations

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.common.goshapes import show
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field
from dra_apiserver.kinds.resource.goshapes import device_attribute

_NO_PARTITIONS = "may only be set on a slice which declares devices that consume counters"
_MISSING = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
_NO_TEXT = "must be a string value because `partitionTypeAttribute` names this attribute"


def check_partition_type(
    spec: JsonObject, old: JsonObject | None, path: str, gates: FeatureGates
) -> list[FieldError]:
    """Check that every device that consumes counters has the attribute, as a string.

    Its name is validated if it is new.
    """
    name = spec.get("partitionTypeAttribute")
    if name is None:
        return []
    at = f"{path}.partitionTypeAttribute"
    problems = names.fully_qualified_name(name, at, gates.version)
    errors: list[FieldError] = []
    if old is None or old.get("partitionTypeAttribute") != name:
        # These errors are also found by declared rules. They come first, because the first of equal errors is
        # replaced by the declared one.
        errors += problems if gates.enabled("DRAPartitionableDevicesType") else [forbidden_field(at, "")]
    if not any(device.get("consumesCounters") for device in spec.get("devices") or ()):
        errors.append(invalid(at, name, _NO_PARTITIONS))
    elif not problems:
        errors += _check_devices(spec, name, path, gates)
    return errors


def _check_devices(spec: JsonObject, name: str, path: str, gates: FeatureGates) -> list[FieldError]:
    bare = name.removeprefix(f"{spec.get('driver', '')}/")
    errors: list[FieldError] = []
    for index, device in enumerate(spec.get("devices") or ()):
        if not device.get("consumesCounters"):
            continue
        attributes = device.get("attributes") or {}
        attribute = attributes.get(name, attributes.get(bare))
        at = f"{path}.devices[{index}].attributes[{name}]"
        if attribute is None:
            errors.append(missing_field(at, _MISSING))
        elif attribute.get("string") is None:
            errors.append(invalid(at, show(attribute, device_attribute(gates.version)), _NO_TEXT))
    return errors
