"""Validate CustomResourceDefinitions (apiextensions-apiserver's pkg/apis/apiextensions/validation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_1035_label, dns_subdomain

from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field, not_supported
from dra_apiserver.kinds.admissionregistration.webhooks import check_client, check_reviews
from dra_apiserver.kinds.custom.fieldpaths import check_selectable
from dra_apiserver.kinds.custom.schemas import check_schema

Schema = Mapping[str, Any]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
# Parts that upstream treats as one field of all versions if they are equal in each.
_PARTS = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
# The fields that the root schema may have with a status subresource, in upstream's order.
_AT_ROOT = (
    "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
    "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items", "properties",
    "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
)  # fmt: skip
_GO = {
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
_MIXED = "may have mixed case, but should otherwise match: "


def definition_name(obj: JsonObject) -> list[str]:
    """Return the errors of a definition's name, in addition to the general rules for names."""
    spec = obj.get("spec") or {}
    wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
    given = (obj.get("metadata") or {}).get("name", "")
    return [] if given == wanted else ['must be spec.names.plural+"."+spec.group']


def check_definition(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a definition's spec and its stored versions."""
    spec = obj.get("spec") or {}
    errors = [*_check_spec(spec)]
    if old is not None:
        errors += _check_change(spec, old)
    errors += _check_stored(obj)
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid("spec.preserveUnknownFields", True, text))
    return errors


def _check_change(spec: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    before = old.get("spec") or {}
    names, old_names = spec.get("names") or {}, before.get("names") or {}
    conditions = (old.get("status") or {}).get("conditions") or ()
    if any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
        if spec.get("scope") != before.get("scope"):
            yield invalid("spec.scope", spec.get("scope"), IMMUTABLE)
        if names.get("kind") != old_names.get("kind"):
            yield invalid("spec.names.kind", names.get("kind"), IMMUTABLE)
    if spec.get("group") != before.get("group"):
        yield invalid("spec.group", spec.get("group"), IMMUTABLE)
    if names.get("plural") != old_names.get("plural"):
        yield invalid("spec.names.plural", names.get("plural"), IMMUTABLE)


def _check_stored(obj: JsonObject) -> Iterator[FieldError]:
    path, stored = "status.storedVersions", (obj.get("status") or {}).get("storedVersions") or []
    versions = (obj.get("spec") or {}).get("versions") or ()
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    left = dict.fromkeys(stored)
    for one in versions:
        if one.get("storage") and one.get("name") not in left:
            yield invalid(path, stored, f"must have the storage version {one.get('name')}")
        left.pop(one.get("name"), None)
    for index, name in enumerate(stored):
        if name in left:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                "spec.versions until a storage migration ensures no data remains persisted in "
                f"{name} and removes {name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, text)


def _check_spec(spec: JsonObject) -> Iterator[FieldError]:
    group, versions = spec.get("group") or "", spec.get("versions") or []
    if not group:
        yield missing_field("spec.group")
    elif problems := dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _one_of(spec.get("scope"), ("Cluster", "Namespaced"), "spec.scope")
    shared = {
        name: versions[0].get(name)
        for name in _PARTS
        if versions and _same(one.get(name) for one in versions)
    }
    if (shared.get("schema") or {}).get("openAPIV3Schema") is None:
        for index, one in enumerate(versions):
            if (one.get("schema") or {}).get("openAPIV3Schema") is None:
                yield missing_field(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, one in enumerate(versions):
        at, name = f"spec.versions[{index}]", one.get("name") or ""
        if problems := dns_1035_label(name):
            yield invalid(f"{at}.name", name, ",".join(problems))
        yield from _deprecation(one, at)
        own = {key: value for key, value in one.items() if key not in shared}
        yield from _check_parts(own, at, f"{at}.schema")
    names = [one.get("name") for one in versions]
    if len(set(names)) != len(names):
        yield invalid("spec.versions", _as_go(versions, shared), "must contain unique version names")
    if sum(bool(one.get("storage")) for one in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", _as_go(versions, shared), text)
    first = (names[0] or "") if names else ""
    if first and (problems := dns_1035_label(first)):
        yield invalid("spec.version", first, ",".join(problems))
    yield from _check_names(spec.get("names") or {})
    yield from _check_parts(shared, "spec", "spec.validation")
    yield from _check_conversion(spec.get("conversion") or {})


def _as_go(versions: Sequence[Schema], shared: Schema) -> list[JsonObject]:
    """Return versions as Go prints them, without the parts that all versions share."""
    zero = {"served": False, "storage": False, "deprecated": False}
    names = ("name", "served", "storage", "deprecated", "deprecationWarning", *_PARTS)
    return [
        {
            f"{key[0].upper()}{key[1:]}": None if key in shared else one.get(key, zero.get(key))
            for key in names
        }
        for one in versions
    ]


def _same(values: Iterator[Any]) -> bool:
    first, *rest = values
    return all(one == first for one in rest)


def _one_of(value: str | None, allowed: Sequence[str], path: str) -> Iterator[FieldError]:
    if not value:
        yield missing_field(path)
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def _deprecation(version: Schema, path: str) -> Iterator[FieldError]:
    text, at = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid(at, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > 256:
        yield invalid(at, text, "must be <= 256 characters long")
    if not text:
        yield invalid(at, text, "must not be an empty string")


def _check_parts(parts: Schema, path: str, schema_path: str) -> Iterator[FieldError]:
    """Validate the parts of a version, or those that all versions share."""
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None and (parts.get("subresources") or {}).get("status") is not None:
        yield from _check_root(schema, schema_path)
    if schema is not None:
        yield from check_schema(schema, f"{schema_path}.openAPIV3Schema")
    scale = (parts.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _check_scale(scale, f"{path}.subresources.scale")
    for index, column in enumerate(parts.get("additionalPrinterColumns") or ()):
        yield from _check_column(column, f"{path}.additionalPrinterColumns[{index}]")
    fields, at = parts.get("selectableFields"), f"{path}.selectableFields"
    if fields and schema is None:
        shared = "validations.schema is included"
        own = "`version.schema.openAPIV3Schema` is not included"
        yield invalid(at, "", f"may only be set when {shared if path == 'spec' else own}")
    elif fields and schema is not None:
        yield from check_selectable(fields, schema, at)


def _check_root(schema: Schema, path: str) -> Iterator[FieldError]:
    """Check that the root of the schema only has fields that are allowed with a status subresource."""
    where = "at the root of the schema if the status subresource is enabled"
    if schema.get("type", "object") != "object":
        text = f'only "object" is allowed as the type {where}'
        yield invalid(f"{path}.openAPIV3Schema.type", schema["type"], text)
    elif any(value and key not in _AT_ROOT for key, value in schema.items()):
        names = " ".join(f"{_GO.get(key) or key[0].upper() + key[1:]}" for key in _AT_ROOT)
        yield invalid(f"{path}.openAPIV3Schema", dict(schema), f"only [{names}] fields are allowed {where}")


def _check_scale(scale: Schema, path: str) -> Iterator[FieldError]:
    for name, allowed, text in (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status.",), "should be a json path under .status"),
        (
            "labelSelectorPath",
            (".spec.", ".status."),
            "should be a json path under either .spec or .status",
        ),
    ):
        value, at = scale.get(name) or "", f"{path}.{name}"
        if not value:
            if name != "labelSelectorPath":
                yield missing_field(at)
        elif not value.startswith("."):
            yield invalid(at, value, "must be a simple json path starting with .")
        elif not value.startswith(allowed):
            yield invalid(at, value, text)


def _check_column(column: Schema, path: str) -> Iterator[FieldError]:
    kind, form, where = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    if not column.get("name"):
        yield missing_field(f"{path}.name")
    text = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield missing_field(f"{path}.type", text)
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", kind, text)
    if form and form not in _FORMATS:
        yield invalid(f"{path}.format", form, f"must be one of {','.join(_FORMATS)}")
    if not where:
        yield missing_field(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")


def _check_names(names: Schema) -> Iterator[FieldError]:
    path = "spec.names"
    for key in ("plural", "singular", "kind", "listKind"):
        if not names.get(key):
            yield missing_field(f"{path}.{key}")
    for key in ("plural", "singular", "kind", "listKind"):
        value = names.get(key) or ""
        mixed = key in ("kind", "listKind")
        problems = dns_1035_label(value.lower() if mixed else value) if value else []
        if problems:
            yield invalid(f"{path}.{key}", value, (_MIXED if mixed else "") + ",".join(problems))
    for index, name in enumerate(names.get("shortNames") or ()):
        if problems := dns_1035_label(name):
            yield invalid(f"{path}.shortNames[{index}]", name, ",".join(problems))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    for index, name in enumerate(names.get("categories") or ()):
        if problems := dns_1035_label(name):
            yield invalid(f"{path}.categories[{index}]", name, ",".join(problems))


def _check_conversion(conversion: Schema) -> Iterator[FieldError]:
    path, webhook = "spec.conversion", conversion.get("webhook") or {}
    strategy, config = conversion.get("strategy"), webhook.get("clientConfig")
    yield from _one_of(strategy, ("None", "Webhook"), f"{path}.strategy")
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield forbidden_field(f"{path}.webhookClientConfig", text)
        if webhook.get("conversionReviewVersions"):
            yield forbidden_field(f"{path}.conversionReviewVersions", text)
        return
    if config is None:
        yield missing_field(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from check_client(config, f"{path}.webhookClientConfig")
    versions = webhook.get("conversionReviewVersions") or []
    at = f"{path}.conversionReviewVersions"
    yield from check_reviews(versions, at) if versions else [missing_field(at)]
