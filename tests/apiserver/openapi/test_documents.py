"""Compare OpenAPI documents with recorded ones of 1.36.2."""

import gzip
import json
from typing import Any

from dra_apiserver.kinds import catalog
from dra_apiserver.openapi import OpenApi
from dra_shared.version import V1_36

from tests.support.cases import each_case
from tests.support.reference import reference_path
from tests.support.somekinds import widget

OPENAPI = OpenApi(catalog.registry("api/all=true", kubernetes=V1_36))
REF = "#/components/schemas/"
RECORDED = (
    ("", "v1"),
    ("apps", "v1"),
    ("batch", "v1"),
    ("coordination.k8s.io", "v1"),
    ("events.k8s.io", "v1"),
    ("policy", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("resource.k8s.io", "v1"),
    ("resource.k8s.io", "v1beta2"),
    ("resource.k8s.io", "v1beta1"),
    ("resource.k8s.io", "v1alpha3"),
    ("scheduling.k8s.io", "v1"),
    ("scheduling.k8s.io", "v1alpha2"),
    ("storage.k8s.io", "v1"),
)


def document(group: str, version: str, openapi: OpenApi = OPENAPI) -> Any:
    made = openapi.v3(f"apis/{group}/{version}" if group else f"api/{version}")
    assert made is not None
    return json.loads(made)


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*(references(one) for one in value.values()))
    return set().union(*(references(one) for one in value)) if isinstance(value, list) else set()


def _describes(key: str, value: Any) -> bool:
    return key == "description" and isinstance(value, str)


def _as_recorded(value: Any) -> Any:
    """Return a recorded document, which has no descriptions or enumerations."""
    if isinstance(value, dict):
        shown = {key: one for key, one in value.items() if key != "enum" and not _describes(key, one)}
        return {key: _as_recorded(one) for key, one in shown.items()}
    return [_as_recorded(one) for one in value] if isinstance(value, list) else value


@each_case(("group", "version"), RECORDED)
def test_openapi_schemas_equal_the_recorded_ones(group: str, version: str) -> None:
    path = reference_path("reference", "openapi", f"{group or 'core'}__{version}.json.gz")
    expected = json.loads(gzip.decompress(path.read_bytes()))["schemas"]
    schemas = document(group, version)["components"]["schemas"]
    for name, schema in expected.items():
        assert name in schemas
        made, wanted = _as_recorded(schemas[name]), dict(schema)
        for one in (made, wanted):
            one.pop("x-kubernetes-group-version-kind", None)
        assert made == wanted


@each_case(("group", "version"), RECORDED)
def test_openapi_paths_equal_the_recorded_ones(group: str, version: str) -> None:
    path = reference_path("reference", "openapi", f"{group or 'core'}__{version}.json.gz")
    expected = json.loads(gzip.decompress(path.read_bytes()))["paths"]
    paths = document(group, version)["paths"]
    for name, item in expected.items():
        if "/watch/" in name or name.endswith("{path}"):
            continue
        for method, action in item["actions"].items():
            if action == "connect":
                continue
            assert paths[name][method]["x-kubernetes-action"] == action
            assert paths[name][method]["x-kubernetes-group-version-kind"] == item["kind"]


def test_every_reference_in_the_openapi_v3_documents_resolves() -> None:
    index = json.loads(OPENAPI.index())["paths"]
    for path in index:
        made = OPENAPI.v3(path)
        assert made is not None
        loaded = json.loads(made)
        missing = {one.removeprefix(REF) for one in references(loaded)} - loaded["components"][
            "schemas"
        ].keys()
        assert not missing, path
        assert not [key for key in (b"x-go", b"x-order", b"x-rules") if key in made]


def test_every_reference_in_the_swagger_document_resolves() -> None:
    loaded = json.loads(OPENAPI.v2())
    missing = {one.removeprefix("#/definitions/") for one in references(loaded)} - loaded[
        "definitions"
    ].keys()
    assert not missing
    assert loaded["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {"type": "string"}
    pod = loaded["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert {"fieldValidation", "dryRun"} <= {one["name"] for one in pod["parameters"]}


def test_patches_of_custom_resources_are_not_strategic() -> None:
    registry = catalog.registry()
    registry.add(widget({"type": "object"}))
    paths = document("example.com", "v1", OpenApi(registry))["paths"]
    patch = paths["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert list(patch["requestBody"]["content"]) == [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ]


def test_a_new_custom_resource_appears_in_openapi_and_changes_the_hash() -> None:
    registry = catalog.registry()
    openapi = OpenApi(registry)
    before = json.loads(openapi.index())["paths"]
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    registry.add(widget(schema))
    after = json.loads(openapi.index())["paths"]
    assert after.keys() - before.keys() == {"apis/example.com/v1"}
    made = openapi.v3("apis/example.com/v1")
    assert made is not None
    schemas = json.loads(made)["components"]["schemas"]
    assert schemas["com.example.v1.Widget"]["properties"]["spec"] == {"type": "object"}
    assert openapi.v3("apis/nosuch/v1") is None


def test_values_of_enumerations_are_listed_in_openapi() -> None:
    document = json.loads(OPENAPI.v3("api/v1") or b"{}")
    schemas = document["components"]["schemas"]
    container = schemas["io.k8s.api.core.v1.Container"]["properties"]
    assert container["imagePullPolicy"]["enum"] == ["Always", "IfNotPresent", "Never"]
    claim = schemas["io.k8s.api.core.v1.PersistentVolumeClaimSpec"]["properties"]
    modes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
    assert claim["accessModes"]["items"]["enum"] == modes


NEWEST = OpenApi(catalog.registry("api/all=true"))


@each_case("openapi", [OPENAPI, NEWEST], ids=["1.36", "newest"])
@each_case("version", ["v1", "v1beta2", "v1beta1", "v1alpha3"])
def test_every_type_and_field_of_resource_k8s_io_has_a_description(version: str, openapi: OpenApi) -> None:
    schemas = document("resource.k8s.io", version, openapi)["components"]["schemas"]
    mine = {name: schema for name, schema in schemas.items() if name.startswith("io.k8s.api.resource.")}
    silent = [name for name, schema in mine.items() if not schema.get("description")]
    silent += [
        f"{name}.{key}"
        for name, schema in mine.items()
        for key, member in schema.get("properties", {}).items()
        if not member.get("description")
    ]
    assert mine
    assert silent == []


def test_descriptions_exist_only_for_served_fields() -> None:
    from dra_apiserver.openapi.descriptions import texts

    schemas: dict[str, Any] = {}
    for version in ("v1alpha3", "v1beta1", "v1beta2", "v1"):
        for openapi in (OPENAPI, NEWEST):
            for name, schema in document("resource.k8s.io", version, openapi)["components"][
                "schemas"
            ].items():
                members = schemas.setdefault(name.rpartition(".")[2], set())
                members.update(schema.get("properties", {}))
    unknown = [
        f"{kind}.{key}"
        for kind, described in texts().items()
        for key in described
        if key != "type" and key not in schemas.get(kind, ())
    ]
    assert unknown == []
