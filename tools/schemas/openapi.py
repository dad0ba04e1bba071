"""OpenAPI schemas of the API types, from their Go structs, tags and markers.

Every property also has ``x-go: [type, flags]``: the Go type as error messages print it, and flags ``*`` for a pointer,
``e`` for omitempty, ``z`` for omitzero. Where the Go type declares how its fields are validated (``+k8s:`` tags, which
upstream's validation-gen reads), a property has them as ``x-rules`` and its type has the Go order of its fields as
``x-order``. Mirrors kube-openapi's `pkg/generators`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tools.schemas.gotypes import GoField, GoPackage, GoType
from tools.schemas.sources import META, OTHER_PACKAGES, Source, package_path

REFS = {
    f"{META}.Time": "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    f"{META}.MicroTime": "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    f"{META}.FieldsV1": "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "io.k8s.apimachinery.pkg.runtime.RawExtension",
}
SIMPLE: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "format": "int32"},
    "int32": {"type": "integer", "format": "int32"},
    "uint32": {"type": "integer", "format": "int64"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "[]byte": {"type": "string", "format": "byte"},
}
# Types from other packages, by the name a property's Go type gives them.
FOREIGN = {
    "k8s.io/apimachinery/pkg/types": {
        "UID": "string",
        "NodeName": "string",
        "PatchType": "string",
    },
    META: {"Duration": "string"},
}


_JSON = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"
# Types with an encoding of their own, whose schemas are written by hand upstream (OpenAPISchemaType).
_SPECIAL: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {"type": "object"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": {"type": "string", "format": "date-time"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    _JSON: {},
    f"{_JSON}SchemaPropsOrArray": {},
    f"{_JSON}SchemaPropsOrBool": {},
    f"{_JSON}SchemaPropsOrStringArray": {},
}
_META_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1"
# Types that every document has, whatever its kinds.
_ALWAYS = ("APIResourceList", "DeleteOptions", "Patch", "Status", "WatchEvent")
# The groups whose declared rules are evaluated, and types that their lists contain.
_DECLARED = (
    "io.k8s.api.batch.v1.",
    "io.k8s.api.lifecycle.v1alpha1.",
    "io.k8s.api.resource.",
    "io.k8s.api.scheduling.v1alpha3.",
    "io.k8s.api.scheduling.v1beta1.",
    f"{_META_NAME}.Condition",
)
_REFERENCE = re.compile(r"#/components/schemas/([\w.-]+)")


def definition_name(path: str) -> str:
    domain, _, rest = path.partition("/")
    return ".".join(reversed(domain.split("."))) + "." + rest.replace("/", ".")


def resolve(source: Source, package: GoPackage, name: str) -> tuple[str, str, GoType | None]:
    """Return the import path and the name that ``name`` means in ``package``, and the type if it is one of ours."""
    qualifier, dot, rest = name.rpartition(".")
    path = package.imports.get(qualifier, qualifier) if dot else package.path
    known = path == package.path or path.startswith("k8s.io/api/") or path in OTHER_PACKAGES
    return path, rest, source.package(path).types.get(rest) if known else None


def type_string(source: Source, package: GoPackage, text: str) -> str:
    """Return a Go type as ``reflect.Type.String`` prints it."""
    if text.startswith("*"):
        return "*" + type_string(source, package, text[1:])
    if text == "[]byte":
        return "[]uint8"
    if text.startswith("[]"):
        return "[]" + type_string(source, package, text[2:])
    match = re.match(r"map\[([\w.]+)\](.+)", text)
    if match:
        return f"map[{type_string(source, package, match.group(1))}]{type_string(source, package, match.group(2))}"
    if text in SIMPLE or text in ("byte", "interface{}"):
        return text
    path, name, _ = resolve(source, package, text)
    return f"{path.rsplit('/', 1)[-1]}.{name}"


def type_schema(source: Source, package: GoPackage, text: str) -> dict[str, Any]:
    """Return the schema of a Go type expression."""
    if text.startswith("*"):
        return type_schema(source, package, text[1:])
    if text in SIMPLE:
        return dict(SIMPLE[text])
    if text.startswith("[]"):
        return {"items": type_schema(source, package, text[2:]), "type": "array"}
    match = re.match(r"map\[[\w.]+\](.+)", text)
    if match:
        return {"additionalProperties": type_schema(source, package, match.group(1)), "type": "object"}
    path, name, found = resolve(source, package, text)
    if f"{path}.{name}" in REFS:
        return {"$ref": "#/components/schemas/" + REFS[f"{path}.{name}"]}
    if name in FOREIGN.get(path, {}):
        return dict(SIMPLE[FOREIGN[path][name]])
    if found is None:
        raise SystemExit(f"{package.path}: unknown type {text}")
    if found.underlying:
        return type_schema(source, source.package(path), found.underlying)
    return {"$ref": f"#/components/schemas/{definition_name(path)}.{name}"}


def field_schema(source: Source, package: GoPackage, found: GoField) -> dict[str, Any]:
    schema = type_schema(source, package, found.type)
    special = "$ref" in schema and schema["$ref"].rsplit(".", 1)[-1] in {n.rsplit(".", 1)[-1] for n in REFS}
    if "$ref" in schema:
        # A reference stands alone; with a description or a default it is one of "all".
        by_value = not found.type.startswith("*") and not special
        if found.documented or by_value:
            schema = {"allOf": [schema]}
        if by_value:
            schema["default"] = {}
    elif not (found.omitempty or found.omitzero or found.type.startswith("*")):
        default = {"string": "", "integer": 0, "boolean": False}.get(str(schema.get("type")))
        if default is not None and schema.get("format") != "byte":
            schema["default"] = default
    stated = found.markers.get("default", [""])[0]
    if stated.startswith("ref("):
        schema["default"] = package.named[stated.removeprefix("ref(").removesuffix(")")]
    elif stated:
        schema["default"] = json.loads(stated)
    for marker, key in (("listType", "x-kubernetes-list-type"), ("mapType", "x-kubernetes-map-type")):
        if marker in found.markers:
            schema[key] = found.markers[marker][0]
    if "structType" in found.markers:
        schema["x-kubernetes-map-type"] = found.markers["structType"][0]
    if "listMapKey" in found.markers:
        schema["x-kubernetes-list-map-keys"] = found.markers["listMapKey"]
    if "patchMergeKey" in found.tags:
        schema["x-kubernetes-patch-merge-key"] = found.tags["patchMergeKey"]
    if "patchStrategy" in found.tags:
        schema["x-kubernetes-patch-strategy"] = found.tags["patchStrategy"]
    return schema


def is_required(found: GoField) -> bool:
    if {"required", "k8s:required"} & found.markers.keys():
        return True
    return not (found.omitempty or found.omitzero or {"optional", "k8s:optional"} & found.markers.keys())


def all_fields(source: Source, package: GoPackage, found: GoType) -> list[tuple[GoPackage, GoField]]:
    """Return the JSON fields of a struct in order, with the fields of inlined structs in their place."""
    fields: list[tuple[GoPackage, GoField]] = []
    for one in found.fields:
        if one.json:
            fields.append((package, one))
            continue
        path, _, inner = resolve(source, package, one.type)
        while inner is not None and inner.underlying:
            path, _, inner = resolve(source, source.package(path), inner.underlying)
        if inner is not None:
            fields += all_fields(source, source.package(path), inner)
        elif one.type.endswith("TypeMeta"):
            for name in ("kind", "apiVersion"):
                fields.append((package, GoField(name, "string", True, False, {}, {"optional": [""]})))
    return fields


def struct_schema(source: Source, package: GoPackage, found: GoType) -> dict[str, Any]:
    """Return the OpenAPI schema of a struct from its Go type alone."""
    fields = all_fields(source, package, found)
    properties = {one.json: field_schema(source, owner, one) for owner, one in fields}
    schema: dict[str, Any] = {"properties": properties, "type": "object"}
    needed = [one.json for _, one in fields if is_required(one)]
    if needed:
        schema["required"] = needed
    for marker in ("structType", "mapType"):
        if marker in found.markers:
            schema["x-kubernetes-map-type"] = found.markers[marker][0]
    if "union" in found.markers:
        schema["x-kubernetes-unions"] = [_union(found)]
    return schema


def _union(found: GoType) -> dict[str, Any]:
    """Return the members of a union, at most one of which is set, and the discriminator field."""
    chooser = next((one.json for one in found.fields if "unionDiscriminator" in one.markers), None)
    members = {one.json: one.json[0].upper() + one.json[1:] for one in found.fields if one.json != chooser}
    union: dict[str, Any] = {"fields-to-discriminateBy": members}
    return union if chooser is None else {"discriminator": chooser, **union}


def annotate(source: Source, package: GoPackage, found: GoType, schema: dict[str, Any]) -> None:
    """Add ``x-go`` to the properties of ``schema``."""
    for owner, one in all_fields(source, package, found):
        target = schema.get("properties", {}).get(one.json)
        if target is None:
            continue
        pointer = one.type.startswith("*")
        flags = ("*" if pointer else "") + ("e" if one.omitempty else "") + ("z" if one.omitzero else "")
        target["x-go"] = [type_string(source, owner, one.type.removeprefix("*")), flags]
        enumerate_values(source, owner, one.type.removeprefix("*"), target)


def declare(source: Source, package: GoPackage, found: GoType, schema: dict[str, Any]) -> None:
    """Add ``x-rules`` to the properties of ``schema`` that have rules, and ``x-order`` to the schema itself."""
    fields = all_fields(source, package, found)
    for owner, one in fields:
        _, _, inner = resolve(source, owner, one.type.removeprefix("*"))
        rules = one.rules + (inner.rules if inner is not None and inner.underlying else [])
        if rules:
            schema["properties"][one.json]["x-rules"] = rules
    schema["x-order"] = [one.json for _, one in fields]


def enumerate_values(source: Source, owner: GoPackage, type_name: str, target: dict[str, Any]) -> None:
    """Add the values of an enumeration to a property of that type, or to the items of a list of it."""
    if type_name.startswith("[]") and "items" in target:
        target, type_name = target["items"], type_name.removeprefix("[]")
    alias, dot, name = type_name.rpartition(".")
    path = owner.imports.get(alias, owner.path) if dot else owner.path
    if not path.startswith("k8s.io/api/") and path not in OTHER_PACKAGES:
        return
    values = source.package(path).enumeration(name)
    if values and target.get("type") == "string":
        target["enum"] = values


def go_package(definition: str) -> tuple[str, str] | None:
    """Return the Go import path and type name of a definition such as ``io.k8s.api.core.v1.Pod``."""
    prefix, _, name = definition.rpartition(".")
    if prefix.startswith("io.k8s.api."):
        return "k8s.io/api/" + prefix.removeprefix("io.k8s.api.").replace(".", "/"), name
    for path in OTHER_PACKAGES:
        if definition_name(path) == prefix:
            return path, name
    return None


def with_gvk(schema: dict[str, Any], group: str, version: str, kind: str) -> dict[str, Any]:
    return schema | {"x-kubernetes-group-version-kind": [{"group": group, "kind": kind, "version": version}]}


def derive(
    source: Source, path: str, group: str, version: str, kinds: list[str]
) -> dict[str, dict[str, Any]]:
    """Return the definitions of a group version that no recorded document has, reachable from its kinds."""
    made: dict[str, dict[str, Any]] = {}
    package = source.package(path)
    pending = [name for kind in kinds for name in (kind, kind + "List") if name in package.types]
    while pending:
        name = pending.pop()
        full = f"{definition_name(path)}.{name}"
        if full in made:
            continue
        schema = struct_schema(source, package, package.types[name])
        if name.removesuffix("List") in kinds:
            schema = with_gvk(schema, group, version, name)
        made[full] = schema
        pending += re.findall(rf"{re.escape(definition_name(path))}\.(\w+)\"", json.dumps(schema))
    return made


def definitions(source: Source, kinds: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return every type that the kinds of kinds.json refer to, directly or indirectly, by its full name.

    Raises:
        SystemExit: no pinned repository has a type that others refer to.
    """
    made = dict(_SPECIAL)
    for (group, version), wanted in sorted(_roots(kinds).items()):
        path = package_path(group, version)
        for name, schema in derive(source, path, group, version, wanted).items():
            made.setdefault(name, schema)
    for name in _ALWAYS:
        full = f"{_META_NAME}.{name}"
        made[full] = _generate_schema(source, full)
        if name != "Patch":
            made[full] = with_gvk(made[full], "", "v1", name)
    while missing := set(_REFERENCE.findall(json.dumps(made))) - made.keys():
        for name in sorted(missing):
            made[name] = _generate_schema(source, name)
    for name, schema in made.items():
        target = go_package(name)
        if name not in _SPECIAL and target is not None:
            package = source.package(target[0])
            annotate(source, package, package.types[target[1]], schema)
            if name.startswith(_DECLARED):
                declare(source, package, package.types[target[1]], schema)
    return made


def _roots(kinds: list[dict[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """Return the kinds of each group and version, including those of subresources."""
    roots: dict[tuple[str, str], list[str]] = {}
    for entry in kinds:
        for version in entry["versions"]:
            roots.setdefault((entry["group"], version), []).append(entry["kind"])
        for value in entry.get("subresources", {}).values():
            if isinstance(value, dict):
                place = (value.get("group", entry["group"]), value.get("version", entry["storageVersion"]))
                roots.setdefault(place, []).append(value["kind"])
    return {place: list(dict.fromkeys(names)) for place, names in roots.items()}


def _generate_schema(source: Source, name: str) -> dict[str, Any]:
    target = go_package(name)
    if target is None:
        raise SystemExit(f"nothing defines {name}")
    package = source.package(target[0])
    return struct_schema(source, package, package.types[target[1]])
