"""Generating the schemas of one release keeps the parts that only other versions have."""

from __future__ import annotations

import copy
import json

import pytest
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_36, V1_37, VERSIONS, Version, release
from dra_shared.version.release import changes

from tools.schemas.__main__ import TARGET
from tools.schemas.kept import full_name, keep, keep_messages, kinds_of


def read_schemas() -> tuple[JsonObject, JsonObject, list[JsonObject]]:
    """Return the types and messages of all versions, and the kinds."""
    types = {file.stem: json.loads(file.read_text()) for file in TARGET.glob("io.*.json")}
    messages = json.loads((TARGET / "protobuf.json").read_text())
    return types, messages, json.loads((TARGET / "kinds.json").read_text())["kinds"]


def without_others(
    types: JsonObject, messages: JsonObject, kinds: list[JsonObject], version: Version
) -> tuple[JsonObject, JsonObject]:
    """Return the types and messages of one release, without fields of other versions and unreferenced types."""
    types, messages = copy.deepcopy(types), copy.deepcopy(messages)
    has = release(version)
    for package, name in changes("field"):
        type_name, _, field = name.partition(".")
        full = full_name(package)
        schema = types[full][type_name]
        if not has.has_field(package, type_name, field):
            del schema["properties"][field]
            for key in ("x-order", "required"):
                if key in schema and not (left := [one for one in schema[key] if one != field]):
                    del schema[key]
                elif key in schema:
                    schema[key] = left
            numbers = messages[full][type_name]
            messages[full][type_name] = {n: entry for n, entry in numbers.items() if entry[0] != field}
    served = {(e["group"], v) for e in kinds_of(kinds, version) for v in e["versions"]}
    dropped = {(e["group"], v) for e in kinds for v in e["versions"]} - served
    for group, name in dropped:
        package = f"io.k8s.api.{group.removesuffix('.k8s.io')}.{name}"
        types.pop(package, None)
        messages.pop(package, None)
    return types, messages


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_generating_the_schemas_of_one_version_keeps_those_of_other_versions(version: Version) -> None:
    types, messages, kinds = read_schemas()
    made, made_messages = without_others(types, messages, kinds, version)
    keep(made, types, kinds, version)
    keep_messages(made_messages, messages, made, version)
    assert made == types
    assert made_messages == messages


def test_stages_that_rules_get_in_newer_versions_are_kept() -> None:
    types, _, kinds = read_schemas()
    made = copy.deepcopy(types)
    requests = made["io.k8s.api.resource.v1"]["CapacityRequirements"]["properties"]["requests"]
    status = made["io.k8s.apimachinery.pkg.apis.meta.v1"]["Condition"]["properties"]["status"]
    assert requests.pop("x-rules") == [
        "standard(1.38): optional",
        "standard(1.38): maxProperties=32",
        "standard(1.38): eachVal: minimum=0",
    ]
    status["x-rules"] = ["alpha(1.37): required", "alpha(1.37): enum"]
    keep(made, types, kinds, V1_37)
    assert made == types


def test_types_of_a_newer_version_are_kept_with_their_field() -> None:
    types, _, kinds = read_schemas()
    made = copy.deepcopy(types)
    package = made["io.k8s.api.resource.v1alpha3"]
    del package["PoolStatus"]["properties"]["shareableSummary"]
    package["PoolStatus"]["x-order"].remove("shareableSummary")
    for name in ("ShareableSummaryStatus", "ShareableCapacityStatus"):
        del package[name]
    keep(made, types, kinds, V1_36)
    assert made == types


def test_a_field_that_the_version_removed_is_not_kept() -> None:
    """The release is authoritative for its own fields."""
    types, _, kinds = read_schemas()
    made = copy.deepcopy(types)
    del made["io.k8s.api.resource.v1"]["Device"]["properties"]["nodeAllocatableResources"]
    keep(made, types, kinds, V1_37)
    assert "nodeAllocatableResources" not in made["io.k8s.api.resource.v1"]["Device"]["properties"]


def test_the_kinds_of_each_version_are_stored_separately() -> None:
    kinds = [
        {
            "group": "scheduling.k8s.io",
            "plural": "workloads",
            "versions": ["v1beta1", "v1alpha2", "v1alpha1"],
        },
        {"group": "", "plural": "pods", "versions": ["v1"]},
    ]
    assert [entry["versions"] for entry in kinds_of(kinds, V1_36)] == [["v1alpha2"], ["v1"]]
    assert [entry["plural"] for entry in kinds_of(kinds, V1_34)] == ["pods"]
