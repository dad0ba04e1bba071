"""Test conversion webhooks with a real webhook. The texts are those of apiextensions-apiserver 0.37.0."""

import copy
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_shared.jsontypes import JsonObject

from tests.apiserver.kinds.admissionregistration.dynamic.hook import BUNDLE, Hook
from tests.support.waiting import until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1 = "/apis/example.com/v1/namespaces/default/widgets"
V2 = "/apis/example.com/v2/namespaces/default/widgets"
GVK = "example.com/v1, Kind=Widget"


def version(name: str, field: str, *, storage: bool = False) -> JsonObject:
    properties = {field: {"type": "integer"}, "color": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "required": [field], "properties": properties},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": f".spec.{field}", "statusReplicasPath": ".status.n"},
        },
        "schema": {"openAPIV3Schema": schema},
    }


def definition(config: JsonObject | None, reviews: tuple[str, ...] = ("v1",)) -> JsonObject:
    """Return a definition whose field `size` in v1, the storage version, is called `width` in v2."""
    conversion: JsonObject = {"strategy": "None"}
    if config is not None:
        webhook = {"clientConfig": config, "conversionReviewVersions": list(reviews)}
        conversion = {"strategy": "Webhook", "webhook": webhook}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "conversion": conversion,
            "versions": [version("v1", "size", storage=True), version("v2", "width")],
        },
    }


def rename(request: JsonObject, response: JsonObject) -> None:
    """Convert the objects of a review."""
    made = []
    wanted = request["desiredAPIVersion"]
    for obj in copy.deepcopy(request["objects"]):
        before, after = ("size", "width") if wanted.endswith("/v2") else ("width", "size")
        obj["apiVersion"] = wanted
        if before in obj["spec"]:
            obj["spec"][after] = obj["spec"].pop(before)
        made.append(obj)
    response.pop("allowed")
    response.update(convertedObjects=made, result={"status": "Success"})


def widget(name: str, **spec: Any) -> JsonObject:
    api_version = "example.com/v2" if "width" in spec else "example.com/v1"
    return {"apiVersion": api_version, "kind": "Widget", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook() as started:
        started.behaviours["/convert"] = rename
        yield started


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with ApiServer(Config(data=tmp_path, port=0, relaxed=True)) as started:
        yield started


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as opened:
        yield opened


async def serve(client: httpx.AsyncClient, crd: JsonObject) -> None:
    answer = await client.post(CRDS, json=crd)
    assert answer.status_code == 201, answer.text

    async def is_served() -> bool:
        return (await client.get(V2)).status_code == 200

    await until(is_served)


async def create(client: httpx.AsyncClient, path: str, obj: JsonObject) -> JsonObject:
    answer = await client.post(path, json=obj)
    assert answer.status_code == 201, answer.text
    made: JsonObject = answer.json()
    return made


async def test_review_has_the_object_and_the_desired_version(client: httpx.AsyncClient, hook: Hook) -> None:
    await serve(client, definition(hook.url("/convert")))
    stored = await create(client, V1, widget("a", size=3))
    assert hook.reviews == []
    shown = (await client.get(f"{V2}/a")).json()
    assert (shown["apiVersion"], shown["spec"]) == ("example.com/v2", {"width": 3})
    assert shown["metadata"] == stored["metadata"]
    (review,) = hook.reviews
    assert hook.paths == ["/convert?timeout=30s"]
    assert review.pop("request").keys() == {"uid", "desiredAPIVersion", "objects"}
    assert review == {
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
    }


async def test_writes_in_another_version_are_stored_converted(client: httpx.AsyncClient, hook: Hook) -> None:
    await serve(client, definition(hook.url("/convert")))
    made = await create(client, V2, widget("a", width=3))
    assert made["spec"] == {"width": 3}
    assert (await client.get(f"{V1}/a")).json()["spec"] == {"size": 3}
    made["spec"]["width"] = 4
    answer = await client.put(f"{V2}/a", json=made)
    assert answer.json()["spec"] == {"width": 4}
    merge = {"Content-Type": "application/merge-patch+json"}
    answer = await client.patch(f"{V2}/a", content=b'{"spec":{"color":"red"}}', headers=merge)
    assert answer.json()["spec"] == {"width": 4, "color": "red"}
    assert (await client.get(f"{V1}/a")).json()["spec"] == {"size": 4, "color": "red"}
    answer = await client.patch(f"{V2}/a/status", content=b'{"status":{"n":2}}', headers=merge)
    assert answer.json()["status"] == {"n": 2}
    scale = (await client.get(f"{V2}/a/scale")).json()
    assert (scale["spec"], scale["status"]) == ({"replicas": 4}, {"replicas": 2})
    answer = await client.patch(f"{V2}/a/scale", content=b'{"spec":{"replicas":5}}', headers=merge)
    assert answer.json()["spec"] == {"replicas": 5}
    assert (await client.get(f"{V1}/a")).json()["spec"] == {"size": 5, "color": "red"}
    applied = dict(widget("a", width=6), metadata={"name": "a"})
    apply = {"Content-Type": "application/apply-patch+yaml"}
    answer = await client.patch(f"{V2}/a?fieldManager=me&force=true", json=applied, headers=apply)
    assert answer.json()["spec"]["width"] == 6
    assert (await client.get(f"{V1}/a")).json()["spec"] == {"size": 6, "color": "red"}
    assert (await client.delete(f"{V2}/a")).json()["status"] == "Success"
    assert (await client.get(f"{V1}/a")).status_code == 404


async def test_objects_are_validated_in_the_version_of_the_request(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    await serve(client, definition(hook.url("/convert")))
    answer = await client.post(V2, json={**widget("a", width=1), "spec": {"size": 1}})
    assert answer.status_code == 422
    assert answer.json()["message"] == 'Widget.example.com "a" is invalid: spec.width: Required value'


async def test_lists_and_watches_are_converted(client: httpx.AsyncClient, hook: Hook) -> None:
    await serve(client, definition(hook.url("/convert")))
    for number in range(3):
        await create(client, V1, widget(f"w{number}", size=number))
    listed = (await client.get(V2)).json()
    assert [item["spec"] for item in listed["items"]] == [{"width": 0}, {"width": 1}, {"width": 2}]
    assert len(hook.reviews) == 3
    await client.get(V2)
    # A revision is converted once for lists and watches, as upstream's watch cache does.
    assert len(hook.reviews) == 3
    async with client.stream("GET", f"{V2}?watch=true") as stream:
        events = (orjson.loads(line) async for line in stream.aiter_lines())
        first = [await anext(events) for _ in range(3)]
        assert [event["object"]["spec"] for event in first] == [{"width": 0}, {"width": 1}, {"width": 2}]
        await create(client, V1, widget("late", size=9))
        event = await anext(events)
        assert (event["type"], event["object"]["apiVersion"]) == ("ADDED", "example.com/v2")
        assert event["object"]["spec"] == {"width": 9}
        await client.delete(f"{V1}/late")
        event = await anext(events)
        assert (event["type"], event["object"]["spec"]) == ("DELETED", {"width": 9})
        hook.answers["/convert"] = lambda answer: answer["response"].update(result={"status": "Failure"})
        await create(client, V1, widget("bad", size=9))
        event = await anext(events)
        assert event["type"] == "ERROR"
        text = f"conversion webhook for {GVK} failed: response.result.status was 'Failure', not 'Success'"
        assert event["object"]["message"] == text


async def test_watch_with_a_selector_converts_the_state_before_an_object_left_it(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    await serve(client, definition(hook.url("/convert")))
    obj = widget("a", size=1)
    obj["metadata"]["labels"] = {"keep": "yes"}
    made = await create(client, V1, obj)
    async with client.stream("GET", f"{V2}?watch=true&labelSelector=keep%3Dyes") as stream:
        events = (orjson.loads(line) async for line in stream.aiter_lines())
        assert (await anext(events))["object"]["spec"] == {"width": 1}
        made["metadata"]["labels"] = {}
        made["spec"]["size"] = 2
        await client.put(f"{V1}/a", json=made)
        event = await anext(events)
        assert (event["type"], event["object"]["spec"]) == ("DELETED", {"width": 1})


def change_first(change: Callable[[JsonObject], None]) -> Callable[[JsonObject], None]:
    return lambda answer: change(answer["response"]["convertedObjects"][0])


FAILURES: dict[str, tuple[Callable[[JsonObject], None], str]] = {
    "message": (
        lambda answer: answer["response"].update(result={"status": "Failure", "message": "I won't"}),
        f"conversion webhook for {GVK} failed: I won't",
    ),
    "kind of the review": (
        lambda answer: answer.update(kind="AdmissionReview"),
        f"conversion webhook for {GVK} failed: expected webhook response of apiextensions.k8s.io/v1, "
        "Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=AdmissionReview",
    ),
    "no response": (
        lambda answer: answer.pop("response"),
        f"conversion webhook for {GVK} failed: no response provided",
    ),
    "number of objects": (
        lambda answer: answer["response"].update(convertedObjects=[]),
        f"conversion webhook for {GVK} returned 0 objects, expected 1",
    ),
    "version": (
        change_first(lambda obj: obj.update(apiVersion="example.com/v3")),
        f"conversion webhook for {GVK} returned invalid object at index 0: invalid groupVersion "
        "(expected example.com/v2, received example.com/v3)",
    ),
    "kind": (
        change_first(lambda obj: obj.update(kind="Gadget")),
        f"conversion webhook for {GVK} returned invalid object at index 0: invalid kind "
        "(expected Widget, received Gadget)",
    ),
    "name": (
        change_first(lambda obj: obj["metadata"].update(name="b")),
        f"conversion webhook for {GVK} returned invalid object: must have the same name: a != b",
    ),
    "label": (
        change_first(lambda obj: obj["metadata"].update(labels={"a": 1})),
        f"conversion webhook for {GVK} returned invalid metadata: metadata.labels[a] must be a string, "
        "but is int64 in converted object",
    ),
    "labels": (
        change_first(lambda obj: obj["metadata"].update(labels=["a"])),
        f"conversion webhook for {GVK} returned invalid metadata: invalid metadata.labels of type "
        "[]interface {} in converted object",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_invalid_responses_fail_the_request(
    client: httpx.AsyncClient, hook: Hook, failure: str
) -> None:
    await serve(client, definition(hook.url("/convert")))
    await create(client, V1, widget("a", size=1))
    change, message = FAILURES[failure]
    hook.answers["/convert"] = change
    answer = await client.get(f"{V2}/a")
    assert answer.status_code == 500
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": 500,
    }
    assert (await client.get(V2)).json()["message"] == message
    del hook.answers["/convert"]
    assert (await client.get(f"{V2}/a")).json()["spec"] == {"width": 1}


async def test_metadata_other_than_labels_and_annotations_is_kept(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    def change(obj: JsonObject) -> None:
        obj["metadata"].update(labels={"x": "y"}, generation=77, finalizers=["example.com/f"])
        obj["spec"]["unknown"] = 1

    await serve(client, definition(hook.url("/convert")))
    made = await create(client, V1, widget("a", size=1))
    hook.answers["/convert"] = change_first(change)
    shown = (await client.get(f"{V2}/a")).json()
    assert shown["metadata"] == {**made["metadata"], "labels": {"x": "y"}}
    assert shown["spec"] == {"width": 1}


async def test_webhook_of_a_service_is_found_by_its_endpoints(client: httpx.AsyncClient, hook: Hook) -> None:
    service = {"name": "hook", "namespace": "default", "path": "/convert", "port": 443}
    await serve(client, definition({"service": service, "caBundle": BUNDLE}))
    await create(client, V1, widget("a", size=1))
    answer = await client.get(f"{V2}/a")
    url = "https://hook.default.svc:443/convert?timeout=30s"
    failed = f'conversion webhook for {GVK} failed: Post "{url}": service "hook" not found'
    assert (answer.status_code, answer.json()["message"]) == (500, failed)
    await create(
        client,
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443, "targetPort": hook.port}]}},
    )
    endpoints = {
        "metadata": {"name": "hook", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": hook.port}],
        "endpoints": [{"addresses": ["127.0.0.1"]}],
    }
    await create(client, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", endpoints)
    assert (await client.get(f"{V2}/a")).json()["spec"] == {"width": 1}


async def test_older_reviews_need_no_uid(client: httpx.AsyncClient, hook: Hook) -> None:
    await serve(client, definition(hook.url("/convert"), ("v7", "v1beta1", "v1")))
    await create(client, V1, widget("a", size=1))
    hook.answers["/convert"] = lambda answer: answer["response"].pop("uid")
    assert (await client.get(f"{V2}/a")).json()["spec"] == {"width": 1}
    assert hook.reviews[0]["apiVersion"] == "apiextensions.k8s.io/v1beta1"


async def test_objects_stored_before_a_change_of_the_storage_version_are_converted(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    await serve(client, definition(hook.url("/convert")))
    await create(client, V1, widget("a", size=1))
    await store_as_v2(client)
    assert (await client.get(f"{V2}/a")).json()["spec"] == {"width": 1}
    assert (await client.get(f"{V1}/a")).json()["spec"] == {"size": 1}


async def store_as_v2(client: httpx.AsyncClient) -> None:
    crd = (await client.get(f"{CRDS}/widgets.example.com")).json()
    for one in crd["spec"]["versions"]:
        one["storage"] = one["name"] == "v2"
    answer = await client.put(f"{CRDS}/widgets.example.com", json=crd)
    assert answer.status_code == 200, answer.text
    made = await create(client, V2, widget("b", width=2))
    assert made["spec"] == {"width": 2}


async def test_stored_objects_have_the_version_of_the_request_without_a_webhook(
    client: httpx.AsyncClient,
) -> None:
    await serve(client, definition(None))
    await create(client, V1, widget("a", size=1))
    await store_as_v2(client)
    listed = (await client.get(V2)).json()
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    shown = (await client.get(f"{V2}/a")).json()
    assert shown["apiVersion"] == "example.com/v2"
