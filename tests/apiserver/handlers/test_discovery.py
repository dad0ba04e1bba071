"""Test the formats of discovery documents and the headers that let clients cache them."""

from __future__ import annotations

from typing import Any

import httpx
from dra_apiserver.protobuf import META
from dra_apiserver.schema.protobuf import envelope, read_message

from tests.support.cases import each_case
from tests.support.waiting import until

PROTOBUF = "application/vnd.kubernetes.protobuf"
ALL = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ONLY = f"only the following media types are accepted: application/json, application/yaml, {PROTOBUF}"


def _same(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a JSON document that a protobuf message has: no type and no empty values."""
    made = {name: value for name, value in shown.items() if name not in ("kind", "apiVersion")}
    return {name: _full(value) for name, value in made.items()}


def _full(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _full(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one not in ("", False, None, {}, [])}
    return [_full(one) for one in value] if isinstance(value, list) else value


@each_case("accept", [PROTOBUF, f"{PROTOBUF},application/json"])
@each_case(
    ("path", "api_version", "kind"),
    [
        ("/api", "", "APIVersions"),
        ("/apis", "v1", "APIGroupList"),
        ("/apis/resource.k8s.io", "v1", "APIGroup"),
        ("/api/v1", "", "APIResourceList"),
        ("/apis/resource.k8s.io/v1", "v1", "APIResourceList"),
    ],
)
async def test_discovery_documents_are_the_same_in_protobuf(
    client: httpx.AsyncClient, path: str, api_version: str, kind: str, accept: str
) -> None:
    """Check documents in protobuf.

    The documents contain the apiVersion, although upstream's encoder removes it for clients before 1.2.
    """
    answer = await client.get(path, headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, PROTOBUF)
    *found, raw = envelope(answer.content)
    assert found == [api_version, kind]
    document = (await client.get(path)).json()
    assert _full(read_message(f"{META}.{kind}", raw)) == _same(document)


async def test_a_resource_in_protobuf_equals_upstreams_byte_for_byte(client: httpx.AsyncClient) -> None:
    """Check that messages have the empty fields that gogo/protobuf writes: all but lists and pointers."""
    answer = await client.get("/apis/scheduling.k8s.io/v1", headers={"Accept": PROTOBUF})
    (resource,) = (await client.get("/apis/scheduling.k8s.io/v1")).json()["resources"]
    verbs = b"".join(b"\x0a" + bytes([len(verb)]) + verb.encode() for verb in resource["verbs"])
    written = (
        b"\x0a\x0fpriorityclasses\x10\x00\x1a\x0dPriorityClass"
        + b"\x22" + bytes([len(verbs)]) + verbs
        + b"\x2a\x02pc\x32\x0dpriorityclass\x42\x00\x4a\x00\x52"
        + bytes([len(resource["storageVersionHash"])]) + resource["storageVersionHash"].encode()
    )  # fmt: skip
    group = b"scheduling.k8s.io/v1"
    head = b"\x0a" + bytes([len(group)]) + group
    assert len(written) < 256
    raw = head + b"\x12" + bytes([len(written) & 0x7F | 0x80, len(written) >> 7]) + written
    assert envelope(answer.content)[2] == raw


@each_case("path", ["/api", "/apis"])
async def test_aggregated_documents_are_the_same_in_protobuf(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"Accept": f"{PROTOBUF};{ALL},application/json"})
    assert answer.headers["content-type"] == f"{PROTOBUF};{ALL}"
    api_version, kind, raw = envelope(answer.content)
    assert (api_version, kind) == ("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList")
    document = (await client.get(path, headers={"Accept": f"application/json;{ALL}"})).json()
    found = read_message("io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList", raw)
    assert _full(found["items"]) == _full(document["items"])


@each_case(
    ("accept", "content_type"),
    [
        ("application/yaml", "application/yaml"),
        (f"application/json;{ALL};stream=other,application/yaml", "application/yaml"),
        ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,*/*", "application/json"),
        ("text/html,application/yaml;q=0.9,*/*;q=0.8", "application/yaml"),
        (f"application/yaml;q=0.5,application/json;{ALL};q=0.4", f"application/json;{ALL}"),
        (f"*/*;{ALL}", f"application/json;{ALL}"),
    ],
)
async def test_aggregated_discovery_is_preferred_whatever_the_order_in_the_header(
    client: httpx.AsyncClient, accept: str, content_type: str
) -> None:
    """Check that the aggregated form is preferred, whatever the order in the header (`aggregated/wrapper.go`)."""
    answer = await client.get("/apis", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, content_type)


@each_case(
    ("path", "accept"),
    [
        ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
        ("/apis/apps", f"application/json;{ALL}"),
        ("/apis", "application/json;v=v1"),
        ("/api", "application/json;sv=v1"),
        ("/api/v1", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ],
)
async def test_discovery_rejects_unsupported_media_types(
    client: httpx.AsyncClient, path: str, accept: str
) -> None:
    answer = await client.get(path, headers={"Accept": accept})
    assert (answer.status_code, answer.json()["message"]) == (406, ONLY)


async def test_the_aggregated_document_is_not_sent_again_while_its_etag_is_unchanged(
    client: httpx.AsyncClient,
) -> None:
    wanted = {"Accept": f"application/json;{ALL}"}
    first = await client.get("/apis", headers=wanted)
    tag = first.headers["etag"]
    assert len(tag) == 130
    assert tag == tag.upper()
    assert (first.headers["vary"], first.headers["cache-control"]) == ("Accept", "public")
    packed = await client.get("/apis", headers={"Accept": f"{PROTOBUF};{ALL}"})
    assert packed.headers["etag"] == tag
    again = await client.get("/apis", headers={**wanted, "If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert "etag" not in (await client.get("/apis")).headers
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object"}}
    spec: dict[str, Any] = {"group": "example.com", "scope": "Cluster", "versions": [version]}
    spec["names"] = {"plural": "things", "singular": "thing", "kind": "Thing"}
    body = {"metadata": {"name": "things.example.com"}, "spec": spec}
    made = await client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=body)
    assert made.status_code == 201

    async def get_changed() -> httpx.Response | None:
        answer = await client.get("/apis", headers={**wanted, "If-None-Match": tag})
        return answer if answer.status_code == 200 else None

    assert (await until(get_changed)).headers["etag"] != tag
    group = await client.get("/apis/example.com/v1", headers={"Accept": PROTOBUF})
    assert envelope(group.content)[:2] == ("v1", "APIResourceList")
    refused = await client.get("/apis/example.com/v1", headers={"Accept": "text/html"})
    assert refused.json()["message"] == ONLY
