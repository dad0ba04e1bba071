"""Test how the strategies of each version of Kubernetes handle updates of resource.k8s.io's objects."""

from typing import Any

import pytest
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, VERSIONS, Version

from tests.apiserver.kinds.resource.answers import errors, get_stored
from tests.support.cases import each_case

_LONG_AGO = "2026-01-01T00:00:00Z"
_TOO_LONG = "a" * 64
_NOT_A_NAME = "must be no more than 63"


def _rule(version: str, **taint: Any) -> JsonObject:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r", "uid": "u", "resourceVersion": "1"},
        "spec": {"taint": {"key": "k", "effect": "NoSchedule", "timeAdded": _LONG_AGO, **taint}},
    }


def _claim(name: str, kind: str = "ResourceClaim") -> JsonObject:
    spec: JsonObject = {"devices": {"requests": [{"name": name, "exactly": {"deviceClassName": "gpu"}}]}}
    meta = {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    whole = spec if kind == "ResourceClaim" else {"spec": spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": meta, "spec": whole}


@each_case("version", VERSIONS, ids=str)
@each_case(
    "taint", [{"effect": "NoExecute"}, {"key": "other"}, {"value": "v"}], ids=["effect", "key", "value"]
)
def test_a_changed_effect_of_a_taint_rule_resets_time_added_since_1_36(
    version: Version, taint: JsonObject
) -> None:
    on = "DRADeviceTaintRules" if version >= V1_35 else "DRADeviceTaints"
    rule = get_stored(_rule("v1alpha3", **taint), on, version=version, old=_rule("v1alpha3"))
    now = rule["spec"]["taint"]["timeAdded"] != _LONG_AGO
    assert now == ("effect" in taint and version >= V1_36)


def test_a_client_may_set_time_added_when_it_changes_a_taint_rule() -> None:
    later = "2026-02-01T00:00:00Z"
    rule = get_stored(_rule("v1", effect="NoExecute", timeAdded=later), old=_rule("v1"))
    assert rule["spec"]["taint"]["timeAdded"] == later


@each_case(("kind", "path"), [("ResourceClaim", "spec"), ("ResourceClaimTemplate", "spec.spec")])
@each_case("version", VERSIONS, ids=str)
def test_1_34_checks_specs_twice_when_they_change(version: Version, kind: str, path: str) -> None:
    found = errors(_claim(_TOO_LONG, kind), version=version, old=_claim("a", kind))
    again = [field for _, field, text in found if _NOT_A_NAME in text]
    once = int(kind == "ResourceClaimTemplate")
    assert again == [f"{path}.devices.requests[0].name"] * (2 if version == V1_34 else once)
    assert ("FieldValueInvalid", "spec") in [(reason, field) for reason, field, _ in found]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_1_34_checks_classes_twice_when_they_change(version: Version) -> None:
    def of(expression: str) -> JsonObject:
        selectors = [{"cel": {"expression": expression}}]
        meta = {"name": "c", "uid": "u", "resourceVersion": "1"}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": meta,
            "spec": {"selectors": selectors},
        }

    found = errors(of("nothing"), version=version, old=of("true"))
    assert len(found) == (2 if version == V1_34 else 1)


def test_limits_of_new_fields_apply_even_if_beta_declarative_validation_is_off() -> None:
    derived = [{"name": f"example.com/a{index}", "expression": "1"} for index in range(33)]
    exactly = {"deviceClassName": "gpu", "derivedAttributes": derived}
    constraints = [{"matchAttribute": one["name"]} for one in derived[:32]]
    obj = _claim("a")
    obj["metadata"] = {"name": "c", "namespace": "default"}
    obj["spec"] = {"devices": {"requests": [{"name": "a", "exactly": exactly}], "constraints": constraints}}
    too_many = "spec.devices.requests[0].exactly.derivedAttributes"
    for off in ((), ("DeclarativeValidationBeta",)):
        found = errors(obj, "DRADerivedAttributes", off=off)
        assert ("FieldValueTooMany", too_many) in [(reason, field) for reason, field, _ in found]


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
def test_an_invalid_effect_of_a_taint_rule_has_the_declared_message_since_1_37(version: Version) -> None:
    rule = _rule("v1alpha3", effect="Never")
    rule["metadata"] = {"name": "r"}
    found = errors(rule, "DRADeviceTaintRules", version=version)
    known = '"NoExecute", "NoSchedule", "None"'
    expected = f'Unsupported value: "Never": supported values: {known}'
    assert found == [("FieldValueNotSupported", "spec.taint.effect", expected)]


@pytest.mark.parametrize(("api", "refused"), [("v1", True), ("v1beta2", False), ("v1alpha3", False)])
def test_an_update_of_a_v1_taint_rule_must_name_its_resource_version(api: str, refused: bool) -> None:
    changed = _rule(api, value="v")
    del changed["metadata"]["resourceVersion"]
    found = errors(changed, old=_rule(api))
    text = "Invalid value: 0: must be specified for an update"
    assert found == ([("FieldValueInvalid", "metadata.resourceVersion", text)] if refused else [])
