"""Validate objects of CSI drivers: CSINodes, CSIStorageCapacities and VolumeAttributesClasses."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain, label_key
from dra_shared.quantity import Quantity

from dra_apiserver.common import names
from dra_apiserver.common.counts import check_counts
from dra_apiserver.common.gates import GatedFields
from dra_apiserver.common.goshapes import Shape, show
from dra_apiserver.common.labelselectors import check_label_selector, format_selector
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    missing_field,
    not_supported,
    too_long,
    too_many,
)
from dra_apiserver.kinds.pods.volumehealth import MOST_CONDITIONS, check_message, check_reason
from dra_apiserver.kinds.storage.volumes import driver_name
from dra_apiserver.schema import same, same_members

STATUS_GATED = (GatedFields(("CSIVolumeHealth",), ("status.storageHealth",)),)

_LONGEST_ID = 256
_LARGEST_PARAMETERS = 256 * 1024
_STORAGE_STATUSES = ("StorageDegraded", "StorageUnreachable")
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Filesystem", "Block")
_DRIVER: Shape = [
    ("Name", "name", None, ""),
    ("NodeID", "nodeID", None, ""),
    ("TopologyKeys", "topologyKeys", None, "null"),
    ("Allocatable", "allocatable", None, "null"),
]


def check_csi_node(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate the drivers of a node: each occurs once, and only the volume limit of an existing one may change."""
    drivers = (obj.get("spec") or {}).get("drivers") or []
    errors: list[FieldError] = []
    again = find_repeated(driver.get("name", "") for driver in drivers)
    by_name: dict[str, list[JsonObject]] = {}
    for index, driver in enumerate(drivers):
        errors += _check_driver(driver, index in again, f"spec.drivers[{index}]")
        by_name.setdefault(driver.get("name", ""), []).append(driver)
    for before in ((old or {}).get("spec") or {}).get("drivers") or ():
        for driver in by_name.get(before.get("name", ""), ()):
            known, now = ({**one, "allocatable": None} for one in (before, driver))
            if not same("io.k8s.api.storage.v1.CSINodeDriver", known, now):
                errors.append(invalid("spec.drivers", show(now, _DRIVER), IMMUTABLE))
    return errors


def check_csi_node_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the storage health that each driver of the node reports."""
    entries = (obj.get("status") or {}).get("storageHealth") or []
    again = find_repeated(entry.get("name", "") for entry in entries)
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        path, name = f"status.storageHealth[{index}]", entry.get("name", "")
        if index in again:
            errors.append(duplicate(path, name))
        errors += driver_name(name, f"{path}.name")
        conditions, path = entry.get("healthConditions") or [], f"{path}.healthConditions"
        if len(conditions) > MOST_CONDITIONS:
            errors.append(too_many(path, len(conditions), MOST_CONDITIONS))
            continue
        for number, condition in enumerate(conditions):
            errors += _check_storage_condition(condition, f"{path}[{number}]")
    return errors


def _check_storage_condition(condition: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    status = condition.get("status", "")
    if status not in _STORAGE_STATUSES:
        errors.append(not_supported(f"{path}.status", status, _STORAGE_STATUSES))
    errors += check_reason(condition.get("reason", ""), f"{path}.reason")
    errors += check_message(condition.get("message", ""), f"{path}.message")
    for field, allowed in (("accessMode", _ACCESS_MODES), ("volumeMode", _VOLUME_MODES)):
        value = condition.get(field)
        if value is not None and value not in allowed:
            errors.append(not_supported(f"{path}.{field}", value, allowed))
    return errors


def _check_driver(driver: JsonObject, again: bool, path: str) -> list[FieldError]:
    name, node_id = driver.get("name", ""), driver.get("nodeID", "")
    errors = driver_name(name, f"{path}.name")
    if not node_id:
        errors.append(missing_field(f"{path}.nodeID"))
    if len(node_id.encode()) > _LONGEST_ID:
        errors.append(invalid(f"{path}.nodeID", node_id, f"must be {_LONGEST_ID} characters or less"))
    errors += check_counts(driver.get("allocatable") or {}, ("count",), f"{path}.allocatable")
    if again:
        errors.append(duplicate(f"{path}.name", name))
    keys = driver.get("topologyKeys") or []
    repeats = find_repeated(keys)
    for index, key in enumerate(keys):
        if not key:
            errors.append(missing_field(path))
        if index in repeats:
            errors.append(duplicate(path, key))
        errors += names.label_name(key, path)
    return errors


def check_storage_capacity(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate the remaining capacity of a class in a topology. Class and topology are immutable."""
    topology, name = obj.get("nodeTopology"), obj.get("storageClassName", "")
    errors = check_label_selector(topology, "nodeTopology")
    errors += [invalid("storageClassName", name, text) for text in dns_subdomain(name)]
    capacity = obj.get("capacity")
    if capacity is not None and Quantity.parse(str(capacity)) < Quantity.parse("0"):
        errors.append(invalid("capacity", str(capacity), "must be greater than or equal to 0"))
    if old is not None:
        if not same_members("io.k8s.api.storage.v1.CSIStorageCapacity", obj, old, "nodeTopology"):
            errors.append(invalid("nodeTopology", format_selector(topology), IMMUTABLE))
        if name != old.get("storageClassName", ""):
            errors.append(invalid("storageClassName", name, IMMUTABLE))
    return errors


def check_volume_attributes_class(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate the parameters of a driver for volumes, which are immutable."""
    driver, parameters = obj.get("driverName", ""), obj.get("parameters") or {}
    errors: list[FieldError] = []
    if old is not None:
        before = {"driverName": old.get("driverName", ""), "parameters": old.get("parameters") or {}}
        errors += [
            forbidden_field(field, f"updates to {field} are forbidden.")
            for field, value in (("driverName", driver), ("parameters", parameters))
            if value != before[field]
        ]
    if driver:
        errors += [invalid("driverName", driver.lower(), text) for text in label_key(driver.lower())]
    else:
        errors.append(missing_field("driverName"))
    if not parameters:
        errors.append(missing_field("parameters", "must contain at least one key/value pair"))
    errors += [invalid("parameters", key, "field can not be empty.") for key in parameters if not key]
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items())
        > _LARGEST_PARAMETERS
    ):
        errors.append(too_long("parameters", _LARGEST_PARAMETERS))
    return errors
