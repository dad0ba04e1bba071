"""Test custom kinds: their definition, the acceptance of names, and the validation of objects."""

import copy
from typing import Any

import orjson
import pytest
from dra_apiserver.errors import ErrorType
from dra_apiserver.kinds.custom.definitions import (
    accepted_status,
    is_established,
    kind_of_definition,
    set_definition_defaults,
)
from dra_apiserver.kinds.custom.validation import validate_custom
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case
from tests.support.work import Step, counted_strings, is_quadratic

DEFINITION: JsonObject = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
            "shortNames": ["wg"],
            "categories": ["all"],
        },
        "versions": [
            {"name": "v1alpha1", "served": False, "storage": False, "schema": {}},
            {"name": "v1beta1", "served": True, "storage": False, "deprecated": True, "schema": {}},
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            },
        ],
    },
}


def test_the_kind_of_a_definition_has_its_versions_and_subresources() -> None:
    kind = kind_of_definition(DEFINITION)
    assert kind is not None
    assert kind.versions == ("v1", "v1beta1")
    assert kind.storage_version == "v1"
    assert kind.storage == ("example.com", "widgets")
    assert set(kind.subresources) == {"status", "scale"}
    assert kind.scale is not None
    assert kind.scale.spec_replicas == "spec.size"
    assert kind.field_selection.fields["spec.color"].value({"spec": {"color": "red"}}) == "red"
    assert kind.deprecated == {"v1beta1": "example.com/v1beta1 Widget is deprecated"}
    assert [column.name for column in kind.printers["v1"].columns] == ["Name", "Size"]


def test_a_definition_without_served_versions_adds_no_kind() -> None:
    quiet = copy.deepcopy(DEFINITION)
    for version in quiet["spec"]["versions"]:
        version["served"] = False
    assert kind_of_definition(quiet) is None


def test_accepted_names_of_a_definition_stay_accepted_with_the_same_status() -> None:
    status = accepted_status(DEFINITION, [], "T1")
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert status["acceptedNames"] == DEFINITION["spec"]["names"]
    assert status["storedVersions"] == ["v1"]
    accepted = {**DEFINITION, "status": status}
    assert is_established(accepted)
    assert accepted_status(accepted, [], "T2") == status


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"shortNames": ["widget"]}, "ShortNamesConflict"), ({"kind": "Widget"}, "KindConflict")],
)
def test_names_of_another_kind_are_not_accepted(changes: JsonObject, reason: str) -> None:
    taken = kind_of_definition(DEFINITION)
    assert taken is not None
    other = copy.deepcopy(DEFINITION)
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    other["spec"]["names"] = names | changes
    status = accepted_status(other, [taken], "T1")
    assert status["conditions"][0]["reason"] == reason
    assert not is_established({"status": status})


SCHEMA: JsonObject = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                "color": {"type": "string", "enum": ["red", "green"]},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2},
                "port": {"x-kubernetes-int-or-string": True},
                "note": {"type": "string", "nullable": True},
                "parts": {
                    "type": "array",
                    "maxItems": 2,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                },
                "tags": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1},
            },
        }
    },
}


@each_case(
    ("spec", "errors"),
    [
        ({"size": 3, "color": "red", "name": "abc", "port": "http", "note": None}, []),
        ({}, [(ErrorType.REQUIRED, "spec.size")]),
        ({"size": "x"}, [(ErrorType.TYPE_INVALID, "spec.size")]),
        ({"size": True}, [(ErrorType.TYPE_INVALID, "spec.size")]),
        ({"size": 0}, [(ErrorType.INVALID, "spec.size")]),
        ({"size": 10}, [(ErrorType.INVALID, "spec.size")]),
        ({"size": 1, "ratio": 0}, [(ErrorType.INVALID, "spec.ratio")]),
        ({"size": 1, "color": "blue"}, [(ErrorType.NOT_SUPPORTED, "spec.color")]),
        ({"size": 1, "name": "A1"}, [(ErrorType.INVALID, "spec.name")]),
        ({"size": 1, "name": "abcdef"}, [(ErrorType.TOO_LONG, "spec.name")]),
        ({"size": 1, "name": "a"}, [(ErrorType.INVALID, "spec.name")]),
        ({"size": 1, "port": 1.5}, [(ErrorType.TYPE_INVALID, "spec.port")]),
        ({"size": 1, "parts": [{"name": "a"}, {"name": "a"}]}, [(ErrorType.DUPLICATE, "spec.parts[1]")]),
        ({"size": 1, "parts": [{}, {"name": 1}]}, [(ErrorType.TYPE_INVALID, "spec.parts[1].name")]),
        ({"size": 1, "parts": [{"name": c} for c in "abc"]}, [(ErrorType.TOO_MANY, "spec.parts")]),
        ({"size": 1, "tags": {"a": 1}}, [(ErrorType.TYPE_INVALID, "spec.tags.a")]),
        ({"size": 1, "tags": {"a": "", "b": ""}}, [(ErrorType.TOO_MANY, "spec.tags")]),
    ],
)
def test_custom_objects_are_validated_against_their_schema(spec: JsonObject, errors: list[Any]) -> None:
    found = validate_custom(SCHEMA, {"apiVersion": "example.com/v1", "kind": "Widget", "spec": spec})
    assert [(error.type, error.field) for error in found] == errors


def test_validation_errors_of_custom_objects_have_upstreams_messages() -> None:
    [error] = validate_custom(SCHEMA, {"spec": {"size": "x"}})
    assert (
        str(error)
        == 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'
    )
    [error] = validate_custom(SCHEMA, {"spec": {"size": 0}})
    assert str(error) == "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    [error] = validate_custom(SCHEMA, {"spec": {"size": 1, "color": "blue"}})
    assert str(error) == 'spec.color: Unsupported value: "blue": supported values: "red", "green"'


def _list_schema(kind: str, *keys: str) -> JsonObject:
    listed = {
        "type": "array",
        "x-kubernetes-list-type": kind,
        **({"x-kubernetes-list-map-keys": [*keys]} if keys else {}),
        "items": {"x-kubernetes-preserve-unknown-fields": True},
    }
    return {"properties": {"spec": {"properties": {"one": listed, "many": {"additionalProperties": listed}}}}}


@each_case(
    ("schema", "items", "errors"),
    [
        (_list_schema("set"), ["a", "b", "a", "a", "b"], [("[2]", "a"), ("[4]", "b")]),
        # In Go, two values are equal only if they have the same type.
        (_list_schema("set"), [1, 1.0, True, "1", None, 0, False], []),
        (_list_schema("set"), [1, None, 1, None], [("[2]", 1), ("[3]", None)]),
        (_list_schema("set"), [{"a": 1, "b": [2]}, {"b": [2], "a": 1}], [("[1]", {"a": 1, "b": [2]})]),
        (_list_schema("set"), [[1], [2], [1]], [("[2]", [1])]),
        (_list_schema("map", "k"), [{"k": "a", "v": 1}, {"k": "b"}, {"k": "a"}], [("[2]", {"k": "a"})]),
        (_list_schema("map", "k"), [{"k": 1}, {"k": "1"}, {"k": True}], []),
        (_list_schema("map", "k"), [{"v": 1}, None, {"k": None}, {}], [("[1]", {})]),
        (_list_schema("map", "k"), [{"k": ""}, 5, {"k": ""}], [("[1]", 5)]),
        (
            _list_schema("map", "k", "p"),
            [{"k": 1, "p": 2}, {"p": 2, "k": 1}, {"k": 1}],
            [("[1]", {"k": 1, "p": 2})],
        ),
        (_list_schema("map", "k", "p"), [{"k": 1}, {"k": 1, "v": 2}], [("[1]", {"k": 1})]),
        (_list_schema("atomic"), ["a", "a"], []),
    ],
    ids=str,
)
def test_duplicates_in_sets_and_maps_are_errors(
    schema: JsonObject, items: list[Any], errors: list[Any]
) -> None:
    found = validate_custom(schema, {"spec": {"one": items}})
    assert [(error.field, error.value) for error in found] == [
        (f"spec.one{at}", value) for at, value in errors
    ]
    below = validate_custom(schema, {"spec": {"many": {"x": items}}})
    assert [error.field for error in below] == [f"spec.many[x]{at}" for at, _ in errors]


def test_an_update_may_add_duplicates_if_the_old_object_has_duplicates() -> None:
    schema = _list_schema("set")
    new = {"spec": {"one": ["b", "b"]}}
    assert validate_custom(schema, new, {"spec": {"one": ["a", "a"]}}) == []
    assert len(validate_custom(schema, new, {"spec": {"one": ["a"]}})) == 1


@pytest.mark.parametrize("kind", ["set", "map"])
def test_the_work_for_a_set_or_map_grows_with_its_length(kind: str) -> None:
    schema = _list_schema(kind, *(["k"] if kind == "map" else []))

    def create_step(count: int) -> Step:
        names = [f"n{number}" for number in range(count)]
        text = orjson.dumps({"spec": {"one": [{"k": one} for one in names] if kind == "map" else names}})

        def check() -> None:
            old, new = orjson.loads(text), orjson.loads(text)
            new["spec"]["one"].reverse()
            assert validate_custom(schema, new, old) == []

        return check

    with counted_strings():
        assert not any(is_quadratic(create_step, length) for length in (8, 24, 64))


def test_null_members_of_a_schema_are_dropped() -> None:
    definition = copy.deepcopy(DEFINITION)
    schema = {"type": "object", "items": None, "properties": {"a": None, "b": {"default": None}}}
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    set_definition_defaults(definition, "v1", "")
    assert schema == {"type": "object", "properties": {"a": {}, "b": {}}}


def test_strategy_of_a_conversion_has_no_default() -> None:
    definition = copy.deepcopy(DEFINITION)
    definition["spec"]["conversion"] = {}
    set_definition_defaults(definition, "v1", "")
    assert definition["spec"]["conversion"] == {}
    del definition["spec"]["conversion"]
    set_definition_defaults(definition, "v1", "")
    assert definition["spec"]["conversion"] == {"strategy": "None"}
