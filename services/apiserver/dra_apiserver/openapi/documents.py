"""Build OpenAPI version 2 and 3 documents of the served kinds."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject
from dra_shared.version import Version, release

from dra_apiserver.discovery import git_version
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.openapi.descriptions import add_descriptions
from dra_apiserver.openapi.paths import META, REF, base_path, kind_paths, schema_name
from dra_apiserver.registry import Registry
from dra_apiserver.schema.packages import definitions, filter_present

_ALWAYS = (
    f"{META}.DeleteOptions",
    f"{META}.Patch",
    f"{META}.Status",
    f"{META}.WatchEvent",
    f"{META}.APIResourceList",
)

# Part of the hash by which clients cache documents. Increase it if documents change although the kinds do not.
_FORMAT = "2"


class OpenApi:
    """The documents of a registry, as JSON bytes.

    They are created on first use, and again when kinds are added or removed.
    """

    def __init__(self, registry: Registry, *, with_cbor: bool = False) -> None:
        self._registry = registry
        self._with_cbor = with_cbor
        self._made: dict[str, bytes] = {}
        self._generation = registry.generation

    def _current_cache(self) -> dict[str, bytes]:
        if self._generation != self._registry.generation:
            self._made.clear()
            self._generation = self._registry.generation
        return self._made

    def _info(self) -> JsonObject:
        return {"title": "Kubernetes", "version": git_version(self._registry.kubernetes)}

    def _group_versions(self) -> Iterable[tuple[str, str]]:
        for group in self._registry.groups():
            for version in self._registry.versions(group):
                yield group, version

    def index(self) -> bytes:
        """Return ``/openapi/v3``: the available documents, each with a hash for clients' caches."""
        kept = self._current_cache()
        if "index" not in kept:
            paths = {}
            for group, version in self._group_versions():
                path = base_path(group, version)[1:]
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(group, version)}"}
            kept["index"] = dumps({"paths": paths})
        return kept["index"]

    def _hash(self, group: str, version: str) -> str:
        """Return a hash that changes with the document: with the served kinds and a custom resource's schema."""
        text = [_FORMAT, git_version(self._registry.kubernetes), group, version]
        for info in self._registry.kinds_in(group, version):
            text.append(info.plural)
            if version in info.types.schemas:
                text.append(dumps(dict(info.types.schemas[version])).decode())
        return hashlib.sha512("\n".join(text).encode()).hexdigest()[:128].upper()

    def tag(self, path: str) -> str | None:
        """Return the hash of the document at ``/openapi/v3/<path>``, or None."""
        found = self._group_version(path)
        return None if found is None else self._hash(*found)

    def v3(self, path: str) -> bytes | None:
        """Return ``/openapi/v3/<path>`` with path ``api/v1`` or ``apis/<group>/<version>``; None if it is not
        served.
        """
        kept = self._current_cache()
        path = path.strip("/")
        if path not in kept:
            found = self._group_version(path)
            if found is None:
                return None
            kept[path] = dumps(self._document(*found))
        return kept[path]

    def v3_protobuf(self, path: str) -> bytes | None:
        """Return the same document in protocol buffers."""
        from dra_apiserver.openapi.protobuf3 import encode

        kept, name = self._current_cache(), f"{path.strip('/')} protobuf"
        if name not in kept:
            plain = self.v3(path)
            if plain is None:
                return None
            kept[name] = encode(orjson.loads(plain))
        return kept[name]

    def _group_version(self, path: str) -> tuple[str, str] | None:
        return next((gv for gv in self._group_versions() if base_path(*gv)[1:] == path), None)

    def _document(self, group: str, version: str) -> JsonObject:
        kinds = self._registry.kinds_in(group, version)
        paths = dict(item for info in kinds for item in kind_paths(info, version))
        if self._with_cbor:
            for path in paths.values():
                _apply_in_cbor(path)
        schemas = _schemas(kinds, version, paths, self._registry.kubernetes)
        return {"openapi": "3.0.0", "info": self._info(), "paths": paths, "components": {"schemas": schemas}}

    def v2(self) -> bytes:
        """Return ``/openapi/v2``: everything in one Swagger document."""
        kept = self._current_cache()
        if "v2" not in kept:
            paths: JsonObject = {}
            schemas: JsonObject = {}
            for group, version in self._group_versions():
                document = self._document(group, version)
                paths |= document["paths"]
                schemas |= document["components"]["schemas"]
            kept["v2"] = dumps(
                {
                    "swagger": "2.0",
                    "info": self._info(),
                    "paths": {path: _swagger_path(item) for path, item in paths.items()},
                    "definitions": {name: _swagger_schema(schema) for name, schema in schemas.items()},
                }
            )
        return kept["v2"]

    def v2_protobuf(self) -> bytes:
        """Return the same document in protocol buffers."""
        kept = self._current_cache()
        if "v2 protobuf" not in kept:
            from dra_apiserver.openapi.protobuf import encode

            kept["v2 protobuf"] = encode(orjson.loads(self.v2()))
        return kept["v2 protobuf"]


def _schemas(kinds: list[Kind], version: str, paths: Mapping[str, Any], kubernetes: Version) -> JsonObject:
    """Return every schema that the paths of these kinds refer to, directly or indirectly."""
    made: JsonObject = {}
    for info in kinds:
        if version in info.types.schemas:
            made |= _custom_schemas(info, version)
    pending = [*_ALWAYS, *_references(paths), *_references(made)]
    while pending:
        name = pending.pop()
        if name in made:
            continue
        package, _, short = name.rpartition(".")
        raw = definitions(package).get(short)
        if raw is None:
            continue
        made[name] = add_descriptions(name, _public(_present(name, raw, kubernetes)))
        pending += _references(made[name])
    return dict(sorted(made.items()))


def _present(name: str, raw: Mapping[str, Any], kubernetes: Version) -> Mapping[str, Any]:
    """Return a type's schema with the fields of this version of Kubernetes."""
    properties = raw.get("properties")
    if not properties:
        return raw
    has = filter_present(name, properties, kubernetes)
    made = {**raw, "properties": has}
    *_, group, version, short = name.split(".")
    required = release(kubernetes).list_required(f"{group}/{version}", short, made.pop("required", ()))
    if still := [field for field in required if field in has]:
        made["required"] = still
    return made


def _custom_schemas(info: Kind, version: str) -> JsonObject:
    name = schema_name(info, version)
    gvk = {"group": info.group, "kind": info.kind, "version": version}
    text = {"type": "string"}
    schema = dict(info.types.schemas[version])
    properties = dict(schema.get("properties") or {})
    properties |= {
        "apiVersion": text,
        "kind": text,
        "metadata": {"allOf": [{"$ref": f"{REF}{META}.ObjectMeta"}]},
    }
    single = {"type": "object", **schema, "properties": properties, "x-kubernetes-group-version-kind": [gvk]}
    items = {"type": "array", "items": {"$ref": REF + name}}
    many = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"allOf": [{"$ref": f"{REF}{META}.ListMeta"}]},
            "items": items,
        },
        "x-kubernetes-group-version-kind": [{**gvk, "kind": info.list_kind}],
    }
    return {name: single, f"{name}List": many}


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        found = [one for key, below in value.items() if key != "$ref" for one in _references(below)]
        reference = value.get("$ref")
        return [*found, reference.removeprefix(REF)] if isinstance(reference, str) else found
    return [one for below in value for one in _references(below)] if isinstance(value, list | tuple) else []


_OWN = ("x-go", "x-order", "x-rules")


def _public(value: Any) -> Any:
    """Return a schema without the extensions that only this server uses."""
    if isinstance(value, dict):
        kept = {
            key: one for key, one in value.items() if key not in _OWN and (key, one) != ("properties", {})
        }
        return {key: _public(one) for key, one in kept.items()}
    return [_public(one) for one in value] if isinstance(value, list) else value


def _swagger_schema(value: Any) -> Any:
    """Convert a version 3 schema to version 2."""
    if isinstance(value, list):
        return [_swagger_schema(one) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("$ref"), str):
        return {"$ref": value["$ref"].replace(REF, "#/definitions/")}
    combined = value.get("allOf")
    if isinstance(combined, list) and len(combined) == 1:
        rest = {key: one for key, one in value.items() if key not in ("allOf", "default")}
        return {**_swagger_schema(combined[0]), **_swagger_schema(rest)}
    if "oneOf" in value and "type" not in value:
        form = {"format": "int-or-string"} if value.get("format") == "int-or-string" else {}
        return {"type": "string", **form}
    return {key: _swagger_schema(one) for key, one in value.items() if key != "nullable"}


def _apply_in_cbor(path: JsonObject) -> None:
    """Add CBOR to the media types of a path's apply, if it has a patch."""
    content = path.get("patch", {}).get("requestBody", {}).get("content")
    if content is not None:
        content["application/apply-patch+cbor"] = content["application/apply-patch+yaml"]


def _swagger_path(item: JsonObject) -> JsonObject:
    made: JsonObject = {}
    for method, operation in item.items():
        if method == "parameters":
            made[method] = [_swagger_parameter(one) for one in operation]
            continue
        changed = {
            key: one
            for key, one in operation.items()
            if key not in ("requestBody", "responses", "parameters")
        }
        parameters = [_swagger_parameter(one) for one in operation.get("parameters", ())]
        changed["consumes"] = ["*/*"]
        changed["produces"] = ["application/json"]
        body = operation.get("requestBody")
        if body is not None:
            schema = next(iter(body["content"].values()))["schema"]
            parameters.append(
                {"name": "body", "in": "body", "required": True, "schema": _swagger_schema(schema)}
            )
            changed["consumes"] = list(body["content"])
        changed["parameters"] = parameters
        changed["responses"] = {
            code: {"description": answer["description"], "schema": _swagger_schema(_first_schema(answer))}
            for code, answer in operation["responses"].items()
        }
        made[method] = changed
    return made


def _first_schema(answer: JsonObject) -> Any:
    return next(iter(answer["content"].values()))["schema"]


def _swagger_parameter(parameter: JsonObject) -> JsonObject:
    schema: JsonObject = parameter["schema"]
    return {key: one for key, one in parameter.items() if key != "schema"} | schema
