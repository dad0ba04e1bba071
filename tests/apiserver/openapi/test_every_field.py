"""Create an object of every kind with every field that the OpenAPI of the version has, strictly and with all gates."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from dra_apiserver import verdict
from dra_apiserver.http import Request
from dra_apiserver.kinds import catalog
from dra_apiserver.openapi import OpenApi
from dra_apiserver.target import Target
from dra_apiserver.verdict import Judge
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import VERSIONS, Version, release

_META = "io.k8s.apimachinery.pkg."
_VALUES: Mapping[str, Any] = {
    f"{_META}api.resource.Quantity": "1",
    f"{_META}apis.meta.v1.FieldsV1": {"f:metadata": {}},
    f"{_META}apis.meta.v1.MicroTime": "2026-01-01T00:00:00.000000Z",
    f"{_META}apis.meta.v1.Time": "2026-01-01T00:00:00Z",
    f"{_META}runtime.RawExtension": {"apiVersion": "v1", "kind": "Pod"},
    f"{_META}util.intstr.IntOrString": 1,
}
_SCALARS: Mapping[str, Any] = {"boolean": True, "integer": 1, "number": 1.5, "string": "a"}
_FORMATS: Mapping[str, str] = {"byte": "YQ==", "date-time": "2026-01-01T00:00:00Z"}
# The server sets these itself, or drops a reference to a kind that nothing populates.
_OWN = {
    "CertificateSigningRequest": {"spec.extra", "spec.groups", "spec.uid"},
    "Namespace": {"spec.finalizers"},
    "PersistentVolumeClaim": {"spec.dataSource"},
}


def build(schemas: JsonObject, schema: JsonObject, path: tuple[str, ...]) -> Any:
    """Return a value with every field of a schema; None for a type within itself."""
    if len(schema.get("allOf", ())) == 1:
        schema = {**schema, **schema["allOf"][0]}
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in _VALUES:
            return copy.deepcopy(_VALUES[name])
        return None if name in path else build(schemas, schemas[name], (*path, name))
    if "properties" in schema:
        members = {name: build(schemas, member, path) for name, member in schema["properties"].items()}
        return {name: value for name, value in members.items() if value is not None}
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "array":
        item = build(schemas, schema["items"], path)
        return None if item is None else [item]
    if "additionalProperties" in schema:
        value = build(schemas, schema["additionalProperties"], path)
        return {} if value is None else {"a": value}
    if schema.get("type") == "object":
        return {}
    return _FORMATS.get(schema.get("format", "")) or _SCALARS[schema.get("type", "string")]


def list_objects(version: Version) -> Iterator[JsonObject]:
    openapi = OpenApi(catalog.registry("api/all=true", kubernetes=version))
    schemas: JsonObject = {}
    for path in json.loads(openapi.index())["paths"]:
        schemas |= json.loads(openapi.v3(path) or "{}").get("components", {}).get("schemas", {})
    for name, schema in sorted(schemas.items()):
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            if "metadata" not in schema.get("properties", {}) or name.endswith("List"):
                continue
            api_version = f"{kind['group']}/{kind['version']}".removeprefix("/")
            obj = build(schemas, schema, (name,))
            yield {**obj, "apiVersion": api_version, "kind": kind["kind"], "metadata": {"name": "a"}}


def _prepare(request: Request, target: Target, obj: JsonObject, ctx: Any, _: Any) -> JsonObject:
    """Do what a create does to an object before its validation."""
    target.kind.strategies[""].prepare_for_create(obj, ctx)
    return obj


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_no_field_is_unknown_or_dropped(version: Version, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "before_create", _prepare)
    on = {name: True for name, gate in release(version).gates.items() if not gate.locked}
    judge = Judge(FeatureGates(version, **on), "api/all=true")
    tried = 0
    for obj in list_objects(version):
        if not judge.place(obj["apiVersion"], obj["kind"]).known:
            continue  # The kind is only used in subresources.
        tried += 1
        result = judge.create(obj)
        # Addresses of a Service are allocated, for which its values must be valid.
        assert result.refused == () or obj["kind"] == "Service"
        assert set(result.dropped) <= _OWN.get(obj["kind"], set()), (obj["apiVersion"], obj["kind"])
    assert tried > 80
