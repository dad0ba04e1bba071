"""Test deletes, lists, watches and media types against the answers of kube-apiserver 1.36."""

import json
from pathlib import Path

import httpx
import pytest
import yaml
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY

from tests.support.cases import each_case

MAPS = "/api/v1/namespaces/default/configmaps"
RESOURCE = "/apis/resource.k8s.io/v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v="


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true")


@each_case(
    ("body", "message"),
    [
        (
            '{"gracePeriodSeconds":"x"}',
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            '{"propagationPolicy":5}',
            "json: cannot unmarshal number into Go struct field DeleteOptions.propagationPolicy "
            "of type v1.DeletionPropagation",
        ),
        (
            '{"dryRun":"All"}',
            "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
        ),
        (
            "[]",
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { "
            'APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }',
        ),
        (
            "x",
            "couldn't get version/kind; json parse error: invalid character 'x' looking for beginning of value",
        ),
    ],
)
async def test_invalid_delete_options_are_rejected(
    client: httpx.AsyncClient, body: str, message: str
) -> None:
    await client.post(MAPS, json={"metadata": {"name": "c"}})
    answer = await client.request("DELETE", f"{MAPS}/c", content=body)
    assert (answer.status_code, answer.json()["message"]) == (400, message)


async def test_delete_options_of_an_unsupported_media_type_are_rejected(client: httpx.AsyncClient) -> None:
    await client.post(MAPS, json={"metadata": {"name": "c"}})
    plain = {"Content-Type": "text/plain"}
    answer = await client.request("DELETE", f"{MAPS}/c", content="x", headers=plain)
    assert answer.status_code == 415
    assert (await client.request("DELETE", f"{MAPS}/c", content="null")).status_code == 200


async def test_deleting_a_collection_returns_the_objects_before_their_deletion(
    client: httpx.AsyncClient,
) -> None:
    for name, finalizers in (("b", ["x/y"]), ("a", [])):
        await client.post(MAPS, json={"metadata": {"name": name, "finalizers": finalizers}})
    items = (await client.delete(MAPS)).json()["items"]
    assert [item["metadata"]["name"] for item in items] == ["a", "b"]
    assert not any("deletionTimestamp" in item["metadata"] for item in items)


@each_case(
    ("path", "selector", "message"),
    [
        (
            MAPS,
            "foo=x",
            '"foo" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("/api/v1/pods", "foo=x", "field label not supported: foo"),
        ("/apis/batch/v1/jobs", "foo=x", 'field label "foo" not supported for Job'),
        (
            f"{RESOURCE}beta1/resourceslices",
            "metadata.namespace=x",
            "field label not supported for resource.k8s.io/v1beta1, Kind=ResourceSlice: metadata.namespace",
        ),
        (f"{RESOURCE}/deviceclasses", "metadata.namespace=x", ""),
    ],
)
async def test_field_selectors_are_validated(
    client: httpx.AsyncClient, path: str, selector: str, message: str
) -> None:
    answer = await client.get(path, params={"fieldSelector": selector})
    assert answer.json().get("message", "") == message
    assert answer.status_code == (400 if message else 200)


@each_case(
    ("token", "problem"),
    [("x", "illegal base64 data at input byte 0"), ("abc.ef", "illegal base64 data at input byte 3")],
)
async def test_invalid_continue_tokens_are_rejected(
    client: httpx.AsyncClient, token: str, problem: str
) -> None:
    answer = await client.get(MAPS, params={"continue": token, "resourceVersion": "5"})
    text = f"invalid continue token: continue key is not valid: {problem}"
    assert (answer.status_code, answer.json()["message"]) == (400, text)


async def test_a_watch_from_a_compacted_revision_sends_an_error_event_with_code_410(tmp_path: Path) -> None:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, history=0.0)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        for number in range(3):
            await client.post(MAPS, json={"metadata": {"name": f"c{number}"}})
        server.store.compact(server.store.revision)
        answer = await client.get(MAPS, params={"watch": "1", "resourceVersion": "1"})
        assert answer.status_code == 200
        event = json.loads(answer.text)
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
            "ERROR",
            410,
            "Expired",
        )
        first = await client.get(MAPS, params={"limit": "1"})
        token = first.json()["metadata"]["continue"]
        await client.post(MAPS, json={"metadata": {"name": "d"}})
        server.store.compact(server.store.revision)
        answer = await client.get(MAPS, params={"limit": "1", "continue": token})
        assert answer.status_code == 410
        go_on = answer.json()["metadata"]["continue"]
        answer = await client.get(MAPS, params={"limit": "1", "continue": go_on})
        assert [item["metadata"]["name"] for item in answer.json()["items"]] == ["c1"]


async def test_errors_are_returned_as_yaml_on_request(client: httpx.AsyncClient) -> None:
    headers = {"Accept": "application/json;q=0.5,application/yaml;q=0.9"}
    answer = await client.get(f"{MAPS}/missing", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/yaml")
    assert yaml.safe_load(answer.text)["reason"] == "NotFound"


_ONLY = "only the following media types are accepted: "
_AVAILABLE = "406: Not Acceptable\n\nAvailable representations: "
_BOTH = "application/json, application/yaml"
_STREAM = "application/json;stream=watch"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_ALL = f"{_BOTH}, {_PROTOBUF}"


@each_case(
    ("accept", "message"),
    [
        (f"{TABLE}v2", f"{_ONLY}{_ALL}"),
        ("application/json;stream=other", f"{_ONLY}{_ALL}"),
        ("application/yaml;stream=watch", f"{_ONLY}{_ALL}"),
        ("application/json;sv=v2", f"{_ONLY}{_ALL}"),
        ("text/html", f"{_AVAILABLE}{_ALL}"),
        ("application/*", f"{_AVAILABLE}{_ALL}"),
        (f"{_PROTOBUF};as=Table;g=meta.k8s.io;v=v1", f"{_ONLY}{_ALL}"),
        ("application/json;v=v1", f"{_ONLY}{_ALL}"),
        ("application/json;g=meta.k8s.io", f"{_ONLY}{_ALL}"),
    ],
)
async def test_unsupported_media_types_are_not_acceptable_for_any_method(
    client: httpx.AsyncClient, accept: str, message: str
) -> None:
    headers = {"Accept": accept}
    body = {"metadata": {"name": "x"}}
    asked = [
        await client.get(f"{MAPS}/missing", headers=headers),
        await client.post(MAPS, json=body, headers=headers),
        await client.put(f"{MAPS}/x", json=body, headers=headers),
        await client.delete(f"{MAPS}/x", headers=headers),
        await client.patch(
            f"{MAPS}/x", json={}, headers=headers | {"Content-Type": "application/merge-patch+json"}
        ),
    ]
    for answer in asked:
        shown = yaml.safe_load(answer.text)
        assert (answer.status_code, shown["message"]) == (406, message), answer.request.method
        assert shown["reason"] == "NotAcceptable"
    assert (await client.get(f"{MAPS}/x")).status_code == 404


async def test_lists_and_watches_name_their_own_media_types(client: httpx.AsyncClient) -> None:
    async def refusal(accept: str, path: str = MAPS, **query: str) -> str:
        answer = await client.get(path, params=query, headers={"Accept": accept})
        assert answer.status_code == 406, answer.text
        return str(yaml.safe_load(answer.text)["message"])

    assert await refusal("text/html") == f"{_AVAILABLE}{_ALL}, {_STREAM}, {_PROTOBUF};stream=watch"
    assert await refusal("application/json;stream=x") == f"{_ONLY}{_ALL}"
    assert await refusal("application/yaml", watch="1") == f"{_ONLY}{_STREAM}, {_PROTOBUF};stream=watch"
    for path in ("/api", "/api/v1", "/apis/apps/v1"):
        assert await refusal("text/html", path) == f"{_AVAILABLE}{_ALL}"
    for path in ("/apis", "/apis/apps"):
        # The aggregator answers these paths, without a router before it.
        assert await refusal("text/html", path) == f"{_ONLY}{_ALL}"
    assert await refusal("application/yaml", "/version") == f"{_AVAILABLE}application/json"
    taken = {"Accept": f"{_PROTOBUF};as=Table;g=meta.k8s.io;v=v1,application/json;stream=watch"}
    watched = await client.get(MAPS, params={"watch": "1", "timeoutSeconds": "1"}, headers=taken)
    assert (watched.status_code, watched.headers["content-type"]) == (200, "application/json")
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    assert (await client.get("/apis", headers=browser)).status_code == 200


@each_case("media", ["text/plain", "application/x-www-form-urlencoded", "application/*", "x"])
async def test_bodies_of_unsupported_media_types_are_rejected(client: httpx.AsyncClient, media: str) -> None:
    headers = {"Content-Type": media}
    text = f"the body of the request was in an unknown format - accepted media types include: {_ALL}"
    for method, path in (("POST", MAPS), ("PUT", f"{MAPS}/x"), ("DELETE", f"{MAPS}/x")):
        answer = await client.request(method, path, content=b"{}", headers=headers)
        assert (answer.status_code, answer.json()["message"]) == (415, text), method
        assert answer.json()["reason"] == "UnsupportedMediaType"
    patched = await client.patch(f"{MAPS}/x", content=b"{}", headers=headers)
    assert (patched.status_code, patched.json()["message"]) == (415, "415: Unsupported Media Type")


async def test_tables_are_available_in_the_older_version(client: httpx.AsyncClient) -> None:
    await client.post(MAPS, json={"metadata": {"name": "c"}})
    shown = (await client.get(MAPS, headers={"Accept": f"{TABLE}v1beta1"})).json()
    assert shown["apiVersion"] == shown["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"
    answer = await client.get(MAPS, params={"includeObject": "Foo"}, headers={"Accept": f"{TABLE}v1"})
    assert answer.json()["message"] == (
        'Unable to convert to Table as requested: includeObject: Invalid value: "Foo": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )


@each_case("name", ["a", "kubernete"])
async def test_finalizers_must_be_qualified_names(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post(MAPS, json={"metadata": {"name": "c", "finalizers": ["orphan", name]}})
    assert answer.status_code == 422
    text = "name is neither a standard finalizer name nor is it fully qualified"
    assert answer.json()["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": f'Invalid value: "{name}": {text}',
            "field": "metadata.finalizers[1]",
        }
    ]


@each_case("method", ["HEAD", "OPTIONS", "TRACE"])
async def test_unsupported_methods_of_resources_are_rejected(client: httpx.AsyncClient, method: str) -> None:
    for url in (MAPS, f"{MAPS}/c", f"{RESOURCE}/deviceclasses"):
        answer = await client.request(method, url)
        assert (answer.status_code, answer.headers["content-type"]) == (405, "application/json")


@each_case(
    ("accept", "media_type"),
    [
        ("*/*, application/yaml", "application/yaml"),
        ("*/*;q=1, application/yaml;q=0.1", "application/yaml"),
        ("application/json;q=x, application/yaml;q=0.1", "application/yaml"),
        ("application/yaml;q=0.4, application/json;q=0.5", "application/json"),
        ("application/yaml, application/json", "application/yaml"),
        # Qualities only define an order; they exclude nothing.
        ("application/yaml;q=0", "application/yaml"),
        ("application/json;q=0, application/yaml;q=0.1", "application/yaml"),
        ("application/json;q=0, */*", "application/json"),
        # A parameter without a value counts as absent.
        ("application/yaml;q=, application/json;q=0.9", "application/yaml"),
        ("application/yaml;q, application/json;q=0.9", "application/yaml"),
        ("application/yaml;q= 1, application/json;q=0.1", "application/json"),
        ("application/json;as=, application/yaml", "application/json"),
        ("json, application/yaml", "application/yaml"),
        ("*, application/yaml;q=0.1", "application/yaml"),
    ],
)
async def test_accepted_media_types_are_ordered_as_in_gos_library(
    client: httpx.AsyncClient, accept: str, media_type: str
) -> None:
    """Check that a concrete type precedes a wildcard, and that a quality that is not a number counts as 0."""
    answer = await client.get(MAPS, headers={"Accept": accept})
    assert answer.headers["content-type"] == media_type


@each_case(
    ("accept", "media_type"),
    [
        (f"{TABLE}v1", "application/json"),
        ("application/yaml;as=Table;g=meta.k8s.io;v=v1", "application/json"),
        (f"{_PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json"),
        (f"{TABLE}v1,application/yaml", "application/yaml"),
        (f"{_PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{_PROTOBUF}", _PROTOBUF),
        (f"application/yaml;sv=v1,{_PROTOBUF}", _PROTOBUF),
    ],
)
async def test_errors_have_the_media_type_of_the_first_accepted_form(
    client: httpx.AsyncClient, accept: str, media_type: str
) -> None:
    """Check that objects without a protobuf message are shown as indented JSON (`WriteRawJSON`)."""
    answer = await client.get(f"{MAPS}/missing", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (404, media_type)
    if media_type == "application/json":
        assert answer.text.startswith('{\n  "kind": "Status",\n  "apiVersion": "v1"')


async def test_an_accept_header_can_request_indented_json(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api", headers={"Accept": "application/json;pretty=1"})
    assert answer.text.startswith('{\n  "kind": "APIVersions"')


async def test_partial_metadata_is_requested_by_kind(client: httpx.AsyncClient) -> None:
    await client.post(MAPS, json={"metadata": {"name": "c1"}})
    accept = "application/json;g=meta.k8s.io;v=v1;as=PartialObjectMetadata"
    for path, kind, text in (
        (
            MAPS,
            "",
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        ),
        (
            f"{MAPS}/c1",
            "List",
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)",
        ),
    ):
        refused = await client.get(path, headers={"Accept": accept + kind})
        assert (refused.status_code, refused.json()["message"]) == (406, text)
        assert refused.json()["reason"] == "NotAcceptable"
    for path, kind in ((MAPS, "List"), (f"{MAPS}/c1", "")):
        given = await client.get(path, headers={"Accept": accept + kind})
        assert given.json()["kind"] == f"PartialObjectMetadata{kind}"


@each_case("name", ["limit", "timeoutSeconds"])
@each_case("value", ["", "x", "9223372036854775808"])
async def test_numbers_in_a_query_are_parsed_as_64_bit_integers(
    client: httpx.AsyncClient, name: str, value: str
) -> None:
    problem = "value out of range" if value[:1].isdigit() else "invalid syntax"
    listed = await client.get(MAPS, params={name: value})
    deleted = await client.delete(f"{MAPS}/x", params={"gracePeriodSeconds": value})
    for answer in (listed, deleted):
        assert (answer.status_code, answer.json()["message"]) == (
            400,
            f'strconv.ParseInt: parsing "{value}": {problem}',
        )


async def test_a_deletes_preconditions_may_be_in_its_query(client: httpx.AsyncClient) -> None:
    made = (await client.post(MAPS, json={"metadata": {"name": "c"}})).json()["metadata"]
    for query in ({"uid": "other"}, {"resourceVersion": "1"}, {"uid": made["uid"], "resourceVersion": "1"}):
        refused = await client.delete(f"{MAPS}/c", params=query)
        assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
        assert refused.json()["message"].startswith('Operation cannot be fulfilled on ConfigMap "c"')
    right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    assert (await client.delete(f"{MAPS}/c", params=right)).status_code == 200
