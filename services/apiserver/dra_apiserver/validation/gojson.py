"""Bad values as Go shows them: upstream prints whole structs with the Go names of their internal types.

Each table lists a struct's fields in Go's order: the Go name, the API's name and what the field holds. A nested
table is a struct, `[table]` a list of structs, `None` anything that looks in Go as it does in JSON.
"""

from __future__ import annotations

import json
from typing import Any

from dra_apiserver.errors import Verbatim

# A zero value is what Go shows for a field that is absent: null for pointers, lists and maps.
_ZERO: dict[str, Any] = {"": "", "0": 0, "false": False, "null": None}

Shape = list[tuple[str, str, Any, str]]
"""Fields: Go name, API name, shape of the value, its zero."""

MAP = "map"
"""The shape of a map, which Go's encoder sorts."""

_SELECTOR: Shape = [("CEL", "cel", [("Expression", "expression", None, "")], "null")]
_TOLERATION: Shape = [
    ("Key", "key", None, ""),
    ("Operator", "operator", None, ""),
    ("Value", "value", None, ""),
    ("Effect", "effect", None, ""),
    ("TolerationSeconds", "tolerationSeconds", None, "null"),
]
_CAPACITY: Shape = [("Requests", "requests", MAP, "null")]
_EXACT: Shape = [
    ("DeviceClassName", "deviceClassName", None, ""),
    ("Selectors", "selectors", [_SELECTOR], "null"),
    ("AllocationMode", "allocationMode", None, ""),
    ("Count", "count", None, "0"),
    ("AdminAccess", "adminAccess", None, "null"),
    ("Tolerations", "tolerations", [_TOLERATION], "null"),
    ("Capacity", "capacity", _CAPACITY, "null"),
]
_SUBREQUEST: Shape = [
    ("Name", "name", None, ""),
    ("DeviceClassName", "deviceClassName", None, ""),
    ("Selectors", "selectors", [_SELECTOR], "null"),
    ("AllocationMode", "allocationMode", None, ""),
    ("Count", "count", None, "0"),
    ("Tolerations", "tolerations", [_TOLERATION], "null"),
    ("Capacity", "capacity", _CAPACITY, "null"),
]
_REQUEST: Shape = [
    ("Name", "name", None, ""),
    ("Exactly", "exactly", _EXACT, "null"),
    ("FirstAvailable", "firstAvailable", [_SUBREQUEST], "null"),
]
_CONSTRAINT: Shape = [
    ("Requests", "requests", None, "null"),
    ("MatchAttribute", "matchAttribute", None, "null"),
    ("DistinctAttribute", "distinctAttribute", None, "null"),
]
_OPAQUE: Shape = [("Driver", "driver", None, ""), ("Parameters", "parameters", None, "null")]
_CLAIM_CONFIG: Shape = [("Requests", "requests", None, "null"), ("Opaque", "opaque", _OPAQUE, "null")]
CLAIM_SPEC: Shape = [
    (
        "Devices",
        "devices",
        [
            ("Requests", "requests", [_REQUEST], "null"),
            ("Constraints", "constraints", [_CONSTRAINT], "null"),
            ("Config", "config", [_CLAIM_CONFIG], "null"),
        ],
        "struct",
    )
]
_RESULT: Shape = [
    ("Request", "request", None, ""),
    ("Driver", "driver", None, ""),
    ("Pool", "pool", None, ""),
    ("Device", "device", None, ""),
    ("AdminAccess", "adminAccess", None, "null"),
    ("Tolerations", "tolerations", [_TOLERATION], "null"),
    ("BindingConditions", "bindingConditions", None, "null"),
    ("BindingFailureConditions", "bindingFailureConditions", None, "null"),
    ("ShareID", "shareID", None, "null"),
    ("ConsumedCapacity", "consumedCapacity", MAP, "null"),
]
_RESULT_CONFIG: Shape = [
    ("Source", "source", None, ""),
    ("Requests", "requests", None, "null"),
    ("Opaque", "opaque", _OPAQUE, "null"),
]
_NODE_REQUIREMENT: Shape = [
    ("Key", "key", None, ""),
    ("Operator", "operator", None, ""),
    ("Values", "values", None, "null"),
]
NODE_SELECTOR_TERM: Shape = [
    ("MatchExpressions", "matchExpressions", [_NODE_REQUIREMENT], "null"),
    ("MatchFields", "matchFields", [_NODE_REQUIREMENT], "null"),
]
ALLOCATION: Shape = [
    (
        "Devices",
        "devices",
        [("Results", "results", [_RESULT], "null"), ("Config", "config", [_RESULT_CONFIG], "null")],
        "struct",
    ),
    (
        "NodeSelector",
        "nodeSelector",
        [("NodeSelectorTerms", "nodeSelectorTerms", [NODE_SELECTOR_TERM], "null")],
        "null",
    ),
    ("AllocationTimestamp", "allocationTimestamp", None, "null"),
]
# Go's encoder keeps the names of ObjectMeta's json tags, and omits what is empty.
CLAIM_TEMPLATE_SPEC: Shape = [("", "metadata", None, "inline"), ("Spec", "spec", CLAIM_SPEC, "struct")]
DEVICE_ATTRIBUTE: Shape = [
    ("IntValue", "int", None, "null"),
    ("BoolValue", "bool", None, "null"),
    ("StringValue", "string", None, "null"),
    ("VersionValue", "version", None, "null"),
    ("IntValues", "ints", None, "null"),
    ("BoolValues", "bools", None, "null"),
    ("StringValues", "strings", None, "null"),
    ("VersionValues", "versions", None, "null"),
]
_POOL: Shape = [
    ("Driver", "driver", None, ""),
    ("PoolName", "poolName", None, ""),
    ("NodeName", "nodeName", None, "null"),
    ("TotalDevices", "totalDevices", None, "null"),
    ("AllocatedDevices", "allocatedDevices", None, "null"),
    ("AvailableDevices", "availableDevices", None, "null"),
    ("UnavailableDevices", "unavailableDevices", None, "null"),
    ("ResourceSliceCount", "resourceSliceCount", None, "null"),
    ("Generation", "generation", None, "0"),
    ("ValidationError", "validationError", None, "null"),
]
POOL_STATUS: Shape = [
    ("PoolCount", "poolCount", None, "null"),
    ("Pools", "pools", [_POOL], "null"),
    ("Conditions", "conditions", None, "null"),
]


def show(value: Any, shape: Any = None) -> Verbatim:
    """`value` as an error message shows it: a struct of `shape`, or a list of them for `[shape]`."""
    text = json.dumps(_shaped(value, shape), separators=(",", ":"), ensure_ascii=False)
    return Verbatim(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _shaped(value: Any, shape: Any) -> Any:
    if shape is MAP and isinstance(value, dict):
        return dict(sorted(value.items()))
    if shape is None or shape is MAP or value is None:
        return value
    if isinstance(value, list):
        return [_shaped(item, shape[0]) for item in value]
    fields: dict[str, Any] = {}
    for go_name, name, inner, zero in shape:
        if zero == "inline":
            fields.update(_object_meta(value.get(name) or {}))
            continue
        found = value.get(name)
        if found == {} and zero == "null" and isinstance(inner, list) and isinstance(inner[0], tuple):
            fields[go_name] = _shaped({}, inner)
        elif found == {} and zero == "null" and (inner is None or inner is MAP):
            fields[go_name] = {}
        elif found is None or found == {} or (found == "" and zero == "null"):
            fields[go_name] = _shaped({}, inner) if zero == "struct" else _ZERO[zero]
        else:
            fields[go_name] = _shaped(found, inner)
    return fields


_META_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)


def _object_meta(meta: dict[str, Any]) -> dict[str, Any]:
    return {name: _shaped(meta[name], MAP) for name in _META_ORDER if meta.get(name)}
