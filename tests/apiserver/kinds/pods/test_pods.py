"""Test the validation of new pods, changed pods and their status."""

import copy
from typing import Any

import pytest
from dra_recordings.validate import answer
from dra_shared.jsontypes import JsonObject

from tests.support.apiobjects import POD
from tests.support.cases import each_case

Error = tuple[str, str]
NAMESPACES = [{"metadata": {"name": "default"}}]


def new_pod(**spec: Any) -> JsonObject:
    meta = {"name": "p", "namespace": "default"}
    base = {"containers": [{"name": "c", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**base, **spec}}


def errors(obj: JsonObject, old: JsonObject | None = None, operation: str = "create") -> list[Error]:
    case = {"object": obj, "oldObject": old, "operation": operation, "namespaces": NAMESPACES}
    return [(error["field"], error["body"]) for error in answer(case)["server"]["errors"]]


def container(**more: Any) -> JsonObject:
    return {"name": "c", "image": "x", **more}


CREATE: list[tuple[str, JsonObject, list[Error]]] = [
    ("no containers", {"containers": []}, [("spec.containers", "Required value")]),
    (
        "same names",
        {"containers": [container(), container()], "initContainers": [container()]},
        [
            ("spec.containers[1].name", 'Duplicate value: "c"'),
            ("spec.initContainers[0].name", 'Duplicate value: "c"'),
        ],
    ),
    (
        "more requested than allowed",
        {"containers": [container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})]},
        [
            (
                "spec.containers[0].resources.requests",
                'Invalid value: "2": must be less than or equal to cpu limit of 1',
            )
        ],
    ),
    (
        "an extended resource without a limit",
        {"containers": [container(resources={"requests": {"example.com/gpu": "1"}})]},
        [
            (
                "spec.containers[0].resources.limits",
                "Required value: Limit must be set for non overcommitable resources",
            )
        ],
    ),
    (
        "half an extended resource",
        {"containers": [container(resources={"limits": {"example.com/gpu": "500m"}})]},
        [
            (
                "spec.containers[0].resources.limits[example.com/gpu]",
                'Invalid value: "500m": must be an integer',
            ),
            (
                "spec.containers[0].resources.requests[example.com/gpu]",
                'Invalid value: "500m": must be an integer',
            ),
        ],
    ),
    (
        "a claim that the pod lacks",
        {
            "resourceClaims": [{"name": "a", "resourceClaimName": "x"}],
            "containers": [container(resources={"claims": [{"name": "b"}]})],
        },
        [
            (
                "spec.containers[0].resources.claims[0]",
                'Not found: "b": must be one of the names in pod.spec.resourceClaims: a',
            )
        ],
    ),
    (
        "a claim used twice",
        {
            "resourceClaims": [{"name": "a", "resourceClaimName": "x"}],
            "containers": [container(resources={"claims": [{"name": "a", "request": "r"}, {"name": "a"}]})],
        },
        [("spec.containers[0].resources.claims[1]", 'Duplicate value: "a"')],
    ),
    (
        "a claim from nowhere",
        {"resourceClaims": [{"name": "a"}]},
        [
            (
                "spec.resourceClaims[0]",
                'Invalid value: {"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}: '
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )
        ],
    ),
    (
        "a mount without a volume",
        {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]},
        [("spec.containers[0].volumeMounts[0].name", 'Not found: "v"')],
    ),
    (
        "a toleration of everything in part",
        {"tolerations": [{"operator": "Equal", "value": "x"}]},
        [
            (
                "spec.tolerations[0].operator",
                'Invalid value: "Equal": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"',
            )
        ],
    ),
    (
        "a port out of range",
        {"containers": [container(ports=[{"containerPort": 70000}])]},
        [
            (
                "spec.containers[0].ports[0].containerPort",
                "Invalid value: 70000: must be between 1 and 65535, inclusive",
            )
        ],
    ),
    (
        "an unknown policy",
        {"restartPolicy": "Sometimes"},
        [
            (
                "spec.restartPolicy",
                'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
            )
        ],
    ),
    (
        "gated and bound",
        {"schedulingGates": [{"name": "example.com/a"}], "nodeName": "n"},
        [("spec.nodeName", "Forbidden: cannot be set until all schedulingGates have been cleared")],
    ),
]


@each_case(("spec", "expected"), [pytest.param(spec, expected, id=name) for name, spec, expected in CREATE])
def test_invalid_pods_are_rejected(spec: JsonObject, expected: list[Error]) -> None:
    assert errors(new_pod(**spec)) == expected


def change(**spec: Any) -> JsonObject:
    obj: JsonObject = copy.deepcopy(POD)
    obj["spec"] |= spec
    return obj


def test_an_image_and_tolerations_may_change() -> None:
    containers = copy.deepcopy(POD["spec"]["containers"])
    containers[0]["image"] = "other"
    tolerations = [*POD["spec"]["tolerations"], {"key": "b", "operator": "Exists"}]
    obj = change(containers=containers, tolerations=tolerations, activeDeadlineSeconds=30, schedulingGates=[])
    assert errors(obj, POD, "update") == []


def test_other_fields_of_a_pod_are_immutable() -> None:
    found = errors(change(hostname="other"), POD, "update")
    assert [field for field, _ in found] == ["spec"]
    assert found[0][1].startswith("Forbidden: pod updates may not change fields other than ")


def test_a_toleration_cannot_be_removed() -> None:
    found = errors(change(tolerations=[]), POD, "update")
    text = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
    assert found == [("spec.tolerations", text)]


def test_a_scheduling_gate_cannot_be_added() -> None:
    gates = [*POD["spec"]["schedulingGates"], {"name": "example.com/more"}]
    text = "Forbidden: only deletion is allowed, but found new scheduling gate 'example.com/more'"
    assert errors(change(schedulingGates=gates), POD, "update") == [("spec.schedulingGates[1].name", text)]


def test_a_gated_pod_may_get_a_node_selector() -> None:
    assert errors(change(nodeSelector={"zone": "a", "rack": "b"}), POD, "update") == []
    found = errors(change(nodeSelector={"zone": "b"}), POD, "update")
    assert [field for field, _ in found] == ["spec.nodeSelector"]


def test_the_required_node_affinity_of_a_gated_pod_can_only_be_narrowed() -> None:
    def affine(*terms: list[str]) -> JsonObject:
        def one(values: list[str]) -> JsonObject:
            return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in values]}

        selector = {"nodeSelectorTerms": [one(values) for values in terms]}
        return change(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}})

    old = affine(["zone"])
    assert errors(affine(["zone", "rack"]), old, "update") == []
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    ((field, message),) = errors(affine(["rack"]), old, "update")
    assert (field, message[-55:]) == (
        f"{path}[0]",
        ": only additions are allowed (no mutations or deletions)"[1:],
    )
    ((field, message),) = errors(affine(["zone"], ["rack"]), old, "update")
    assert (field, message[-30:]) == (path, "NodeSelectorTerms list are allowed"[-30:])
    assert errors(affine(["rack"]), change(affinity={}), "update") == []


def test_preferred_node_affinity_is_validated() -> None:
    preference = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    term = {"weight": 1, "preference": preference}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    path = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
    assert errors(new_pod(affinity=affinity)) == [
        (f"{path}.matchExpressions[0].operator", 'Invalid value: "Like": not a valid selector operator')
    ]


def test_the_deadline_of_a_pod_can_only_decrease() -> None:
    text = "Invalid value: 90: must be less than or equal to previous value"
    assert errors(change(activeDeadlineSeconds=90), POD, "update") == [("spec.activeDeadlineSeconds", text)]


def test_terminated_containers_cannot_run_again() -> None:
    old = change(restartPolicy="Never")
    old["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 1}}
    obj = change(restartPolicy="Never")
    text = "Forbidden: may not be transitioned to non-terminated state"
    assert errors(obj, old, "statusUpdate") == [("status.containerStatuses[0].state", text)]


def test_claim_statuses_must_name_claims_of_the_pod() -> None:
    obj = copy.deepcopy(POD)
    obj["status"]["resourceClaimStatuses"] = [{"name": "x", "resourceClaimName": "y"}]
    text = 'Invalid value: "x": must match the name of an entry in `spec.resourceClaims`'
    assert errors(obj, POD, "statusUpdate") == [("status.resourceClaimStatuses[0].name", text)]
