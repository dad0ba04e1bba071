"""Test that every served version of a kind means the same as the stored one."""

import copy
import gzip
import json
from typing import Any

import pytest
from dra_apiserver import schema
from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.schema.types import Field, ListNode, MapNode, Node, Struct, object_type
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case
from tests.support.reference import reference_path

REGISTRY = catalog.registry("api/all=true")


def kind_of(group: str, plural: str) -> Kind:
    kind = REGISTRY.get(group, plural)
    assert kind is not None
    return kind


def shape(node: Node, seen: tuple[str, ...] = ()) -> Any:
    if isinstance(node, Struct):
        if node.name and node.name in seen:
            return "recursive"
        here = (*seen, node.name)
        return {name: member_shape(member, here) for name, member in sorted(node.fields.items())}
    if isinstance(node, ListNode):
        return [shape(node.item, seen)]
    if isinstance(node, MapNode):
        return {"*": shape(node.value, seen)}
    return node


def member_shape(member: Field, seen: tuple[str, ...]) -> Any:
    return shape(member.node, seen)


def plain_kinds() -> list[Any]:
    return [
        pytest.param(kind, version, id=f"{kind.qualified_name}-{version}")
        for kind in REGISTRY
        for version in kind.versions
        if kind.is_stored and version != kind.storage_version and version not in kind.conversions
    ]


@each_case(("kind", "version"), plain_kinds())
def test_api_versions_without_a_converter_have_the_same_fields_as_the_stored_one(
    kind: Kind, version: str
) -> None:
    assert shape(object_type(kind, version)) == shape(object_type(kind, kind.storage_version))


@each_case("version", ["v1beta1", "v1beta2"])
@each_case("plural", ["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"])
def test_recorded_objects_convert_as_the_real_server_does(plural: str, version: str) -> None:
    def load_recorded(name: str) -> JsonObject:
        found: JsonObject = json.loads(
            reference_path("golden", "e2e", f"65-raw-{name}-{plural}.json").read_text()
        )
        return found

    kind = kind_of("resource.k8s.io", plural)
    stored, expected = load_recorded("v1")["items"], load_recorded(version)["items"]
    for ours, theirs in zip(stored, expected, strict=True):
        made = convert(kind, {"kind": kind.kind, **copy.deepcopy(ours)}, version)
        assert {key: value for key, value in made.items() if key not in ("apiVersion", "kind")} == theirs
        back = to_storage(kind, copy.deepcopy(made), version)
        assert {key: value for key, value in back.items() if key not in ("apiVersion", "kind")} == ours


def random_objects() -> list[Any]:
    """Return stored objects of the recorded validation cases: many shapes, valid or not."""
    cases = []
    path = reference_path("vectors", "random-validate.jsonl.gz")
    with gzip.open(path, "rb") as file:
        for index, line in enumerate(file):
            if index % 7 == 0:
                cases.append(json.loads(line)["in"])
    return cases


def test_random_objects_survive_the_round_trip_through_v1beta1() -> None:
    tried = 0
    for case in random_objects():
        obj = case["object"]
        kind = REGISTRY.kind("resource.k8s.io", "v1", obj["kind"])
        if kind is None or "v1beta1" not in kind.versions:
            continue
        try:
            schema.sanitize(schema.object_type(kind, "v1"), obj)
        except schema.DecodeError:
            continue
        schema.default(kind, "v1", obj)
        before = copy.deepcopy(obj)
        there = convert(kind, obj, "v1beta1")
        assert schema.sanitize(schema.object_type(kind, "v1beta1"), there, "Warn") == []
        schema.default(kind, "v1beta1", there)
        assert to_storage(kind, there, "v1beta1") == before
        tried += 1
    assert tried > 50


def test_flat_requests_of_v1beta1_are_converted_to_exactly_of_v1() -> None:
    kind = kind_of("resource.k8s.io", "resourceclaims")
    claim = {
        "spec": {
            "devices": {
                "requests": [
                    {"name": "a", "deviceClassName": "c", "count": 2, "allocationMode": "ExactCount"},
                    {
                        "name": "b",
                        "deviceClassName": "",
                        "firstAvailable": [{"name": "s", "deviceClassName": "d"}],
                    },
                ]
            }
        }
    }
    made = to_storage(kind, copy.deepcopy(claim), "v1beta1")
    first, second = made["spec"]["devices"]["requests"]
    assert first["exactly"] == {"deviceClassName": "c", "count": 2, "allocationMode": "ExactCount"}
    assert "exactly" not in second
    assert convert(kind, made, "v1beta1")["spec"] == claim["spec"]


def test_events_move_between_groups_and_back() -> None:
    kind = kind_of("events.k8s.io", "events")
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-11-20T15:25:40.000000Z",
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "text",
        "reason": "R",
        "type": "Normal",
        "reportingController": "c",
        "reportingInstance": "i",
        "action": "A",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }
    stored = to_storage(kind, copy.deepcopy(event), "v1")
    assert stored["apiVersion"] == "v1"
    assert stored["involvedObject"] == {"kind": "Pod", "name": "p"}
    assert stored["message"] == "text"
    assert stored["reportingComponent"] == "c"
    assert stored["source"] == {}
    back = convert(kind, stored, "v1")
    assert back.pop("apiVersion") == "events.k8s.io/v1"
    assert back == event


def test_autoscalers_keep_fields_that_v1_lacks() -> None:
    kind = kind_of("autoscaling", "horizontalpodautoscalers")
    memory = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization"}}}
    cpu = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
    }
    stored = {
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "metrics": [cpu, memory], "behavior": {"scaleDown": {}}},
        "status": {},
    }
    schema.default(kind, "v2", stored)
    old = convert(kind, copy.deepcopy(stored), "v1")
    assert old["spec"]["targetCPUUtilizationPercentage"] == 70
    assert "metrics" not in old["spec"]
    assert old["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    back = to_storage(kind, old, "v1")
    assert back["spec"] == stored["spec"]
    assert back["metadata"] == stored["metadata"]
