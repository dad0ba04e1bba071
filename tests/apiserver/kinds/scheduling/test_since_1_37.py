"""Test PodGroups, CompositePodGroups and Workloads of Kubernetes 1.37."""

import copy
from typing import Any

import pytest
from dra_apiserver.kinds import catalog
from dra_recordings.validate import answer
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37

from tests.support.cases import each_case

GANG = {"gang": {"minCount": 2}}
BASIC: JsonObject = {"basic": {}}


def create_object(kind: str, version: str = "v1beta1", **spec: Any) -> JsonObject:
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "g", "namespace": "default"},
        "spec": spec,
    }


def get_answer(obj: JsonObject, *gates: str, old: JsonObject | None = None) -> JsonObject:
    on = dict.fromkeys((*FeatureGates(V1_37), "GenericWorkload", *gates), True)
    case: JsonObject = {"object": copy.deepcopy(obj), "kubernetesVersion": "1.37", "featureGates": on}
    if old is not None:
        case["object"]["metadata"]["resourceVersion"] = "1"
        case |= {"oldObject": copy.deepcopy(old), "operation": "update"}
    server: JsonObject = answer(case)["server"]
    return server


def errors(obj: JsonObject, *gates: str, old: JsonObject | None = None) -> list[tuple[str, str]]:
    return [(error["field"], error["body"]) for error in get_answer(obj, *gates, old=old)["errors"]]


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3"])
def test_a_pod_group_keeps_its_workload_reference_and_defaults_to_single_disruption(version: str) -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    spec = get_answer(create_object("PodGroup", version, schedulingPolicy=GANG, workloadRef=reference))[
        "object"
    ]["spec"]
    assert spec == {
        "schedulingPolicy": GANG,
        "workloadRef": reference,
        "disruptionMode": {"single": {}},
        "priority": 0,
    }


def test_only_min_count_of_a_gang_may_change() -> None:
    old = create_object("PodGroup", schedulingPolicy=GANG)
    assert errors(create_object("PodGroup", schedulingPolicy={"gang": {"minCount": 3}}), old=old) == []
    assert errors(create_object("PodGroup", schedulingPolicy=BASIC), old=old) == [
        ("spec.schedulingPolicy.basic", "Invalid value: null: field is immutable"),
        ("spec.schedulingPolicy.gang", "Invalid value: null: field cannot be cleared once set"),
    ]


@each_case(
    ("spec", "gates", "wanted"),
    [
        ({"schedulingPolicy": {}}, (), [("spec.schedulingPolicy", "must specify one of: `basic`, `gang`")]),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}}, (), [
            ("spec.schedulingPolicy.gang.minCount", "must be greater than or equal to 1")]),
        ({"schedulingPolicy": BASIC, "disruptionMode": {"single": {}, "all": {}}}, (), [
            ("spec.disruptionMode", "must specify exactly one of: `single`, `all`")]),
        ({"schedulingPolicy": BASIC, "resourceClaims": [{"name": "a"}]}, ("DRAWorkloadResourceClaims",), [
            ("spec.resourceClaims[0]", "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")]),
        ({"schedulingPolicy": BASIC, "preemptionPolicy": "Always"}, ("PodGroupPreemptionPolicy",), [
            ("spec.preemptionPolicy", 'supported values: "Never", "PreemptLowerPriority"')]),
        # Without their gates these are dropped.
        ({"schedulingPolicy": BASIC, "resourceClaims": [{"name": "a"}], "preemptionPolicy": "Always",
          "parentCompositePodGroupName": "UPPER"}, (), []),
    ],
)  # fmt: skip
def test_invalid_pod_groups_are_rejected(
    spec: JsonObject, gates: tuple[str, ...], wanted: list[tuple[str, str]]
) -> None:
    found = errors(create_object("PodGroup", **spec), *gates)
    assert [field for field, _ in found] == [field for field, _ in wanted]
    assert all(body.endswith(text) for (_, body), (_, text) in zip(found, wanted, strict=True))


def template(name: str, **more: Any) -> JsonObject:
    return {"name": name, "schedulingPolicy": BASIC, **more}


def composite(name: str, *children: JsonObject, groups: tuple[JsonObject, ...] = ()) -> JsonObject:
    return template(name, compositePodGroupTemplates=list(children), podGroupTemplates=list(groups))


ONE = template("one")


@each_case(
    ("spec", "wanted"),
    [
        ({"podGroupTemplates": [ONE]}, []),
        ({"compositePodGroupTemplates": [composite("c", groups=(ONE,))]}, []),
        ({}, [("spec", "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`")]),
        ({"compositePodGroupTemplates": [composite("c")]}, [
            ("spec.compositePodGroupTemplates[0]",
             "must have at least one child PodGroupTemplate or CompositePodGroupTemplate")]),
        ({"compositePodGroupTemplates": [composite("one", groups=(ONE,))]}, [
            ("spec.compositePodGroupTemplates[0].podGroupTemplates[0].name", 'Duplicate value: "one"')]),
        ({"podGroupTemplates": [template("a", priority=1), template("b", priority=2)]}, [
            ("spec", "detected multiple priority configurations")]),
        ({"compositePodGroupTemplates": [
            composite("a", composite("b", composite("c", composite("d", groups=(ONE,)))))]}, [
            ("spec.compositePodGroupTemplates[0]", "maximum template hierarchy depth is 4")]),
    ],
)  # fmt: skip
def test_templates_of_workloads_are_validated(spec: JsonObject, wanted: list[tuple[str, str]]) -> None:
    found = errors(create_object("Workload", **spec), "CompositePodGroup")
    assert [field for field, _ in found] == [field for field, _ in wanted]
    assert all(body.endswith(text) for (_, body), (_, text) in zip(found, wanted, strict=True))


def test_templates_of_a_workload_are_immutable() -> None:
    old = create_object("Workload", podGroupTemplates=[template("a"), template("b")])
    new = create_object("Workload", podGroupTemplates=[template("a"), template("c")])
    assert errors(new, old=old) == [
        ("spec.podGroupTemplates[1]", "Forbidden: item may not be added"),
        ("spec.podGroupTemplates", "Forbidden: item may not be removed"),
    ]


def test_a_composite_pod_group_must_belong_to_a_workload() -> None:
    gate = "CompositePodGroup"
    assert errors(create_object("CompositePodGroup", "v1alpha3", schedulingPolicy=BASIC), gate) == [
        ("spec.workloadRef", "Required value")
    ]


def test_served_and_stored_api_versions_are_those_of_the_release() -> None:
    def find_served(version: str) -> set[str]:
        registry = catalog.registry("api/all=true", kubernetes=V1_37 if version != "v1alpha2" else V1_36)
        return {kind.plural for kind in registry.kinds_in("scheduling.k8s.io", version)}

    assert find_served("v1beta1") == find_served("v1alpha2") == {"podgroups", "workloads"}
    assert find_served("v1alpha3") == {"compositepodgroups", "podgroups", "workloads"}
    assert not catalog.registry("api/all=true", kubernetes=V1_37).kinds_in("scheduling.k8s.io", "v1alpha2")
