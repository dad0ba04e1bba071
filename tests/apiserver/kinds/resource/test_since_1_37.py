"""Test the changes of resource.k8s.io in Kubernetes 1.37: fields accepted, dropped and rejected."""

import copy
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, V1_38, Version

from tests.apiserver.kinds.resource.answers import Errors, errors, get_answer, get_stored, slice_of
from tests.support.cases import each_case

DERIVED = {"name": "example.com/half", "expression": "device.attributes['gpu.example.com'].numa / 2"}
GROUPS = {
    "counterSet": "memory",
    "counters": {"slices": {"value": "1"}},
    "compatibilityGroups": ["mig"],
}


def claim(*derived: JsonObject, constraint: JsonObject | None = None, **more: Any) -> JsonObject:
    exactly = {"deviceClassName": "gpu", "derivedAttributes": list(derived)}
    devices: JsonObject = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if constraint is not None:
        devices["constraints"] = [constraint]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {**devices, **more}},
    }


MATCH = {"matchAttribute": "example.com/half"}
REQUEST = "spec.devices.requests[0].exactly.derivedAttributes[0]"


def test_derived_attributes_are_kept_while_their_gate_is_on() -> None:
    obj = claim(DERIVED, constraint=MATCH)
    kept = get_stored(obj, "DRADerivedAttributes")["spec"]["devices"]["requests"][0]["exactly"]
    assert kept["derivedAttributes"] == [DERIVED]
    dropped = get_stored(obj)["spec"]["devices"]["requests"][0]["exactly"]
    assert "derivedAttributes" not in dropped


def test_derived_attributes_are_unknown_before_1_37() -> None:
    assert 'unknown field "spec.devices.requests[0].exactly.derivedAttributes"' in str(
        get_answer(claim(DERIVED, constraint=MATCH), version=V1_36)["oracleError"]
    )


def test_derived_attributes_of_v1beta1_are_in_the_request_itself() -> None:
    obj = claim(constraint=MATCH)
    obj["apiVersion"] = "resource.k8s.io/v1beta1"
    obj["spec"]["devices"]["requests"] = [
        {"name": "gpu", "deviceClassName": "gpu", "derivedAttributes": [DERIVED]}
    ]
    assert get_stored(obj, "DRADerivedAttributes")["spec"]["devices"]["requests"][0]["derivedAttributes"] == [
        DERIVED
    ]


UNUSED = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)
SCALAR = "must evaluate to a primitive scalar (string, integer, boolean, semver)"


@each_case(
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
def test_a_derived_attribute_must_be_named_by_a_constraint_and_have_a_plain_value(
    attribute: JsonObject, constraint: JsonObject | None, gates: tuple[str, ...], wanted: Errors
) -> None:
    found = errors(claim(attribute, constraint=constraint), "DRADerivedAttributes", *gates)
    assert [(type_, field, body.rpartition('": ')[2] or body) for type_, field, body in found] == [
        (type_, f"{REQUEST}.{field}", text or "Required value") for type_, field, text in wanted
    ]


def test_a_constraint_names_an_alternative_directly_or_by_its_request() -> None:
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


def test_derived_attributes_have_unique_names_and_are_at_most_32() -> None:
    twice = errors(claim(DERIVED, DERIVED, constraint=MATCH), "DRADerivedAttributes")
    assert twice == [
        (
            "FieldValueDuplicate",
            "spec.devices.requests[0].exactly.derivedAttributes[1]",
            'Duplicate value: "example.com/half"',
        )
    ]
    many = errors(claim(*[DERIVED] * 33, constraint=MATCH), "DRADerivedAttributes")
    assert [type_ for type_, _, _ in many] == ["FieldValueDuplicate"] * 32 + ["FieldValueTooMany"]


def costly(name: str) -> JsonObject:
    """Return a derived attribute whose expression costs about 600,000 of the million units that a claim may use."""
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


def test_a_device_has_at_most_two_distinct_compatibility_groups() -> None:
    gate = "DRADeviceCompatibilityGroups"
    kept = get_stored(slice_of(PARTITION), gate, "DRAPartitionableDevices")["spec"]["devices"][0]
    assert kept["consumesCounters"] == [GROUPS]
    dropped = get_stored(slice_of(PARTITION), "DRAPartitionableDevices")["spec"]["devices"][0]
    assert "compatibilityGroups" not in dropped["consumesCounters"][0]
    at = "spec.devices[0].consumesCounters[0].compatibilityGroups"
    many = {**PARTITION, "consumesCounters": [{**GROUPS, "compatibilityGroups": ["a", "b", "c"]}]}
    assert errors(slice_of(many), gate) == [
        ("FieldValueTooMany", at, "Too many: 3: must have at most 2 items")
    ]
    twice = {**PARTITION, "consumesCounters": [{**GROUPS, "compatibilityGroups": ["a", "a"]}]}
    assert errors(slice_of(twice), gate) == [("FieldValueDuplicate", f"{at}[1]", 'Duplicate value: "a"')]


SKIP = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"


@each_case(
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
def test_skipped_node_operations_are_validated(operations: list[str], wanted: Errors) -> None:
    obj = slice_of({"name": "d"}, skipNodeOperations=operations)
    at = "spec.skipNodeOperations"
    assert errors(obj, "DRAOptionalNodeOperations") == [(t, at + field, body) for t, field, body in wanted]
    assert "skipNodeOperations" not in get_stored(obj)["spec"]


@each_case(
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
def test_the_partition_type_attribute_of_a_slice_is_validated(
    device: JsonObject, name: str, wanted: list[tuple[str, str]]
) -> None:
    gates = ("DRAResourcePoolStatus", "DRAPartitionableDevicesType", "DRAPartitionableDevices")
    found = errors(slice_of(device, partitionTypeAttribute=name), *gates)
    assert [(type_, field) for type_, field, _ in found] == wanted


def test_a_stored_partition_type_is_kept_when_its_gate_is_disabled() -> None:
    gates = ("DRAResourcePoolStatus", "DRAPartitionableDevices")
    old = slice_of(PARTITION, partitionTypeAttribute=TYPE)
    old["metadata"]["resourceVersion"] = "1"
    assert (
        "partitionTypeAttribute"
        not in get_stored(slice_of(PARTITION, partitionTypeAttribute=TYPE), *gates)["spec"]
    )
    assert get_stored(old, *gates, old=old)["spec"]["partitionTypeAttribute"] == TYPE
    other = copy.deepcopy(old)
    other["spec"]["partitionTypeAttribute"] = "other.example.com/profile"
    assert ("FieldValueForbidden", "spec.partitionTypeAttribute", "Forbidden") in errors(
        other, *gates, old=old
    )


def pools_asked(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": "r"},
        "spec": {"driver": "gpu.example.com", **spec},
    }


def test_a_default_partition_type_is_dropped_while_its_gate_is_off() -> None:
    asked = pools_asked(defaultPartitionTypeAttribute=TYPE)
    gates = ("DRAResourcePoolStatus", "DRAPartitionableDevicesType")
    assert get_stored(asked, *gates)["spec"]["defaultPartitionTypeAttribute"] == TYPE
    assert "defaultPartitionTypeAttribute" not in get_stored(asked, gates[0])["spec"]
    found = errors(pools_asked(defaultPartitionTypeAttribute="example.com/a b"), *gates)
    assert [field for _, field, _ in found] == ["spec.defaultPartitionTypeAttribute"]


def pool_answer(**pool: Any) -> JsonObject:
    pools = [{"driver": "gpu.example.com", "poolName": "p", "generation": 1, **pool}]
    return {**pools_asked(), "status": {"poolCount": 1, "pools": pools}}


def test_pool_summaries_are_validated_by_declared_rules() -> None:
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


def test_attribute_names_with_two_slashes_are_rejected_since_1_38() -> None:
    obj = slice_of({"name": "d", "attributes": {"a/b/c": {"int": 1}}})
    assert errors(obj) == []
    assert errors(obj, version=V1_38) == [
        (
            "FieldValueInvalid",
            "spec.devices[0].attributes",
            'Invalid value: "a/b/c": must not contain more than one slash',
        )
    ]
    assert errors(obj, version=V1_36) == []


def test_errors_of_declared_rules_follow_those_of_hand_written_rules_since_1_37() -> None:
    config = [{"opaque": {"driver": "gpu.example.com"}}]
    obj = claim(constraint={"matchAttribute": "bare"}, config=config)
    obj["spec"]["devices"]["requests"] = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]

    def fields(**how: Any) -> list[str]:
        return [field.removeprefix("spec.devices.") for _, field, _ in errors(obj, **how)]

    match, parameters = "constraints[0].matchAttribute", "config[0].opaque.parameters"
    assert fields(version=V1_36) == [match, parameters]
    assert fields() == [parameters, match]


def fields_in_v1beta1(obj: JsonObject, *gates: str, version: Version = V1_37) -> list[str]:
    return [
        field
        for _, field, _ in errors({**obj, "apiVersion": "resource.k8s.io/v1beta1"}, *gates, version=version)
    ]


def test_declared_rules_name_the_fields_of_the_clients_version() -> None:
    request = {"name": "gpu", "deviceClassName": "gpu", "allocationMode": "Some", "selectors": [{}]}
    obj = claim()
    obj["spec"]["devices"]["requests"] = [request]
    # Hand-written rules apply to all versions of the API, so they use v1's fields.
    by_hand = "spec.devices.requests[0].exactly.selectors[0].cel"
    assert fields_in_v1beta1(obj) == [by_hand, "spec.devices.requests[0].allocationMode"]
    assert fields_in_v1beta1(obj, version=V1_36) == [
        by_hand,
        "spec.devices.requests[0].exactly.allocationMode",
    ]
    device = {"name": "d", "basic": {"attributes": {"empty": {}}}}
    assert fields_in_v1beta1(slice_of(device)) == ["spec.devices[0].basic.attributes[empty]"]
    assert fields_in_v1beta1(slice_of(device), version=V1_36) == ["spec.devices[0].attributes[empty]"]


def test_errors_of_an_invalid_partition_type_are_reported_once() -> None:
    found = errors(slice_of({"name": "d"}, partitionTypeAttribute="no slash"), "DRAPartitionableDevicesType")
    assert len({body for _, _, body in found}) == len(found) == 3
