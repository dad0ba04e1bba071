"""Test recorded patches: the resulting objects, and the owners of their fields."""

import copy
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from dra_apiserver import schema
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.patch import JSON_PATCH, MERGE_PATCH, PatchError, track_update
from dra_shared.jsontypes import JsonObject

from tests.apiserver.patch.patching import patch_object
from tests.support.cases import each_case
from tests.support.reference import reference_path

CONVERSATIONS = (
    "create",
    "patch",
    "strategic",
    "status",
    "update",
    "classes",
    "rules",
    "templates",
    "versions",
)
REGISTRY = catalog.registry("api/all=true")


def steps() -> Iterator[Any]:
    """Yield each successful write with the object before it."""
    for name in CONVERSATIONS:
        known: dict[str, JsonObject] = {}
        recorded = reference_path("golden", "http", f"{name}.json").read_text()
        for index, step in enumerate(json.loads(recorded.replace('"TIME"', '"2026-11-20T15:00:00Z"'))):
            request, response = step["request"], step["response"]
            body = response["body"]
            if (
                response["code"] not in (200, 201)
                or "items" in body
                or "name" not in body.get("metadata", {})
            ):
                continue
            url = urlsplit(request["path"])
            if body.get("kind") == "Status" or request["method"] == "DELETE":
                continue
            key = f"{body['kind']}/{body['metadata']['name']}"
            if request["method"] in ("POST", "PUT", "PATCH") and isinstance(request["body"], dict | list):
                yield pytest.param(request["path"], request, known.get(key), body, id=f"{name}-{index}")
            if "dryRun" not in url.query:
                known[key] = body


STEPS = list(steps())


def kind_at(path: str) -> tuple[Kind, str, str]:
    parts = urlsplit(path).path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    kind = REGISTRY.resource(group, version, rest[0])
    assert kind is not None
    return kind, version, rest[2] if len(rest) > 2 else ""


def timeless(entries: Any) -> Any:
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries or ()]


@each_case(("path", "request_", "before", "after"), STEPS)
def test_managed_fields_follow_every_write(
    path: str, request_: JsonObject, before: JsonObject | None, after: JsonObject
) -> None:
    kind, version, subresource = kind_at(path)
    if before is not None and before["apiVersion"] != after["apiVersion"]:
        pytest.skip("the object was read in another version before: needs conversion")
    new = copy.deepcopy(after)
    new["metadata"].pop("managedFields", None)
    old = None if request_["method"] == "POST" else before
    if old is None:
        # Fields that the server adds to a pod after the tracking have no owner.
        for name in ("priority", "preemptionPolicy", "volumes", "serviceAccount", "serviceAccountName"):
            if kind.kind == "Pod":
                new["spec"].pop(name, None)
        if kind.kind == "Pod":
            new["status"] = {}
            for container in new["spec"]["containers"]:
                container.pop("volumeMounts", None)
    manager = parse_qs(urlsplit(path).query).get("fieldManager", ["Python-urllib"])[0]
    track_update(kind, version, old, new, manager=manager, subresource=subresource, now="TIME")
    expected = timeless(after["metadata"].get("managedFields"))
    assert timeless(new["metadata"].get("managedFields")) == expected


@each_case(("path", "request_", "before", "after"), STEPS)
def test_decoded_and_defaulted_objects_equal_the_recorded_ones(
    path: str, request_: JsonObject, before: JsonObject | None, after: JsonObject
) -> None:
    kind, version, subresource = kind_at(path)
    if request_["method"] != "POST" or subresource or kind.kind == "Pod":
        pytest.skip("only creates of kinds that admission leaves alone")
    decoded = schema.decode(REGISTRY, kind, version, orjson.dumps(request_["body"]))
    schema.default(kind, version, decoded.obj)
    made = decoded.obj
    made["metadata"] = {key: value for key, value in made["metadata"].items() if key != "namespace"}
    expected = copy.deepcopy(after)
    for name in ("creationTimestamp", "managedFields", "resourceVersion", "uid", "generation", "namespace"):
        expected["metadata"].pop(name, None)
    if "generateName" in made["metadata"]:
        expected["metadata"].pop("name", None)
    taint = expected.get("spec", {}).get("taint", {})
    taint.pop("timeAdded", None)
    if "status" not in request_["body"]:
        assert made == expected


@each_case(("path", "request_", "before", "after"), STEPS)
def test_patches_result_in_the_recorded_object(
    path: str, request_: JsonObject, before: JsonObject | None, after: JsonObject
) -> None:
    kind, version, subresource = kind_at(path)
    if request_["method"] != "PATCH" or before is None or before["apiVersion"] != after["apiVersion"]:
        pytest.skip("no patch of a known object")
    made = patch_object(
        kind,
        version,
        copy.deepcopy(before),
        orjson.dumps(request_["body"]),
        request_["headers"]["Content-Type"],
    )
    schema.sanitize(schema.object_type(kind, version), made)
    schema.default(kind, version, made)
    part = "status" if subresource == "status" else "spec"
    assert made.get(part) == after.get(part)
    assert made["metadata"].get("labels") == after["metadata"].get("labels")


def find_failing() -> Iterator[Any]:
    for index, step in enumerate(json.loads(reference_path("golden", "http", "patch.json").read_text())):
        request, response = step["request"], step["response"]
        media_type = request["headers"].get("Content-Type")
        if media_type in (JSON_PATCH, MERGE_PATCH, "application/json") and response["code"] in (
            400,
            415,
            422,
        ):
            body = request["body"]
            if (
                response["body"].get("details", {}).get("causes")
                or "on the URL" in response["body"]["message"]
            ):
                continue
            yield pytest.param(media_type, body, response["body"], id=f"patch-{index}")


@pytest.mark.parametrize(("media_type", "body", "status"), list(find_failing()))
def test_bad_patches_fail_as_recorded(media_type: str, body: Any, status: JsonObject) -> None:
    kind = REGISTRY.get("resource.k8s.io", "resourceclaims")
    assert kind is not None
    obj = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"labels": {"z": "3"}}}
    data = body.encode() if isinstance(body, str) else orjson.dumps(body)
    with pytest.raises(PatchError) as caught:
        patch_object(kind, "v1", obj, data, media_type)
    assert (caught.value.code, caught.value.reason, str(caught.value)) == (
        status["code"],
        status["reason"],
        status["message"],
    )
