"""Test that invalid definitions are rejected. The texts are those of kube-apiserver 1.36.2."""

from typing import Any

from dra_apiserver.kinds.custom.checks import check_definition, definition_name
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

PATH = "spec.validation.openAPIV3Schema"
A = f"{PATH}.properties[spec].properties[a]"


def definition(
    schema: JsonObject | None = None, version: JsonObject | None = None, **spec: Any
) -> JsonObject:
    one = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or {"type": "object"}},
        **(version or {}),
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [one],
            "conversion": {"strategy": "None"},
            **spec,
        },
        "status": {"storedVersions": ["v1"]},
    }


def with_a(schema: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": schema}}},
    }


def problems(obj: JsonObject, old: JsonObject | None = None) -> list[str]:
    return [str(error) for error in check_definition(obj, old)]


def with_rule(**rule: Any) -> JsonObject:
    return with_a({"type": "string", "maxLength": 10, "x-kubernetes-validations": [rule]})


@each_case(
    ("schema", "expected"),
    [
        ({"type": "object"}, []),
        ({"type": "string"}, [f'{PATH}.type: Invalid value: "string": must be object at the root']),
        (with_a({}), [f"{A}.type: Required value: must not be empty for specified object fields"]),
        (with_a({"type": "array"}), [f"{A}.items: Required value: must be specified"]),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            [f"{PATH}.additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            with_a({"type": "string", "anyOf": [{"type": "string"}]}),
            [f"{A}.anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            with_a({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            [],
        ),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "description": "x"}}},
            [
                f"{PATH}.properties[metadata]: Forbidden: must not specify anything other than name and "
                "generateName, but metadata is implicitly specified"
            ],
        ),
        (
            with_a({"type": "foo", "uniqueItems": True}),
            [
                f'{A}.type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", '
                '"object", "string"',
                f"{A}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
                "quadratic",
            ],
        ),
        (
            with_a(
                {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                }
            ),
            [
                f"{A}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so "
                "it must have a default or be a required property"
            ],
        ),
        (
            with_a({"type": "integer", "default": "x"}),
            [f'{A}.default: Invalid value: "string":  in body must be of type integer: "string"'],
        ),
        (
            with_a({"type": "object", "default": {"b": 1}}),
            [f'{A}.default: Invalid value: {{"b":1}}: must not have unknown fields'],
        ),
        (with_rule(rule="self == 'a'"), []),
        (
            with_rule(rule="foo"),
            [
                f'{A}.x-kubernetes-validations[0].rule: Invalid value: {{"Rule":"foo","Message":"",'
                '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: '
                "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^"
            ],
        ),
        (
            with_rule(rule="self"),
            [
                f'{A}.x-kubernetes-validations[0].rule: Invalid value: {{"Rule":"self","Message":"",'
                '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must '
                "evaluate to a bool"
            ],
        ),
        (
            with_rule(rule="true", messageExpression="1"),
            [
                f'{A}.x-kubernetes-validations[0].messageExpression: Invalid value: {{"Rule":"true","Message":"",'
                '"MessageExpression":"1","Reason":null,"FieldPath":"","OptionalOldSelf":null}: messageExpression must '
                "evaluate to a string"
            ],
        ),
        (
            with_rule(rule="true", reason="Other", fieldPath=".x"),
            [
                f'{A}.x-kubernetes-validations[0].reason: Unsupported value: "Other": supported values: '
                '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
                f'{A}.x-kubernetes-validations[0].fieldPath: Invalid value: ".x": must be a valid path',
            ],
        ),
        (
            with_a(
                {
                    "type": "array",
                    "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                }
            ),
            [
                f'{A}.items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used '
                f"on the uncorrelatable portion of the schema within {A}"
            ],
        ),
    ],
)
def test_invalid_schemas_of_custom_kinds_are_rejected(schema: JsonObject, expected: list[str]) -> None:
    assert problems(definition(schema)) == expected


@each_case(
    ("obj", "expected"),
    [
        (
            definition(group="foo"),
            ['spec.group: Invalid value: "foo": should be a domain with at least one dot'],
        ),
        (
            definition(scope="Foo"),
            ['spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"'],
        ),
        (
            definition(version={"schema": None}),
            ["spec.versions[0].schema.openAPIV3Schema: Required value"],
        ),
        (
            definition(version={"deprecationWarning": "x"}),
            [
                'spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions'
            ],
        ),
        (
            definition(version={"storage": False}),
            [
                'spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,'
                '"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,'
                '"SelectableFields":null}]: must have exactly one version marked as storage version'
            ],
        ),
        (
            definition(
                version={"subresources": {"scale": {"specReplicasPath": ".x", "statusReplicasPath": ""}}}
            ),
            [
                'spec.subresources.scale.specReplicasPath: Invalid value: ".x": should be a json path under .spec',
                "spec.subresources.scale.statusReplicasPath: Required value",
            ],
        ),
        (
            definition(version={"additionalPrinterColumns": [{"name": "a", "type": "x", "jsonPath": "b"}]}),
            [
                'spec.additionalPrinterColumns[0].type: Invalid value: "x": must be one of '
                "boolean,date,integer,number,string",
                'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "b": must be a simple json path starting '
                "with .",
            ],
        ),
        (
            definition(version={"selectableFields": [{"jsonPath": ".spec.a"}]}),
            [
                'spec.selectableFields[0].jsonPath: Invalid value: ".spec.a": is an invalid path: does not refer to a '
                "valid field"
            ],
        ),
        (
            definition(conversion={"strategy": "Webhook"}),
            [
                "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
                "spec.conversion.conversionReviewVersions: Required value",
            ],
        ),
    ],
)
def test_invalid_custom_resource_definitions_are_rejected(obj: JsonObject, expected: list[str]) -> None:
    assert problems(obj) == expected


def test_invalid_names_in_a_custom_resource_definition_are_rejected() -> None:
    assert definition_name(definition()) == []
    wrong = definition() | {"metadata": {"name": "other.example.com"}}
    assert definition_name(wrong) == ['must be spec.names.plural+"."+spec.group']
    names = {"plural": "Widgets", "singular": "widget", "kind": "Widget", "listKind": "Widget"}
    assert problems(definition(names=names)) == [
        'spec.names.plural: Invalid value: "Widgets": a DNS-1035 label must consist of lower case alphanumeric '
        "characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. "
        "'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        'spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same',
    ]


def test_scope_and_storage_versions_of_stored_objects_cannot_change() -> None:
    old = definition()
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    assert problems(definition(scope="Cluster"), old) == [
        'spec.scope: Invalid value: "Cluster": field is immutable'
    ]
    renamed = definition(version={"name": "v2"})
    renamed["status"]["storedVersions"] = ["v1", "v2"]
    assert problems(renamed, old)[0].startswith(
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version'
    )


def test_validation_rules_cannot_call_functions_of_device_selectors() -> None:
    (expected,) = problems(definition(with_rule(rule="self.includes('a')")))
    assert "undeclared reference to 'includes' (in container '')" in expected
