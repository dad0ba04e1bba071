"""Test requests and answers in CBOR, and its feature gate."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver import cbor
from dra_apiserver.config import Config
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.features import FeatureGates

from tests.support.cases import each_case

CBOR = {"Accept": "application/cbor"}
BODY = {"Content-Type": "application/cbor"}
APPLY = {"Content-Type": "application/apply-patch+cbor"}
MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    features = FeatureGates(CBORServingAndStorage=True)
    return Config(port=0, data=tmp_path, database=IN_MEMORY, features=features)


def _read(answer: httpx.Response, media_type: str = "application/cbor") -> Any:
    assert answer.headers["content-type"] == media_type
    assert answer.content.startswith(cbor.SELF_DESCRIBED)
    return cbor.decode(answer.content)


def _map(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


async def test_objects_are_written_and_read_in_cbor(client: httpx.AsyncClient) -> None:
    body = cbor.encode(_map("a", data={"x": "y"}))
    made = await client.post(MAPS, content=body, headers={**CBOR, **BODY})
    assert (made.status_code, _read(made)["data"]) == (201, {"x": "y"})
    shown = (await client.get(f"{MAPS}/a")).json()
    assert _read(await client.get(f"{MAPS}/a", headers=CBOR)) == shown
    shown["data"] = {"x": "z"}
    put = await client.put(f"{MAPS}/a", content=cbor.encode(shown), headers=BODY)
    assert (put.status_code, put.json()["data"]) == (200, {"x": "z"})


async def test_byte_fields_are_sent_as_byte_strings(client: httpx.AsyncClient) -> None:
    body = cbor.encode({"metadata": {"name": "s"}, "data": {"x": b"abc"}})
    made = await client.post(SECRETS, content=body, headers=BODY)
    assert made.json()["data"] == {"x": "YWJj"}
    assert b"\x41x\xd6\x43abc" in (await client.get(f"{SECRETS}/s", headers=CBOR)).content


async def test_lists_and_tables_are_in_cbor(client: httpx.AsyncClient) -> None:
    await client.post(MAPS, json=_map("a"))
    listed = (await client.get(MAPS)).json()
    assert _read(await client.get(MAPS, headers=CBOR)) == listed
    table = {"Accept": "application/cbor;as=Table;g=meta.k8s.io;v=v1"}
    found = _read(await client.get(MAPS, headers=table))
    assert (found["kind"], len(found["rows"])) == ("Table", len(listed["items"]))


async def test_error_statuses_are_in_cbor(client: httpx.AsyncClient) -> None:
    missing = await client.get(f"{MAPS}/missing", headers=CBOR)
    assert (missing.status_code, _read(missing)["reason"]) == (404, "NotFound")


async def test_apply_accepts_cbor(client: httpx.AsyncClient) -> None:
    body = cbor.encode(_map("applied", data={"x": "y"}))
    made = await client.patch(f"{MAPS}/applied?fieldManager=me", content=body, headers=APPLY)
    assert (made.status_code, made.json()["metadata"]["managedFields"][0]["operation"]) == (201, "Apply")
    odd = await client.patch(f"{MAPS}/applied?fieldManager=me", content=b"\xa1", headers=APPLY)
    assert (odd.status_code, odd.json()["message"]) == (400, "error decoding patch: unexpected EOF")
    array = await client.patch(f"{MAPS}/applied?fieldManager=me", content=b"\x80", headers=APPLY)
    problem = "cbor: cannot unmarshal array into Go value of type map[string]interface {}"
    assert (array.status_code, array.json()["message"]) == (400, f"error decoding patch: {problem}")


async def test_a_watch_is_a_cbor_sequence(client: httpx.AsyncClient) -> None:
    await client.post(MAPS, json=_map("seen"))
    seen = b""
    wanted = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan",
              "allowWatchBookmarks": "true", "fieldSelector": "metadata.name=seen"}  # fmt: skip
    async with client.stream(
        "GET", MAPS, params=wanted, headers={**CBOR, "Accept-Encoding": "identity"}
    ) as answer:
        assert answer.headers["content-type"] == "application/cbor-seq"
        async for chunk in answer.aiter_raw():
            seen += chunk
            if b"BOOKMARK" in seen:
                break
    first, second = (
        cbor.SELF_DESCRIBED + part for part in seen.split(cbor.SELF_DESCRIBED + b"\xa2\x44type")[1:]
    )
    assert b"\x45ADDED\x46object" + cbor.SELF_DESCRIBED in first
    assert b"k8s.io/initial-events-end" in second


async def test_delete_options_are_read_from_cbor(client: httpx.AsyncClient) -> None:
    await client.post(MAPS, json=_map("gone"))
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}}
    refused = await client.request("DELETE", f"{MAPS}/gone", content=cbor.encode(options), headers=BODY)
    assert refused.status_code == 409
    odd = await client.request("DELETE", f"{MAPS}/gone", content=b"\xa1", headers=BODY)
    assert odd.json()["message"] == "unable to determine group/version/kind: unexpected EOF"


@each_case(
    ("body", "message"),
    [
        (b"\xa1\x41a", "the object provided is unrecognized (must be of type ConfigMap): "
                       "unable to determine group/version/kind: unexpected EOF (a14161)"),
        (b"\xa2\x41a\x01\x41a\x02", "the object provided is unrecognized (must be of type ConfigMap): unable to "
                                    'determine group/version/kind: cbor: found duplicate map key "a" at map '
                                    "element index 1 (a2416101416102)"),
        (b"\xa1\x44data\xa2\x41a\x41b\x41a\x41b", 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
                                                 'cbor: found duplicate map key "a" at map element index 1'),
    ],
)  # fmt: skip
async def test_invalid_cbor_bodies_are_rejected(client: httpx.AsyncClient, body: bytes, message: str) -> None:
    answer = await client.post(MAPS, content=body, headers=BODY)
    assert (answer.status_code, answer.json()["message"]) == (400, message)


async def test_the_error_for_an_unknown_field_gives_its_position_in_the_map(
    client: httpx.AsyncClient,
) -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}, {"name": "d", "image": "i", "strange": 1}]},
    }
    path = "/api/v1/namespaces/default/pods"
    answer = await client.post(f"{path}?fieldValidation=Strict", content=cbor.encode(pod), headers=BODY)
    problem = "strict decoding error: cbor: found unknown field at map element index 2"
    assert answer.json()["message"] == f'Pod in version "v1" cannot be handled as a Pod: {problem}'
    warned = await client.post(f"{path}?dryRun=All", content=cbor.encode(pod), headers=BODY)
    assert warned.headers["warning"] == '299 - "cbor: found unknown field at map element index 2"'


async def test_discovery_and_openapi_are_available_in_cbor(client: httpx.AsyncClient) -> None:
    assert _read(await client.get("/api/v1", headers=CBOR)) == (await client.get("/api/v1")).json()
    parameters = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    found = await client.get("/apis", headers={"Accept": f"application/cbor;{parameters}"})
    assert _read(found, f"application/cbor;{parameters}")["kind"] == "APIGroupDiscoveryList"
    document = (await client.get("/openapi/v3/api/v1")).json()
    patch = document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"]
    assert "application/apply-patch+cbor" in patch["requestBody"]["content"]


async def test_error_messages_list_cbor_among_the_media_types(client: httpx.AsyncClient) -> None:
    answer = await client.post(MAPS, content=b"x", headers={"Content-Type": "text/plain"})
    assert answer.json()["message"].endswith("application/vnd.kubernetes.protobuf, application/cbor")
    answer = await client.get(MAPS, headers={"Accept": "text/plain"})
    assert (answer.status_code, "application/cbor-seq" in answer.text) == (406, True)


class TestWithoutTheGate:
    """Check upstream's answers with the feature gate off, which is the default."""

    @pytest.fixture
    def config(self, tmp_path: Path) -> Config:
        return Config(port=0, data=tmp_path, database=IN_MEMORY)

    async def test_cbor_is_rejected_if_its_feature_gate_is_disabled(self, client: httpx.AsyncClient) -> None:
        body = cbor.encode(_map("a"))
        answers = [
            await client.post(MAPS, content=body, headers=BODY),
            await client.patch(f"{MAPS}/a?fieldManager=me", content=body, headers=APPLY),
            await client.get(MAPS, headers=CBOR),
        ]
        assert [answer.status_code for answer in answers] == [415, 415, 406]
        assert all("cbor" not in answer.text for answer in answers)
        fallback = await client.get(MAPS, headers={"Accept": "application/cbor,application/json"})
        assert fallback.headers["content-type"] == "application/json"
