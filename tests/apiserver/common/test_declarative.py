"""Test declared rules against validation-gen's code of kube-apiserver 1.36.2."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from dra_apiserver.common.declarative import structs
from dra_apiserver.common.declarative.rules import DeclaredRules
from dra_apiserver.common.declarative.structs import Rule, Stage
from dra_shared.api.schema import schema_document
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, V1_36, V1_37, V1_38

V1 = "io.k8s.api.resource.v1"
POOLS = DeclaredRules("io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequest")
CLAIM = f"{V1}.ResourceClaim"
POOL = {"driver": "gpu.example.com", "poolName": "node-1", "generation": 1}
CONDITION = {
    "type": "Complete",
    "status": "True",
    "reason": "Done",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def request(**status: Any) -> JsonObject:
    spec = {"driver": "gpu.example.com", "limit": 100}
    return {"spec": spec, "status": {"poolCount": 1, "pools": [POOL], **status}}


def texts(rules: DeclaredRules, obj: JsonObject, old: JsonObject | None = None) -> list[str]:
    return [str(error) for error in rules.validate(obj, old)]


def test_a_missing_optional_field_with_a_default_is_reported_as_required() -> None:
    assert texts(POOLS, {"spec": {"driver": "gpu.example.com"}}) == ["spec.limit: Required value"]


def test_zero_is_rejected_for_a_required_number() -> None:
    pools = [{**POOL, "generation": 0}, {**POOL, "generation": -1}]
    assert texts(POOLS, request(pools=pools)) == [
        "status.pools[0].generation: Required value",
        "status.pools[1].generation: Invalid value: -1: must be greater than or equal to 0",
    ]


def test_the_error_of_a_duplicate_key_shows_the_item_in_gos_field_order() -> None:
    reference = {"uid": "1", "name": "pod", "resource": "pods"}
    assert texts(DeclaredRules(CLAIM), {"status": {"reservedFor": [reference, reference]}}) == [
        'status.reservedFor[1]: Duplicate value: {"resource":"pods","name":"pod","uid":"1"}'
    ]
    # For conditions the rule is a shadow rule: hand-written code reports the error, so the rule does not.
    assert texts(POOLS, request(conditions=[CONDITION, CONDITION])) == []


def test_values_that_an_update_does_not_change_are_not_validated_by_declared_rules() -> None:
    old = request(poolCount=-1)
    new = copy.deepcopy(old)
    new["status"]["pools"][0]["driver"] = "no driver"
    errors = texts(POOLS, new, old)
    assert [error.partition(": ")[0] for error in errors] == ["status.pools[0].driver"]
    assert texts(POOLS, old, old) == []


def test_a_changed_immutable_field_is_reported_without_the_errors_inside_it() -> None:
    new = {"spec": {"driver": "no driver", "limit": -1}}
    assert texts(POOLS, new, {"spec": {"driver": "gpu.example.com", "limit": 1}}) == [
        "spec: Invalid value: null: field is immutable"
    ]


def test_errors_of_shadow_rules_are_not_reported() -> None:
    claim = {"metadata": {}, "spec": {"devices": {"requests": [{"name": str(n)} for n in range(33)]}}}
    assert texts(DeclaredRules(CLAIM, frozenset({Stage.STANDARD})), claim) == []
    assert texts(DeclaredRules(CLAIM), claim) == [
        "spec.devices.requests: Too many: 33: must have at most 32 items"
    ]
    condition = {
        "metadata": {},
        "status": {"devices": [{"driver": "a", "pool": "b", "device": "c", "conditions": [{}]}]},
    }
    assert texts(DeclaredRules(CLAIM), condition) == []


def test_only_new_items_of_a_set_are_validated() -> None:
    rules = DeclaredRules(f"{V1}.DeviceCounterConsumption")
    both = {"counterSet": "c", "counters": {"n": {"value": "1"}}, "compatibilityGroups": ["Wide", "N"]}
    found = [error.field for error in rules.validate(both)]
    assert found == ["compatibilityGroups[0]", "compatibilityGroups[1]"]
    found = [error.field for error in rules.validate(both, {**both, "compatibilityGroups": ["N"]})]
    assert found == ["compatibilityGroups[0]"]


def test_an_item_of_a_keyed_list_is_compared_with_the_old_item_of_that_key() -> None:
    rules = DeclaredRules(CLAIM)
    one = {"driver": "a", "pool": "b", "device": "c", "shareID": "no-id"}
    two = {**one, "device": "d"}
    old = {"status": {"devices": [one]}}
    found = rules.validate({"status": {"devices": [two, one]}}, old)
    assert [error.field for error in found] == ["status.devices[0].shareID"]


def test_a_union_is_validated_again_if_its_members_change() -> None:
    rules = DeclaredRules(f"{V1}.DeviceAttribute")
    assert len(rules.validate({"int": 1, "bool": True})) == 1
    assert rules.validate({"int": 2, "bool": True}, {"int": 1, "bool": True}) == []
    assert len(rules.validate({"int": 2, "bool": True}, {"int": 1})) == 1


def test_a_declared_rule_is_parsed_with_its_stage_and_target() -> None:
    since = ((V1_36, Stage.ALPHA),)
    inner = Rule("format", since, value="k8s-short-name")
    assert Rule.parse("alpha(1.36): eachKey: format=k8s-short-name") == Rule("eachKey", since, inner=inner)
    assert Rule.parse("subfield(name): optional") == Rule("subfield", argument="name", inner=Rule("optional"))
    with pytest.raises(ValueError, match="not a validation rule"):
        Rule.parse("alpha(1.36): ")


def test_the_stage_of_a_declared_rule_depends_on_the_kubernetes_version() -> None:
    rule = Rule.parse("alpha(1.36) beta(1.38): optional")
    assert [rule.stage_in(version) for version in (V1_35, V1_36, V1_37, V1_38)] == [
        None,
        Stage.ALPHA,
        Stage.ALPHA,
        Stage.BETA,
    ]
    assert Rule.parse("optional").stage_in(V1_35) is Stage.STANDARD
    assert Rule.parse("standard(1.38): maxProperties=32").stage_in(V1_38) is Stage.STANDARD


def test_an_unknown_rule_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    field = structs.Field("size", structs.Shape.NUMBER, rules=(Rule("multipleOf", value="2"),))
    rules = "dra_apiserver.common.declarative.rules"
    monkeypatch.setattr(f"{rules}.fields", lambda _: (field,))
    monkeypatch.setattr(f"{rules}.struct_fields", lambda _: {"size": None})
    with pytest.raises(ValueError, match="size declares a rule that is not known: multipleOf"):
        DeclaredRules("Sized")


def test_a_field_that_the_schema_order_omits_comes_last_and_is_validated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = {"type": "string", "x-go": ["string", ""], "x-rules": ["required"]}
    schema = {"properties": {"a": text, "b": text, "c": text}, "x-order": ["c", "a"]}
    monkeypatch.setattr(structs, "_schema", lambda _: schema)
    found = structs.fields.__wrapped__("Example")
    assert [(field.name, field.rules) for field in found] == [(name, (Rule("required"),)) for name in "cab"]


@pytest.mark.parametrize("version", ["v1", "v1alpha3", "v1beta1", "v1beta2"])
def test_every_rule_in_the_schema_data_is_implemented(version: str) -> None:
    package = f"io.k8s.api.resource.{version}"
    document = structs._package(package)
    assert schema_document(package) is not None
    for name in document:
        DeclaredRules(f"{package}.{name}")
