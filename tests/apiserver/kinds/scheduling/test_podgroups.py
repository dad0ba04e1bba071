"""Test PodGroup and Workload against kube-apiserver 1.36. Those of 1.37 are tested in ``test_since_1_37``."""

import copy
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_recordings.validate import answer
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from tests.support.cases import each_case

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads"
POLICY: JsonObject = {"schedulingPolicy": {"gang": {"minCount": 2}}}
ALPHA = "GenericWorkload=true,DRAWorkloadResourceClaims=true"


def group(**spec: Any) -> JsonObject:
    return {"metadata": {"name": "g"}, "spec": {**POLICY, **spec}}


def workload(**template: Any) -> JsonObject:
    templates = [{"name": "a", **POLICY, **template}]
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": templates}}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    gates = FeatureGates.parse(ALPHA, V1_36)
    return Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true", features=gates)


async def test_pod_groups_are_not_served_without_the_feature(tmp_path: Path) -> None:
    gates = FeatureGates(V1_36)
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true", features=gates)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        assert (await client.get(GROUPS)).status_code == 404
        assert (await client.get("/apis/scheduling.k8s.io/v1alpha2")).status_code == 404
        assert (await client.get("/apis/scheduling.k8s.io/v1")).status_code == 200


async def test_fields_of_features_that_are_off_are_dropped_and_defaulted(client: httpx.AsyncClient) -> None:
    obj = group(schedulingConstraints={"topology": [{"key": "zone"}]}, disruptionMode="PodGroup", priority=5)
    answer = await client.post(GROUPS, json=obj)
    assert answer.status_code == 201
    assert answer.json()["spec"] == {**POLICY, "podGroupTemplateRef": None, "disruptionMode": "Pod"}
    answer = await client.post(WORKLOADS, json=workload(schedulingConstraints={}, disruptionMode="Pod"))
    assert answer.json()["spec"]["podGroupTemplates"] == [
        {"name": "a", **POLICY, "schedulingConstraints": None}
    ]


@pytest.mark.parametrize(
    ("name", "template", "why"),
    [
        ("other", "a", 'PodGroup rejected: Workload "other" not found'),
        ("w", "b", 'PodGroup rejected: PodGroupTemplate "b" not found in Workload "w"'),
    ],
)
async def test_a_pod_group_of_a_missing_workload_is_rejected(
    client: httpx.AsyncClient, name: str, template: str, why: str
) -> None:
    assert (await client.post(WORKLOADS, json=workload())).status_code == 201
    reference = {"workload": {"workloadName": name, "podGroupTemplateName": template}}
    answer = await client.post(GROUPS, json=group(podGroupTemplateRef=reference))
    assert answer.status_code == 403
    assert answer.json()["message"] == f'podgroups.scheduling.k8s.io "g" is forbidden: {why}'
    reference["workload"] = {"workloadName": "w", "podGroupTemplateName": "a"}
    assert (await client.post(GROUPS, json=group(podGroupTemplateRef=reference))).status_code == 201


@each_case(
    ("path", "obj", "causes"),
    [
        pytest.param(
            WORKLOADS,
            {**workload(), "spec": {"podGroupTemplates": workload()["spec"]["podGroupTemplates"] * 2}},
            {
                "spec.podGroupTemplates[1]": 'Duplicate value: {"name":"a","schedulingPolicy":{"gang":{"minCount":2}},'
                '"schedulingConstraints":null}'
            },
            id="a template twice",
        ),
        pytest.param(
            WORKLOADS,
            {**workload(), "spec": {**workload()["spec"], "controllerRef": {"kind": "a/b", "name": "j"}}},
            {"spec.controllerRef.kind": "Invalid value: \"a/b\": may not contain '/'"},
            id="an owner's kind",
        ),
        pytest.param(
            GROUPS,
            group(schedulingPolicy={"gang": {"minCount": -1}, "basic": {}}),
            {
                "spec.schedulingPolicy": 'Invalid value: "{basic, gang}": '
                "must specify exactly one of: `basic`, `gang`",
                "spec.schedulingPolicy.gang.minCount": "Invalid value: -1: must be greater than or equal to 1",
            },
            id="two policies",
        ),
        pytest.param(
            GROUPS,
            group(resourceClaims=[{"name": "a" * 64, "resourceClaimName": "c"}]),
            {"spec.resourceClaims[0].name": f'Invalid value: "{"a" * 64}": must be no more than 63 bytes'},
            id="a claim's name",
        ),
    ],
)
async def test_invalid_groups_and_workloads_are_rejected(
    client: httpx.AsyncClient, path: str, obj: JsonObject, causes: dict[str, str]
) -> None:
    answer = await client.post(path, json=obj)
    assert answer.status_code == 422
    assert {one["field"]: one["message"] for one in answer.json()["details"]["causes"]} == causes


async def test_specs_of_pod_groups_and_workloads_are_immutable(client: httpx.AsyncClient) -> None:
    for path, name, obj, other, field in (
        (GROUPS, "g", group(), {"basic": {}}, "spec.schedulingPolicy"),
        (WORKLOADS, "w", workload(), {"kind": "Job", "name": "j"}, "spec.controllerRef"),
    ):
        assert (await client.post(path, json=obj)).status_code == 201
        changed = copy.deepcopy(obj)
        changed["spec"][field.partition(".")[2]] = other
        answer = await client.put(f"{path}/{name}", json=changed)
        assert answer.status_code == 422
        assert answer.json()["details"]["causes"] == [
            {
                "reason": "FieldValueInvalid",
                "message": "Invalid value: null: field is immutable",
                "field": field,
            }
        ]


async def test_claim_statuses_of_a_group_must_name_its_claims(client: httpx.AsyncClient) -> None:
    claims = [{"name": "a", "resourceClaimTemplateName": "t"}]
    made = (await client.post(GROUPS, json=group(resourceClaims=claims))).json()
    made["status"] = {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "A"}]}
    answer = await client.put(f"{GROUPS}/g/status", json=made)
    assert [one["field"] for one in answer.json()["details"]["causes"]] == [
        "status.resourceClaimStatuses[0].name",
        "status.resourceClaimStatuses[0].resourceClaimName",
    ]
    made["status"] = {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "c"}]}
    assert (await client.put(f"{GROUPS}/g/status", json=made)).status_code == 200


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"podGroups": [{"name": "a", "policy": {"gang": {"minCount": 2}}}]}, []),
        ({}, [("spec.podGroups", "Required value: must have at least one item")]),
        (
            {
                "controllerRef": {"apiGroup": "a_b", "kind": "", "name": "a/b"},
                "podGroups": [
                    {"name": "a", "policy": {}},
                    {"name": "a", "policy": {"gang": {"minCount": 0}}},
                    {"name": "b", "policy": {"basic": {}, "gang": {"minCount": 0}}},
                ],
            },
            [
                ("spec.controllerRef.apiGroup", "Invalid value"),
                ("spec.controllerRef.kind", "Required value"),
                ("spec.controllerRef.name", "Invalid value"),
                ("spec.podGroups[0].policy", "Required value: exactly one of `basic`, `gang` is required"),
                ("spec.podGroups[1].name", 'Duplicate value: "a"'),
                ("spec.podGroups[1].policy.gang.minCount", "Invalid value: 0: must be greater than zero"),
                (
                    "spec.podGroups[2].policy",
                    'Invalid value: "{`basic`, `gang`}": exactly one of `basic`, `gang` is required, '
                    "but multiple fields are set",
                ),
            ],
        ),
    ],
)
def test_workloads_of_1_35_are_validated_by_hand_written_rules(
    spec: JsonObject, errors: list[tuple[str, str]]
) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload"}
    obj = {**kind, "metadata": {"name": "w", "namespace": "default"}, "spec": spec}
    case = {"object": obj, "kubernetesVersion": "1.35", "featureGates": {"GenericWorkload": True}}
    found = [(error["field"], error["body"]) for error in answer(case)["server"]["errors"]]
    assert [field for field, _ in found] == [field for field, _ in errors]
    assert all(body.startswith(text) for (_, body), (_, text) in zip(found, errors, strict=True))


def test_pod_groups_of_1_35_workloads_are_immutable() -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload"}
    old = {
        **kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {
            "controllerRef": {"kind": "Job", "name": "j"},
            "podGroups": [{"name": "a", "policy": {"basic": {}}}],
        },
    }
    new = copy.deepcopy(old)
    new["spec"] = {"podGroups": [{"name": "b", "policy": {"basic": {}}}]}
    case = {"object": new, "oldObject": old, "operation": "update", "kubernetesVersion": "1.35"}
    found = [error["field"] for error in answer(case)["server"]["errors"]]
    assert found == ["controllerRef", "podGroups"]
