"""The structs of resource.k8s.io as Go prints them in errors."""

from __future__ import annotations

from typing import Any

from dra_shared.version import V1_36, V1_37, Version

from dra_apiserver.common.goshapes import MAP, NODE_SELECTOR_TERM, Shape

_SELECTOR: Shape = [("CEL", "cel", [("Expression", "expression", None, "")], "null")]
_TOLERATION: Shape = [
    ("Key", "key", None, ""),
    ("Operator", "operator", None, ""),
    ("Value", "value", None, ""),
    ("Effect", "effect", None, ""),
    ("TolerationSeconds", "tolerationSeconds", None, "null"),
]
_CAPACITY: Shape = [("Requests", "requests", MAP, "null")]
_DERIVED: Shape = [("Name", "name", None, ""), ("Expression", "expression", None, "")]
_EXACT: Shape = [
    ("DeviceClassName", "deviceClassName", None, ""),
    ("Selectors", "selectors", [_SELECTOR], "null"),
    ("AllocationMode", "allocationMode", None, ""),
    ("Count", "count", None, "0"),
    ("AdminAccess", "adminAccess", None, "null"),
    ("Tolerations", "tolerations", [_TOLERATION], "null"),
    ("Capacity", "capacity", _CAPACITY, "null"),
    ("DerivedAttributes", "derivedAttributes", [_DERIVED], "null"),
]
_SUBREQUEST: Shape = [
    ("Name", "name", None, ""),
    ("DeviceClassName", "deviceClassName", None, ""),
    ("Selectors", "selectors", [_SELECTOR], "null"),
    ("AllocationMode", "allocationMode", None, ""),
    ("Count", "count", None, "0"),
    ("Tolerations", "tolerations", [_TOLERATION], "null"),
    ("Capacity", "capacity", _CAPACITY, "null"),
    ("DerivedAttributes", "derivedAttributes", [_DERIVED], "null"),
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
_CLAIM_SPEC: Shape = [
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
    ("SkipNodeOperations", "skipNodeOperations", None, "null"),
]
_RESULT_CONFIG: Shape = [
    ("Source", "source", None, ""),
    ("Requests", "requests", None, "null"),
    ("Opaque", "opaque", _OPAQUE, "null"),
]
_ALLOCATION: Shape = [
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
_SINCE_1_37 = frozenset({"derivedAttributes", "skipNodeOperations"})


def claim_spec(kubernetes: Version) -> Shape:
    """Return the shape of a claim's spec."""
    return _known_fields(_CLAIM_SPEC, kubernetes)


def claim_template_spec(kubernetes: Version) -> Shape:
    """Return the shape of a template's spec.

    Go's encoder keeps the names of ObjectMeta's json tags, and omits empty fields.
    """
    return [("", "metadata", None, "inline"), ("Spec", "spec", claim_spec(kubernetes), "struct")]


def allocation(kubernetes: Version) -> Shape:
    """Return the shape of a claim's allocation."""
    return _known_fields(_ALLOCATION, kubernetes)


def _known_fields(shape: Shape, kubernetes: Version) -> Shape:
    """Return the fields of the shape that the version has."""
    absent = frozenset() if kubernetes >= V1_37 else _SINCE_1_37
    return [
        (go_name, name, _known_inside(inner, kubernetes), zero)
        for go_name, name, inner, zero in shape
        if name not in absent
    ]


def _known_inside(inner: Any, kubernetes: Version) -> Any:
    if not isinstance(inner, list):
        return inner
    if inner and isinstance(inner[0], list):
        return [_known_fields(inner[0], kubernetes)]
    return _known_fields(inner, kubernetes)


_DEVICE_ATTRIBUTE: Shape = [
    ("IntValue", "int", None, "null"),
    ("BoolValue", "bool", None, "null"),
    ("StringValue", "string", None, "null"),
    ("VersionValue", "version", None, "null"),
    ("IntValues", "ints", None, "null"),
    ("BoolValues", "bools", None, "null"),
    ("StringValues", "strings", None, "null"),
    ("VersionValues", "versions", None, "null"),
]


def device_attribute(kubernetes: Version) -> Shape:
    """Return the shape of an attribute. Lists were added in 1.36."""
    return _DEVICE_ATTRIBUTE if kubernetes >= V1_36 else _DEVICE_ATTRIBUTE[:4]


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
_PARTITION_TYPE: Shape = [
    ("Attribute", "attribute", None, ""),
    ("Type", "type", None, ""),
    ("Total", "total", None, "null"),
    ("Allocatable", "allocatable", None, "null"),
]
_SHAREABLE_CAPACITY: Shape = [
    ("Name", "name", None, ""),
    ("Total", "total", None, "null"),
    ("Consumed", "consumed", None, "null"),
    ("Available", "available", None, "null"),
]
_SHAREABLE: Shape = [
    ("FullyAvailableDevices", "fullyAvailableDevices", None, "null"),
    ("PartiallyAvailableDevices", "partiallyAvailableDevices", None, "null"),
    ("Capacity", "capacity", [_SHAREABLE_CAPACITY], "null"),
]
_SUMMARIES: Shape = [
    ("PartitionSummary", "partitionSummary", [_PARTITION_TYPE], "null"),
    ("ShareableSummary", "shareableSummary", _SHAREABLE, "null"),
]


def pool_status(kubernetes: Version) -> Shape:
    """Return the shape of the status of a ResourcePoolStatusRequest. Summaries of pools were added in 1.37."""
    pool = [*_POOL, *_SUMMARIES] if kubernetes >= V1_37 else _POOL
    return [
        ("PoolCount", "poolCount", None, "null"),
        ("Pools", "pools", [pool], "null"),
        ("Conditions", "conditions", None, "null"),
    ]
