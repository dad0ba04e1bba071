"""Test that controllers keep all fields of templates. A field that the types lacked would be lost in pods."""

import json
import typing
from collections.abc import Iterator
from importlib import resources
from typing import Any

import msgspec
from dra_shared.api.pod import PodTemplateSpec

# selfLink has not been set since 1.20, and the managed fields of a pod differ from those of its template.
_LEFT_OUT = {"metadata.selfLink", "metadata.managedFields"}


def _schemas() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file in resources.files("dra_shared.api.schema").iterdir():
        if file.name.startswith("io.k8s."):
            package = file.name.removesuffix(".json")
            kinds = json.loads(file.read_bytes())
            found |= {f"{package}.{name}": schema for name, schema in kinds.items()}
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for key in ("allOf", "items", "additionalProperties"):
            yield from _references(schema.get(key))
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _structs(part)


def _find_unknown(
    struct: type[msgspec.Struct], name: str, schemas: dict[str, Any], path: str, seen: set[type]
) -> Iterator[str]:
    seen.add(struct)
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for key, schema in schemas[name].get("properties", {}).items():
        place = f"{path}.{key}".lstrip(".")
        if key not in fields:
            yield place
            continue
        for part in _structs(fields[key].type):
            for reference in _references(schema):
                if part not in seen and reference in schemas:
                    yield from _find_unknown(part, reference, schemas, place, seen)


def test_all_fields_of_a_pod_template_are_typed() -> None:
    schemas = _schemas()
    unknown = set(_find_unknown(PodTemplateSpec, "io.k8s.api.core.v1.PodTemplateSpec", schemas, "", set()))
    assert unknown - _LEFT_OUT == set()


def test_volumes_of_templates_are_kept() -> None:
    """Check that NFS volumes are kept. Once such a volume lost its type, which no pod may."""
    text = b'{"spec":{"volumes":[{"name":"data","nfs":{"path":"/","server":"s"}}]}}'
    template = msgspec.json.decode(text, type=PodTemplateSpec)
    assert msgspec.json.encode(template.spec) == text.removeprefix(b'{"spec":').removesuffix(b"}")
