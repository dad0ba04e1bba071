"""Check that a definition's schema is structural (apiextensions-apiserver's pkg/apiserver/schema)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dra_shared.cel.library.patterns import RegexError, compile_regex

from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field

Schema = Mapping[str, Any]

_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_EITHER = "x-kubernetes-int-or-string"
# Fields that a schema below allOf, anyOf, oneOf or not must not have, with their messages.
_NOT_NESTED = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (_PRESERVE, "must be false to be structural"),
    (_EMBEDDED, "must be false to be structural"),
    (_EITHER, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def check_structural(schema: Schema, path: str) -> list[FieldError]:
    """Return the reasons why a whole schema is not structural, in the order of the messages."""
    # Upstream checks that fields in junctors are specified only for the root's junctors.
    return sorted((*_invariants(schema, _ROOT, path), *_find_uncovered(schema, schema, path, path)), key=str)


def _properties(schema: Schema) -> Mapping[str, Schema]:
    return schema.get("properties") or {}


def _invariants(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    items, extra, kind = schema.get("items"), schema.get("additionalProperties"), schema.get("type") or ""
    if kind == "array" and items is None:
        yield missing_field(f"{path}.items", "must be specified")
    if isinstance(items, Mapping):
        yield from _invariants(items, _ITEM, f"{path}.items")
    for name, below in _properties(schema).items():
        yield from _invariants(below, _FIELD, f"{path}.properties[{name}]")
    if extra is not None and level == _ROOT:
        yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(extra, Mapping):
        yield from _invariants(extra, _FIELD, f"{path}.additionalProperties")
    if schema.get(_EITHER):
        for name in (_PRESERVE, _EMBEDDED):
            if schema.get(name):
                yield invalid(f"{path}.{name}", True, f"must be false if {_EITHER} is true")
    first = (schema.get("allOf") or [{}])[0].get("anyOf")
    yield from _values(schema, path, schema.get("anyOf") == _INT_OR_STRING, first == _INT_OR_STRING)
    yield from _kind(schema, kind, level, path)
    yield from _metadata(schema, level, path)


def _kind(schema: Schema, kind: str, level: str, path: str) -> Iterator[FieldError]:
    at, embedded = f"{path}.type", schema.get(_EMBEDDED)
    if embedded and kind != "object":
        text = f"must be object if {_EMBEDDED} is true"
        yield invalid(at, kind, text) if kind else missing_field(at, text)
    elif not kind and not schema.get(_EITHER) and not schema.get(_PRESERVE):
        yield missing_field(at, f"must not be empty {level}")
    if embedded and schema.get("additionalProperties") is not None:
        text = f"must not be used if {_EMBEDDED} is set"
        yield forbidden_field(f"{path}.additionalProperties", text)
    if level == _ROOT and kind and kind != "object":
        yield invalid(at, kind, "must be object at the root")
    if embedded and not schema.get(_PRESERVE) and not _properties(schema):
        text = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        yield missing_field(f"{path}.properties", text)


def _metadata(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    properties = _properties(schema)
    whole = level == _ROOT or schema.get(_EMBEDDED)
    for name in ("kind", "apiVersion"):
        kind = properties.get(name, {}).get("type") or ""
        if whole and name in properties and kind != "string":
            yield invalid(f"{path}.properties[{name}].type", kind, "must be string")
    if "metadata" not in properties:
        return
    metadata, at = properties["metadata"], f"{path}.properties[metadata]"
    if whole and metadata.get("type") != "object":
        yield invalid(f"{at}.type", metadata.get("type") or "", "must be object")
    if level == _ROOT:
        members = _properties(metadata).keys()
        others = metadata.keys() - {"type", "default"}
        if others - {"properties"} or not members <= {"name", "generateName"}:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden_field(at, text)


def _values(schema: Schema, path: str, any_is_known: bool, first_is_known: bool) -> Iterator[FieldError]:
    """Yield the errors in and below the schema's junctors."""
    for name, skipped in (("anyOf", any_is_known), ("allOf", False), ("oneOf", False)):
        for index, one in enumerate(() if skipped else schema.get(name) or ()):
            known = name == "allOf" and index == 0 and first_is_known
            yield from _check_nested(one, f"{path}.{name}[{index}]", known)
    if schema.get("not") is not None:
        yield from _check_nested(schema["not"], f"{path}.not", False)
    if schema.get("pattern"):
        try:
            compile_regex(schema["pattern"])
        except RegexError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", schema["pattern"], text)


def _check_nested(schema: Schema, path: str, any_is_known: bool) -> Iterator[FieldError]:
    yield from _values(schema, path, any_is_known, False)
    if isinstance(schema.get("items"), Mapping):
        yield from _check_nested(schema["items"], f"{path}.items", False)
    for name, below in _properties(schema).items():
        yield from _check_nested(below, f"{path}.properties[{name}]", False)
    if schema.get("type"):
        yield forbidden_field(f"{path}.type", "must be empty to be structural")
    if schema.get("additionalProperties") is not None:
        yield forbidden_field(f"{path}.additionalProperties", "must be undefined to be structural")
    for name, text in _NOT_NESTED:
        if schema.get(name) or (name == "default" and schema.get(name) is not None):
            yield forbidden_field(f"{path}.{name}", text)
    if "metadata" in _properties(schema):
        yield forbidden_field(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _find_uncovered(nested: Schema, schema: Schema, path: str, where: str) -> Iterator[FieldError]:
    """Check that fields in junctors are also in the schema itself."""
    if nested.get("not") is not None:
        yield from _covered_below(nested["not"], schema, path, f"{where}.not")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, one in enumerate(nested.get(name) or ()):
            yield from _covered_below(one, schema, path, f"{where}.{name}[{index}]")


def _covered_below(nested: Schema, schema: Schema, path: str, where: str) -> Iterator[FieldError]:
    yield from _find_uncovered(nested, schema, path, where)
    if isinstance(nested.get("items"), Mapping):
        if isinstance(schema.get("items"), Mapping):
            yield from _covered_below(nested["items"], schema["items"], f"{path}.items", f"{where}.items")
        else:
            yield missing_field(f"{path}.items", f"because it is defined in {where}.items")
    known = _properties(schema)
    for name, below in _properties(nested).items():
        at, there = f"{path}.properties[{name}]", f"{where}.properties[{name}]"
        if name in known:
            yield from _covered_below(below, known[name], at, there)
        else:
            yield missing_field(at, f"because it is defined in {there}")
