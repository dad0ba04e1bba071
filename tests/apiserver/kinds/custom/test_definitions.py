"""Custom kinds: from their definition, its names' acceptance, and their objects' validation."""

import copy
from typing import Any

import pytest
from dra_apiserver.errors import ErrorType
from dra_apiserver.kinds.custom.definitions import (
    accepted_status,
    established,
    kind_of_definition,
)
from dra_apiserver.kinds.custom.validation import validate_custom

Object = dict[str, Any]

DEFINITION: Object = {
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


def test_the_kind_is_as_defined() -> None:
    kind = kind_of_definition(DEFINITION)
    assert kind is not None
    assert kind.versions == ("v1", "v1beta1")
    assert kind.storage_version == "v1"
    assert kind.storage == ("example.com", "widgets")
    assert set(kind.subresources) == {"status", "scale"}
    assert kind.scale is not None
    assert kind.scale.spec_replicas == "spec.size"
    assert kind.selectable_fields["spec.color"].value({"spec": {"color": "red"}}) == "red"
    assert kind.deprecated == {"v1beta1": "example.com/v1beta1 Widget is deprecated"}
    assert [column.name for column in kind.printers["v1"].columns] == ["Name", "Size"]


def test_a_definition_that_serves_nothing_has_no_kind() -> None:
    quiet = copy.deepcopy(DEFINITION)
    for version in quiet["spec"]["versions"]:
        version["served"] = False
    assert kind_of_definition(quiet) is None


def test_names_are_accepted_once() -> None:
    status = accepted_status(DEFINITION, [], "T1")
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert status["acceptedNames"] == DEFINITION["spec"]["names"]
    assert status["storedVersions"] == ["v1"]
    accepted = {**DEFINITION, "status": status}
    assert established(accepted)
    assert accepted_status(accepted, [], "T2") == status


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"shortNames": ["widget"]}, "ShortNamesConflict"), ({"kind": "Widget"}, "KindConflict")],
)
def test_names_of_another_kind_are_not_accepted(changes: Object, reason: str) -> None:
    taken = kind_of_definition(DEFINITION)
    assert taken is not None
    other = copy.deepcopy(DEFINITION)
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    other["spec"]["names"] = names | changes
    status = accepted_status(other, [taken], "T1")
    assert status["conditions"][0]["reason"] == reason
    assert not established({"status": status})


SCHEMA: Object = {
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


@pytest.mark.parametrize(
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
def test_objects_must_fit_their_schema(spec: Object, errors: list[Any]) -> None:
    found = validate_custom(SCHEMA, {"apiVersion": "example.com/v1", "kind": "Widget", "spec": spec})
    assert [(error.type, error.field) for error in found] == errors


def test_errors_read_as_upstreams() -> None:
    [error] = validate_custom(SCHEMA, {"spec": {"size": "x"}})
    assert (
        str(error)
        == 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'
    )
    [error] = validate_custom(SCHEMA, {"spec": {"size": 0}})
    assert str(error) == "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    [error] = validate_custom(SCHEMA, {"spec": {"size": 1, "color": "blue"}})
    assert str(error) == 'spec.color: Unsupported value: "blue": supported values: "red", "green"'
