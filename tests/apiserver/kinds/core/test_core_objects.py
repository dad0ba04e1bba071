"""Test the validation of workloads and simple kinds at creation and update."""

import copy

import pytest
from dra_recordings.validate import answer
from dra_shared.jsontypes import JsonObject

from tests.support.apiobjects import CORE
from tests.support.cases import each_case

KINDS = {obj["kind"]: obj for obj in CORE}
FROZEN = "Forbidden: field is immutable when `immutable` is set"
NEGATIVE = "must be greater than or equal to 0"


def get_answer(kind: str, operation: str, changes: JsonObject) -> JsonObject:
    old = copy.deepcopy(KINDS[kind])
    if operation == "create":
        del old["metadata"]["resourceVersion"]
    obj = copy.deepcopy(old)
    for path, value in changes.items():
        *parents, name = path.split(".")
        target = obj
        for parent in parents:
            target = target[parent]
        if value is None:
            del target[name]
        else:
            target[name] = value
    namespaces = [{"metadata": {"name": "default"}}]
    server: JsonObject = answer(
        {"object": obj, "oldObject": old, "operation": operation, "namespaces": namespaces}
    )["server"]
    return server


CASES: list[tuple[str, str, JsonObject, list[tuple[str, str]]]] = [
    ("Deployment", "create", {"spec.replicas": -1}, [("spec.replicas", f"Invalid value: -1: {NEGATIVE}")]),
    (
        "Deployment",
        "create",
        {"spec.selector": None},
        [
            ("spec.selector", "Required value"),
            (
                "spec.template.metadata.labels",
                'Invalid value: {"a":"b"}: `selector` does not match template `labels`',
            ),
        ],
    ),
    (
        "Deployment",
        "create",
        {"spec.selector": {"matchLabels": {"a": "c"}}},
        [
            (
                "spec.template.metadata.labels",
                'Invalid value: {"a":"b"}: `selector` does not match template `labels`',
            )
        ],
    ),
    (
        "Deployment",
        "update",
        {"spec.selector": {"matchLabels": {"a": "b"}}},
        [("spec.selector", 'Invalid value: {"matchLabels":{"a":"b"}}: field is immutable')],
    ),
    (
        "StatefulSet",
        "update",
        {"spec.serviceName": "other"},
        [
            (
                "spec",
                "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', "
                "'template', 'updateStrategy', 'revisionHistoryLimit', "
                "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            )
        ],
    ),
    (
        "CronJob",
        "create",
        {"spec.schedule": "* * 32 * *"},
        [("spec.schedule", 'Invalid value: "* * 32 * *": end of range (32) above maximum (31): 32')],
    ),
    ("ConfigMap", "update", {"data.a": "c"}, [("data", FROZEN)]),
    ("ConfigMap", "update", {"immutable": None}, [("immutable", FROZEN)]),
    (
        "ConfigMap",
        "create",
        {"data": {"..a": "b"}},
        [("data[..a]", "Invalid value: \"..a\": must not start with '..'")],
    ),
    (
        "Secret",
        "update",
        {"type": "example.com/x"},
        [("type", 'Invalid value: "example.com/x": field is immutable')],
    ),
    (
        "Secret",
        "create",
        {"type": "kubernetes.io/tls"},
        [("data[tls.crt]", "Required value"), ("data[tls.key]", "Required value")],
    ),
    (
        "Event",
        "create",
        {"involvedObject.namespace": "other"},
        [("involvedObject.namespace", 'Invalid value: "other": does not match event.namespace')],
    ),
    (
        "Lease",
        "create",
        {"spec.leaseDurationSeconds": 0},
        [("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0")],
    ),
    (
        "PriorityClass",
        "update",
        {"value": 6},
        [("value", "Forbidden: may not be changed in an update.")],
    ),
    (
        "PodDisruptionBudget",
        "create",
        {"spec.minAvailable": "101%"},
        [("spec.minAvailable", 'Invalid value: "101%": must not be greater than 100%')],
    ),
    (
        "Node",
        "update",
        {"spec.providerID": "y"},
        [
            (
                "spec.providerID",
                'Forbidden: node updates may not change providerID except from "" to valid',
            )
        ],
    ),
    (
        "PodGroup",
        "create",
        {"spec.schedulingPolicy": {"basic": {}, "gang": {"minCount": -1}}},
        [
            (
                "spec.schedulingPolicy",
                'Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
            ),
            (
                "spec.schedulingPolicy.gang.minCount",
                "Invalid value: -1: must be greater than or equal to 1",
            ),
        ],
    ),
    (
        "PodGroup",
        "update",
        {"spec.schedulingPolicy": {"basic": {}}},
        [("spec.schedulingPolicy", "Invalid value: null: field is immutable")],
    ),
    (
        "Workload",
        "create",
        {"spec.podGroupTemplates": [{"name": "T", "schedulingPolicy": {}}]},
        [
            (
                "spec.podGroupTemplates[0].name",
                'Invalid value: "T": a lowercase RFC 1123 label must consist of lower case alphanumeric '
                "characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or "
                "'123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
            (
                "spec.podGroupTemplates[0].schedulingPolicy",
                'Invalid value: "": must specify one of: `basic`, `gang`',
            ),
        ],
    ),
    (
        "ResourceQuota",
        "update",
        {"spec.scopes": ["Terminating"]},
        [("spec.scopes", 'Invalid value: ["Terminating"]: field is immutable')],
    ),
]


@each_case(
    ("kind", "operation", "changes", "expected"),
    [pytest.param(*case, id=f"{case[0]}-{case[1]}-{next(iter(case[2]))}") for case in CASES],
)
def test_invalid_objects_are_rejected(
    kind: str, operation: str, changes: JsonObject, expected: list[tuple[str, str]]
) -> None:
    found = [(error["field"], error["body"]) for error in get_answer(kind, operation, changes)["errors"]]
    assert found == expected


def test_string_data_of_a_secret_is_stored_as_data() -> None:
    stored = get_answer("Secret", "create", {})["object"]
    assert stored["data"] == {"a": "Yg==", "c": "ZA=="}
    assert "stringData" not in stored
