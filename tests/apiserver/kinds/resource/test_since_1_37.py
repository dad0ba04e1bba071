"""What resource.k8s.io of Kubernetes 1.37 accepts, drops and refuses, and 1.36 does not know."""

import copy
from typing import Any

import pytest
from dra_apiserver.conformance import answer
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37, Version

Json = dict[str, Any]
Errors = list[tuple[str, str, str]]

DERIVED = {"name": "example.com/half", "expression": "device.attributes['gpu.example.com'].numa / 2"}
GROUPS = {
    "counterSet": "memory",
    "counters": {"slices": {"value": "1"}},
    "compatibilityGroups": ["mig"],
}


def claim(*derived: Json, constraint: Json | None = None, **more: Any) -> Json:
    exactly = {"deviceClassName": "gpu", "derivedAttributes": list(derived)}
    devices: Json = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if constraint is not None:
        devices["constraints"] = [constraint]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {**devices, **more}},
    }


def slice_of(*devices: Json, **spec: Any) -> Json:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "pool": pool,
            "nodeName": "n",
            "devices": list(devices),
            **spec,
        },
    }


def answered(
    obj: Json,
    *gates: str,
    version: Version = V1_37,
    old: Json | None = None,
    operation: str = "create",
) -> Json:
    on = dict.fromkeys((*FeatureGates(version), *gates), True)
    case = {
        "object": copy.deepcopy(obj),
        "kubernetesVersion": str(version),
        "featureGates": on,
        "operation": operation,
    }
    if old is not None:
        case |= {
            "oldObject": copy.deepcopy(old),
            "operation": "update" if operation == "create" else operation,
        }
    return answer(case)


def errors(obj: Json, *gates: str, **how: Any) -> Errors:
    server = answered(obj, *gates, **how)["server"]
    return [(error["type"], error["field"], error["body"]) for error in server["errors"]]


def stored(obj: Json, *gates: str, **how: Any) -> Json:
    found: Json = answered(obj, *gates, **how)["server"]["object"]
    return found


MATCH = {"matchAttribute": "example.com/half"}
REQUEST = "spec.devices.requests[0].exactly.derivedAttributes[0]"


def test_derived_attributes_are_kept_while_their_gate_is_on() -> None:
    obj = claim(DERIVED, constraint=MATCH)
    kept = stored(obj, "DRADerivedAttributes")["spec"]["devices"]["requests"][0]["exactly"]
    assert kept["derivedAttributes"] == [DERIVED]
    dropped = stored(obj)["spec"]["devices"]["requests"][0]["exactly"]
    assert "derivedAttributes" not in dropped


def test_before_1_37_the_field_is_unknown() -> None:
    assert 'unknown field "spec.devices.requests[0].exactly.derivedAttributes"' in str(
        answered(claim(DERIVED, constraint=MATCH), version=V1_36)["oracleError"]
    )


def test_v1beta1_has_them_in_the_request_itself() -> None:
    obj = claim(constraint=MATCH)
    obj["apiVersion"] = "resource.k8s.io/v1beta1"
    obj["spec"]["devices"]["requests"] = [
        {"name": "gpu", "deviceClassName": "gpu", "derivedAttributes": [DERIVED]}
    ]
    assert stored(obj, "DRADerivedAttributes")["spec"]["devices"]["requests"][0]["derivedAttributes"] == [
        DERIVED
    ]


UNUSED = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)
SCALAR = "must evaluate to a primitive scalar (string, integer, boolean, semver)"


@pytest.mark.parametrize(
    ("attribute", "constraint", "gates", "wanted"),
    [
        (DERIVED, None, (), [("FieldValueInvalid", "name", UNUSED)]),
        (DERIVED, {"distinctAttribute": "example.com/half"}, (), []),
        (DERIVED, {**MATCH, "requests": ["gpu"]}, (), []),
        (
            {"name": "half", "expression": "1"},
            {"matchAttribute": "example.com/half"},
            (),
            [
                ("FieldValueInvalid", "name", UNUSED),
                (
                    "FieldValueInvalid",
                    "name",
                    "a fully qualified name must be a domain and a name separated by a slash",
                ),
            ],
        ),
        (
            {"name": "", "expression": ""},
            MATCH,
            (),
            [("FieldValueRequired", "name", ""), ("FieldValueRequired", "expression", "")],
        ),
        (
            {**DERIVED, "expression": "quantity('1')"},
            MATCH,
            (),
            [("FieldValueInvalid", "expression", f"{SCALAR}, not kubernetes.Quantity")],
        ),
        (
            {**DERIVED, "expression": "[1, 2]"},
            MATCH,
            (),
            [("FieldValueInvalid", "expression", f"{SCALAR}, not list(int)")],
        ),
        ({**DERIVED, "expression": "[1, 2]"}, MATCH, ("DRAListTypeAttributes",), []),
        (
            {**DERIVED, "expression": "[[1]]"},
            MATCH,
            ("DRAListTypeAttributes",),
            [
                (
                    "FieldValueInvalid",
                    "expression",
                    f"{SCALAR} or a list of these scalars, not list(list(int))",
                )
            ],
        ),
    ],
)
def test_a_derived_attribute_is_compared_and_has_a_plain_value(
    attribute: Json, constraint: Json | None, gates: tuple[str, ...], wanted: Errors
) -> None:
    found = errors(claim(attribute, constraint=constraint), "DRADerivedAttributes", *gates)
    assert [(type_, field, body.rpartition('": ')[2] or body) for type_, field, body in found] == [
        (type_, f"{REQUEST}.{field}", text or "Required value") for type_, field, text in wanted
    ]


def test_an_alternative_is_compared_by_its_request_or_by_itself() -> None:
    def of(*requests: str) -> Errors:
        obj = claim(constraint={**MATCH, "requests": list(requests)})
        obj["spec"]["devices"]["requests"] = [
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "big", "deviceClassName": "gpu", "derivedAttributes": [DERIVED]},
                    {"name": "small", "deviceClassName": "gpu"},
                ],
            }
        ]
        return errors(obj, "DRADerivedAttributes")

    assert of("gpu") == of("gpu/big") == []
    at = "spec.devices.requests[0].firstAvailable[0].derivedAttributes[0].name"
    assert [field for _, field, _ in of("gpu/small")] == [at]


def test_a_name_is_given_once_and_there_are_at_most_32() -> None:
    twice = errors(claim(DERIVED, DERIVED, constraint=MATCH), "DRADerivedAttributes")
    assert twice == [
        (
            "FieldValueDuplicate",
            "spec.devices.requests[0].exactly.derivedAttributes[1]",
            'Duplicate value: "example.com/half"',
        )
    ]
    many = errors(claim(*[DERIVED] * 33, constraint=MATCH), "DRADerivedAttributes")
    assert [(type_, field) for type_, field, _ in many] == [
        ("FieldValueTooMany", "spec.devices.requests[0].exactly.derivedAttributes")
    ]


def costly(name: str) -> Json:
    """Some 600,000 units of the million that a claim has."""
    each = (
        "device.attributes.all(d, device.attributes[d].all(n, device.attributes[d].all(m, n != m || true)))"
    )
    return {"name": f"example.com/{name}", "expression": f"{each} && {each}"}


def test_all_expressions_of_a_claim_share_one_budget() -> None:
    first, second = costly("a"), costly("b")
    constraints = [{"matchAttribute": one["name"]} for one in (first, second)]
    assert errors(claim(first, constraint=constraints[0]), "DRADerivedAttributes") == []
    assert errors(claim(first, second, constraints=constraints), "DRADerivedAttributes") == [
        (
            "FieldValueForbidden",
            "spec.devices",
            "Forbidden: too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit",
        )
    ]


PARTITION = {"name": "d", "consumesCounters": [GROUPS], "attributes": {"profile": {"string": "1g"}}}
TYPE = "gpu.example.com/profile"


def test_compatibility_groups_are_two_names_at_most() -> None:
    gate = "DRADeviceCompatibilityGroups"
    kept = stored(slice_of(PARTITION), gate, "DRAPartitionableDevices")["spec"]["devices"][0]
    assert kept["consumesCounters"] == [GROUPS]
    dropped = stored(slice_of(PARTITION), "DRAPartitionableDevices")["spec"]["devices"][0]
    assert "compatibilityGroups" not in dropped["consumesCounters"][0]
    at = "spec.devices[0].consumesCounters[0].compatibilityGroups"
    many = {**PARTITION, "consumesCounters": [{**GROUPS, "compatibilityGroups": ["a", "b", "c"]}]}
    assert errors(slice_of(many), gate) == [
        ("FieldValueTooMany", at, "Too many: 3: must have at most 2 items")
    ]
    twice = {**PARTITION, "consumesCounters": [{**GROUPS, "compatibilityGroups": ["a", "a"]}]}
    assert errors(slice_of(twice), gate) == [("FieldValueDuplicate", f"{at}[1]", 'Duplicate value: "a"')]


SKIP = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"


@pytest.mark.parametrize(
    ("operations", "wanted"),
    [
        (["*"], []),
        (["NodeUnprepareResources"], []),
        (["NodePrepareResources", "*"], []),
        (
            ["NodePrepareResources"],
            [("FieldValueInvalid", "", f'Invalid value: ["NodePrepareResources"]: {SKIP}')],
        ),
        (["*", "*"], [("FieldValueDuplicate", "[1]", 'Duplicate value: "*"')]),
        (
            ["Else"],
            [
                (
                    "FieldValueNotSupported",
                    "[0]",
                    'Unsupported value: "Else": supported values: '
                    '"*", "NodePrepareResources", "NodeUnprepareResources"',
                )
            ],
        ),
    ],
)
def test_node_operations_that_can_be_skipped(operations: list[str], wanted: Errors) -> None:
    obj = slice_of({"name": "d"}, skipNodeOperations=operations)
    at = "spec.skipNodeOperations"
    assert errors(obj, "DRAOptionalNodeOperations") == [(t, at + field, body) for t, field, body in wanted]
    assert "skipNodeOperations" not in stored(obj)["spec"]


@pytest.mark.parametrize(
    ("device", "name", "wanted"),
    [
        (PARTITION, TYPE, []),
        ({**PARTITION, "attributes": {TYPE: {"string": "1g"}}}, TYPE, []),
        ({"name": "d"}, TYPE, [("FieldValueInvalid", "spec.partitionTypeAttribute")]),
        (
            {**PARTITION, "attributes": {}},
            TYPE,
            [("FieldValueRequired", f"spec.devices[0].attributes[{TYPE}]")],
        ),
        (
            {**PARTITION, "attributes": {"profile": {"int": 1}}},
            TYPE,
            [("FieldValueInvalid", f"spec.devices[0].attributes[{TYPE}]")],
        ),
        (PARTITION, "profile", [("FieldValueInvalid", "spec.partitionTypeAttribute")]),
    ],
)
def test_partitions_have_the_attribute_that_says_their_type(
    device: Json, name: str, wanted: list[tuple[str, str]]
) -> None:
    gates = ("DRAResourcePoolStatus", "DRAPartitionableDevicesType", "DRAPartitionableDevices")
    found = errors(slice_of(device, partitionTypeAttribute=name), *gates)
    assert [(type_, field) for type_, field, _ in found] == wanted


def test_a_partition_type_stays_when_its_gate_is_switched_off() -> None:
    gates = ("DRAResourcePoolStatus", "DRAPartitionableDevices")
    old = slice_of(PARTITION, partitionTypeAttribute=TYPE)
    old["metadata"]["resourceVersion"] = "1"
    assert (
        "partitionTypeAttribute"
        not in stored(slice_of(PARTITION, partitionTypeAttribute=TYPE), *gates)["spec"]
    )
    assert stored(old, *gates, old=old)["spec"]["partitionTypeAttribute"] == TYPE
    other = copy.deepcopy(old)
    other["spec"]["partitionTypeAttribute"] = "other.example.com/profile"
    assert ("FieldValueForbidden", "spec.partitionTypeAttribute", "Forbidden") in errors(
        other, *gates, old=old
    )


def pools_asked(**spec: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": "r"},
        "spec": {"driver": "gpu.example.com", **spec},
    }


def test_a_default_partition_type_is_dropped_while_its_gate_is_off() -> None:
    asked = pools_asked(defaultPartitionTypeAttribute=TYPE)
    gates = ("DRAResourcePoolStatus", "DRAPartitionableDevicesType")
    assert stored(asked, *gates)["spec"]["defaultPartitionTypeAttribute"] == TYPE
    assert "defaultPartitionTypeAttribute" not in stored(asked, gates[0])["spec"]
    found = errors(pools_asked(defaultPartitionTypeAttribute="example.com/a b"), *gates)
    assert [field for _, field, _ in found] == ["spec.defaultPartitionTypeAttribute"]


def pool_answer(**pool: Any) -> Json:
    pools = [{"driver": "gpu.example.com", "poolName": "p", "generation": 1, **pool}]
    return {**pools_asked(), "status": {"poolCount": 1, "pools": pools}}


def test_summaries_of_pools_are_checked_as_declared() -> None:
    old = pools_asked()
    old["metadata"]["resourceVersion"] = "1"
    entry = {"attribute": TYPE, "type": "half", "total": 2, "allocatable": -1}
    answer = pool_answer(
        partitionSummary=[entry, {**entry, "allocatable": 1}],
        shareableSummary={"fullyAvailableDevices": 1, "capacity": [{"name": "memory", "total": "1Gi"}]},
    )
    answer["metadata"]["resourceVersion"] = "1"
    found = errors(answer, "DRAResourcePoolStatus", old=old, operation="statusUpdate")
    at = "status.pools[0]"
    assert [(type_, field) for type_, field, _ in found] == [
        ("FieldValueDuplicate", f"{at}.partitionSummary[1]"),
        ("FieldValueInvalid", f"{at}.partitionSummary[0].allocatable"),
        ("FieldValueRequired", f"{at}.shareableSummary.partiallyAvailableDevices"),
        ("FieldValueRequired", f"{at}.shareableSummary.capacity[0].consumed"),
        ("FieldValueRequired", f"{at}.shareableSummary.capacity[0].available"),
    ]


def allocatable(entry: Json, name: str = "cpu") -> Errors:
    device = {
        "name": "d",
        "capacity": {"cores": {"value": "4"}},
        "nodeAllocatableResources": {name: entry},
    }
    at = f"spec.devices[0].nodeAllocatableResources[{name}]"
    return [
        (type_, field.removeprefix(at), body)
        for type_, field, body in errors(slice_of(device), "DRANodeAllocatableResources")
    ]


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ({"mapping": {"capacityKey": "cores", "capacityMultiplier": "1"}}, []),
        ({"mapping": {"deviceMultiplier": "2"}, "overhead": {"perPod": "0"}}, []),
        ({}, [("FieldValueRequired", "", "Required value: at least one of mapping or overhead must be set")]),
        (
            {"mapping": {"capacityKey": "cores"}},
            [
                (
                    "FieldValueRequired",
                    ".mapping.capacityMultiplier",
                    "Required value: capacityMultiplier is required when capacityKey is set",
                )
            ],
        ),
        (
            {"mapping": {"capacityMultiplier": "1"}},
            [
                (
                    "FieldValueRequired",
                    ".mapping.capacityKey",
                    "Required value: capacityKey is required when capacityMultiplier is set",
                ),
                (
                    "FieldValueInvalid",
                    ".mapping",
                    'Invalid value: "": must specify one of: `capacityKey`, `deviceMultiplier`',
                ),
            ],
        ),
        (
            {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1", "deviceMultiplier": "1"}},
            [
                (
                    "FieldValueInvalid",
                    ".mapping",
                    'Invalid value: "{capacityKey, deviceMultiplier}": '
                    "must specify exactly one of: `capacityKey`, `deviceMultiplier`",
                )
            ],
        ),
        (
            {"mapping": {"capacityKey": "none", "capacityMultiplier": "0"}},
            [
                ("FieldValueNotFound", ".mapping.capacityKey", 'Not found: "none"'),
                ("FieldValueInvalid", ".mapping.capacityMultiplier", 'Invalid value: "0": must be positive'),
            ],
        ),
        (
            {"mapping": {"deviceMultiplier": "-1"}},
            [("FieldValueInvalid", ".mapping.deviceMultiplier", 'Invalid value: "-1": must be positive')],
        ),
        (
            {"overhead": {}},
            [
                (
                    "FieldValueInvalid",
                    ".overhead",
                    'Invalid value: "": at least one of perPod or perContainer must be set',
                )
            ],
        ),
        (
            {"overhead": {"perContainer": "-1Mi"}},
            [
                (
                    "FieldValueInvalid",
                    ".overhead.perContainer",
                    'Invalid value: "-1Mi": must be non-negative',
                )
            ],
        ),
    ],
)
def test_what_a_device_takes_of_its_node(entry: Json, wanted: Errors) -> None:
    assert allocatable(entry) == wanted


def test_only_resources_of_the_node_are_taken() -> None:
    text = 'Invalid value: "example.com/gpu": must be a node allocatable resource name'
    assert allocatable({"mapping": {"deviceMultiplier": "1"}}, "example.com/gpu") == [
        ("FieldValueInvalid", "", text)
    ]


def ranges(valid_range: Json, default: str = "1", value: str = "10", **how: Any) -> Errors:
    policy = {"default": default, "validRange": valid_range}
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": value, "requestPolicy": policy}},
    }
    at = "spec.devices[0].capacity[m].requestPolicy.validRange"
    gates = ["DRAConsumableCapacity", *how.pop("gates", ())]
    return [
        (type_, field.removeprefix(at), body)
        for type_, field, body in errors(slice_of(device), *gates, **how)
    ]


FRACTIONS = {"gates": ("DRAFractionalCapacityRange",)}
STEP = "must be greater than zero"


@pytest.mark.parametrize(
    ("valid_range", "default", "how", "wanted"),
    [
        ({"min": "500m", "step": "500m", "max": "2500m"}, "1", FRACTIONS, []),
        (
            {"min": "500m", "step": "500m"},
            "1200m",
            FRACTIONS,
            [
                (
                    "FieldValueInvalid",
                    ".step",
                    'Invalid value: "1200m": value is not a multiple of a given step (500m) from (500m)',
                )
            ],
        ),
        (
            {"min": "1u"},
            "1",
            FRACTIONS,
            [
                (
                    "FieldValueInvalid",
                    ".min",
                    'Invalid value: "1u": value cannot be represented as a milli value',
                )
            ],
        ),
        ({"min": "1", "step": "0"}, "1", {}, [("FieldValueInvalid", ".step", f'Invalid value: "0": {STEP}')]),
        (
            {"min": "-1", "step": "1"},
            "1",
            {},
            [("FieldValueInvalid", ".min", 'Invalid value: "-1": must be greater than or equal to 0')],
        ),
        (
            {"min": "2"},
            "1",
            {},
            [("FieldValueInvalid", ".default", 'Invalid value: "1": default is less than min: 2')],
        ),
        (
            {"min": "2"},
            "1",
            {"version": V1_36},
            [("FieldValueInvalid", ".min", 'Invalid value: "1": default is less than min: 2')],
        ),
        # Without the gate whole units count, and half a step rounds up to one.
        ({"min": "500m", "step": "500m"}, "1200m", {}, []),
    ],
)
def test_ranges_of_capacity(valid_range: Json, default: str, how: Json, wanted: Errors) -> None:
    assert ranges(valid_range, default, **dict(how)) == wanted


def test_bounds_beyond_64_bits_are_refused() -> None:
    text = 'Invalid value: "18446744073709551616": must not be larger than 9223372036854775807'
    huge = "18446744073709551616"
    assert ranges({"min": "0", "step": huge}, "0", "36893488147419103232") == [
        ("FieldValueInvalid", ".step", text)
    ]


def test_valid_values_may_differ_by_a_fraction() -> None:
    policy = {"default": "1", "validValues": ["500m", "1"]}
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "10", "requestPolicy": policy}},
    }
    gates = ("DRAConsumableCapacity", "DRAFractionalCapacityRange")
    assert errors(slice_of(device), *gates) == []
    assert [type_ for type_, _, _ in errors(slice_of(device), gates[0])] == ["FieldValueDuplicate"]


def test_capacity_that_stays_is_not_checked_again() -> None:
    policy = {"default": "1", "validRange": {"min": "2"}}
    capacity = {"m": {"value": "10", "requestPolicy": policy}}
    old = slice_of({"name": "d", "allowMultipleAllocations": True, "capacity": capacity})
    old["metadata"]["resourceVersion"] = "1"
    assert errors(old, "DRAConsumableCapacity", old=old) == []
    assert errors(old, "DRAConsumableCapacity", old=old, version=V1_36) != []


def test_names_have_one_slash() -> None:
    obj = slice_of({"name": "d", "attributes": {"a/b/c": {"int": 1}}})
    assert errors(obj) == [
        (
            "FieldValueInvalid",
            "spec.devices[0].attributes",
            'Invalid value: "a/b/c": must not contain more than one slash',
        )
    ]
    assert errors(obj, version=V1_36) == []


def test_declared_rules_answer_last() -> None:
    config = [{"opaque": {"driver": "gpu.example.com"}}]
    obj = claim(constraint={"matchAttribute": "bare"}, config=config)
    obj["spec"]["devices"]["requests"] = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]

    def fields(**how: Any) -> list[str]:
        return [field.removeprefix("spec.devices.") for _, field, _ in errors(obj, **how)]

    match, parameters = "constraints[0].matchAttribute", "config[0].opaque.parameters"
    assert fields(version=V1_36) == [match, parameters]
    assert fields() == [parameters, match]


def fields_in_v1beta1(obj: Json, *gates: str, version: Version = V1_37) -> list[str]:
    return [
        field
        for _, field, _ in errors({**obj, "apiVersion": "resource.k8s.io/v1beta1"}, *gates, version=version)
    ]


def test_declared_rules_name_the_fields_of_the_clients_version() -> None:
    request = {"name": "gpu", "deviceClassName": "gpu", "allocationMode": "Some", "selectors": [{}]}
    obj = claim()
    obj["spec"]["devices"]["requests"] = [request]
    # Hand-written rules are for what all versions have in common, so they know v1 alone.
    by_hand = "spec.devices.requests[0].exactly.selectors[0].cel"
    assert fields_in_v1beta1(obj) == [by_hand, "spec.devices.requests[0].allocationMode"]
    assert fields_in_v1beta1(obj, version=V1_36) == [
        by_hand,
        "spec.devices.requests[0].exactly.allocationMode",
    ]
    device = {"name": "d", "basic": {"attributes": {"empty": {}}}}
    assert fields_in_v1beta1(slice_of(device)) == ["spec.devices[0].basic.attributes[empty]"]
    assert fields_in_v1beta1(slice_of(device), version=V1_36) == ["spec.devices[0].attributes[empty]"]
