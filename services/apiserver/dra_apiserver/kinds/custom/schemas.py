"""Validate a definition's schema and compile its rules (ValidateCustomResourceDefinitionOpenAPISchema)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dra_apiserver.common.lists import find_repeated
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field, not_supported
from dra_apiserver.kinds.custom.fieldpaths import PathError, follow
from dra_apiserver.kinds.custom.rules import compile_own
from dra_apiserver.kinds.custom.schemadefaults import check_defaults
from dra_apiserver.kinds.custom.structural import check_structural

Schema = Mapping[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META = frozenset({"metadata", "kind", "apiVersion"})
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_UNSUPPORTED = (
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
)
# Go's names for the fields of a rule that is printed as a whole.
_SHOWN = {
    "rule": "Rule",
    "message": "Message",
    "messageExpression": "MessageExpression",
    "reason": "Reason",
    "fieldPath": "FieldPath",
    "optionalOldSelf": "OptionalOldSelf",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A position in the schema, with the restrictions that apply there."""

    root: bool = False
    in_metadata: bool = False
    no_defaults: str = ""
    uncorrelated: str = ""
    rules: bool = True


def check_schema(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of a whole schema. Its rules are compiled if it is structural."""
    errors: list[FieldError] = []
    if schema.get("nullable"):
        errors.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    structural = check_structural(schema, path)
    errors += structural or check_defaults(schema, path)
    found, rules = _check(schema, path, _Place(root=True, rules=not errors))
    return [*errors, *found, *rules]


def _check(schema: Schema, path: str, place: _Place) -> tuple[list[FieldError], list[FieldError]]:
    """Return the errors of the schema and those of its rules, here and below."""
    errors, rules = list(_check_standard_fields(schema, path, place)), list[FieldError]()
    for below, at, there in _below(schema, path, place):
        found, compiled = _check(below, at, there)
        errors += found
        rules += compiled
    errors += _extensions(schema, path)
    errors += _map_keys(schema, path)
    declared = schema.get("x-kubernetes-validations") or ()
    for index, rule in enumerate(declared):
        errors += _check_rule(schema, rule, f"{path}.x-kubernetes-validations[{index}]")
    if declared and not errors and place.rules:
        rules += _compile(schema, path, place)
    return errors, rules


def _check_standard_fields(schema: Schema, path: str, place: _Place) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if place.no_defaults and schema.get("default") is not None:
        yield forbidden_field(f"{path}.default", f"must not be set {place.no_defaults}")
    for name, text in _UNSUPPORTED:
        if schema.get(name):
            yield forbidden_field(f"{path}.{name}", text)
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield forbidden_field(f"{path}.type", text)
    if isinstance(schema.get("items"), list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if place.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        text = "must not be used inside of resource meta"
        yield forbidden_field(f"{path}.x-kubernetes-embedded-resource", text)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", text)
    extra = schema.get("additionalProperties")
    if schema.get("properties") and extra is not None and extra is not True:
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", text)


def _below(schema: Schema, path: str, place: _Place) -> Iterator[tuple[Schema, str, _Place]]:
    inner = replace(place, root=False)
    extra, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(extra, Mapping):
        reason = "inside additionalProperties applying to object metadata"
        there = replace(inner, no_defaults=reason) if place.in_metadata else inner
        yield extra, f"{path}.additionalProperties", there
    for name, below in (schema.get("properties") or {}).items():
        there = inner
        if name in _META and (place.root or schema.get("x-kubernetes-embedded-resource")):
            there = replace(there, in_metadata=True)
            if place.root:
                there = replace(there, no_defaults=f"in top-level {name}")
        yield below, f"{path}.properties[{name}]", there
    nested = replace(inner, rules=False)
    if schema.get("not") is not None:
        yield schema["not"], f"{path}.not", nested
    for name in ("allOf", "oneOf", "anyOf"):
        for index, below in enumerate(schema.get(name) or ()):
            yield below, f"{path}.{name}[{index}]", nested
    if isinstance(items, Mapping):
        there = inner
        if schema.get("x-kubernetes-list-type") != "map":
            there = replace(there, uncorrelated=there.uncorrelated or path)
        yield items, f"{path}.items", there


def _extensions(schema: Schema, path: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    for name, wanted, allowed in (
        ("x-kubernetes-map-type", "object", ("atomic", "granular")),
        ("x-kubernetes-list-type", "array", ("atomic", "set", "map")),
    ):
        value = schema.get(name)
        if value is None:
            continue
        if kind != wanted:
            text = f"must be {wanted} if {name} is specified"
            yield invalid(f"{path}.type", kind, text) if kind else missing_field(f"{path}.type", text)
        elif value == "set":
            yield from _check_set(schema.get("items") or {}, path)
        if value not in allowed:
            yield not_supported(f"{path}.{name}", value, allowed)


def _check_set(items: Schema, path: str) -> Iterator[FieldError]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    shown = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and shown not in (None, "atomic"):
        yield invalid(f"{path}.items.x-kubernetes-list-type", shown, text)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.items.x-kubernetes-map-type", shown, text)


def _map_keys(schema: Schema, path: str) -> Iterator[FieldError]:
    """Check the keys of lists of type map: they are properties of the items, and each has a value."""
    keys, form, items = (
        schema.get("x-kubernetes-list-map-keys") or (),
        schema.get("x-kubernetes-list-type"),
        schema.get("items"),
    )
    at = f"{path}.x-kubernetes-list-map-keys"
    if keys and form != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        there = f"{path}.x-kubernetes-list-type"
        yield invalid(there, form, text) if form else missing_field(there, text)
    if form == "map" and not keys:
        yield missing_field(at, "must not be empty if x-kubernetes-list-type is map")
    if form == "map" and items is None:
        yield missing_field(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if form in ("map", "set") and isinstance(items, Mapping):
        yield from _map_items(keys, form, items, path)


def _map_items(keys: Sequence[str], form: str, items: Schema, path: str) -> Iterator[FieldError]:
    """Check the items of a list of type map or set."""
    properties, kind = items.get("properties") or {}, items.get("type") or ""
    at = f"{path}.x-kubernetes-list-map-keys"
    if form == "map" and kind != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", kind, text)
    elif form == "map":
        again = find_repeated(keys)
        for index, key in enumerate(keys):
            if key not in properties:
                yield invalid(at, keys, "entries must all be names of item properties")
            elif properties[key].get("type") in ("array", "object"):
                text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield invalid(f"{path}.items.properties[{key}].type", kind, text)
            if index in again:
                yield invalid(at, keys, "must not contain duplicate entries")
    if items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {form}"
        yield forbidden_field(f"{path}.items.nullable", text)
    for key in keys if form == "map" else ():
        found, there = properties.get(key), f"{path}.items.properties[{key}]"
        part = "this property is in x-kubernetes-list-map-keys, so it"
        if found is None:
            continue
        if key not in (items.get("required") or ()) and found.get("default") is None:
            yield missing_field(f"{there}.default", f"{part} must have a default or be a required property")
        if found.get("nullable"):
            yield forbidden_field(f"{there}.nullable", f"{part} cannot be nullable")


def _check_rule(schema: Schema, rule: Schema, path: str) -> Iterator[FieldError]:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    expression, field = rule.get("messageExpression") or "", rule.get("fieldPath") or ""
    empty, broken = "must be non-empty if specified", "must not contain line breaks"
    if not text:
        yield missing_field(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, empty)
    elif _lines(message.strip()):
        yield invalid(f"{path}.message", message, broken)
    elif _lines(text) and not message.strip():
        yield missing_field(f"{path}.message", "message must be specified if rule contains line breaks")
    if expression and not expression.strip():
        yield missing_field(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    if field and not field.strip():
        yield invalid(f"{path}.fieldPath", field, empty)
    if _lines(field):
        yield invalid(f"{path}.fieldPath", field, broken)
    if field and not _leads_somewhere(schema, field):
        yield invalid(f"{path}.fieldPath", field, "must be a valid path")


def _leads_somewhere(schema: Schema, field: str) -> bool:
    """True if the path names a field of the schema."""
    try:
        follow(field, schema)
    except PathError:
        return False
    return True


def _lines(text: str) -> bool:
    return re.search(r"[\n\r]", text) is not None


def _compile(schema: Schema, path: str, place: _Place) -> Iterator[FieldError]:
    for index, one in enumerate(compile_own(schema, root=place.root)):
        at, source = f"{path}.x-kubernetes-validations[{index}]", one.source
        shown = {go: source.get(name, _EMPTY.get(name)) for name, go in _SHOWN.items()}
        if one.rule is None:
            yield invalid(f"{at}.rule", shown, one.problem)
        if one.message_problem:
            yield invalid(f"{at}.messageExpression", shown, one.message_problem)
        if one.rule is not None and "oldSelf" in one.rule.mentioned:
            if place.uncorrelated:
                text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
                yield invalid(f"{at}.rule", source.get("rule", ""), text)
        elif one.rule is not None and source.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{at}.optionalOldSelf", source["optionalOldSelf"], text)


_EMPTY = {"message": "", "messageExpression": "", "fieldPath": "", "reason": None, "optionalOldSelf": None}
