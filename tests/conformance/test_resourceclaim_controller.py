"""Upstream's test cases of the claim controller of kube-controller-manager."""

from typing import Any

import pytest
from dra_controller.framework import Context
from dra_controller.resourceclaim import ResourceClaimController
from dra_controller.resourceclaim.generate import TemplateError, admin_access_label
from dra_controller.resourceclaim.views import SyncError
from dra_shared.api.codec import convert, to_builtins
from dra_shared.api.resources import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import Informer, InformerFactory
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.podgroups import pod_groups
from dra_shared.version import V1_36
from prometheus_client import CollectorRegistry

from tests.support.cases import each_case
from tests.support.fakeapi import Call, FakeApi
from tests.support.reference import load_vectors

_RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource
    for resource in (PODS, pod_groups(V1_36), RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
}


class _World:
    """The controller with informers that tests fill by hand."""

    def __init__(self, features: dict[str, bool]) -> None:
        self.api = FakeApi()
        # As in upstream's tests, a number replaces the random characters that the API server appends.
        self.api.numbered = lambda prefix, taken: f"{prefix}-{taken + 1}"
        self.client = self.api.client()
        self.clock = FakeClock()
        self.informers = InformerFactory(self.client, self.clock)
        self.registry = CollectorRegistry()
        self.controller = ResourceClaimController(
            Context(self.client, self.informers, self.clock, FeatureGates(V1_36, **features), self.registry)
        )

    def informer(self, kind: str) -> Informer[Any]:
        return self.informers.informer(_RESOURCES[kind])

    def store(self, *objects: JsonObject) -> None:
        """Have the informers observe objects."""
        for obj in objects:
            self.informer(obj["kind"])._apply(_decode(obj))

    def delete(self, obj: JsonObject) -> None:
        typed = _decode(obj)
        self.informer(obj["kind"])._remove(typed.key, typed)

    def queued_keys(self) -> list[str]:
        queue = self.controller.queue
        return list(queue._ready)

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


def _decode(obj: JsonObject) -> Any:
    # Go's encoder writes null for an absent value. A pointer to the zero time is a deletion too.
    return convert(_RESOURCES[obj["kind"]], _without_nulls(_with_deletion(obj)))


def _with_deletion(obj: JsonObject) -> JsonObject:
    meta = dict(obj["metadata"])
    if "deletionTimestamp" in meta:
        meta["deletionTimestamp"] = meta["deletionTimestamp"] or "1970-01-01T00:00:00Z"
    return {**obj, "metadata": meta}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _same(obj: JsonObject) -> JsonObject:
    """Return a form in which equivalent objects are equal, without fields that only an API server sets."""
    typed = to_builtins(_decode(obj))
    typed.pop("apiVersion", None)
    assert isinstance(typed, dict)
    typed["metadata"].pop("resourceVersion", None)
    if typed["metadata"].get("uid", "").startswith("UID-") or typed["metadata"].get("uid", "").endswith(
        "-uid"
    ):
        del typed["metadata"]["uid"]
        typed["metadata"].pop("creationTimestamp", None)
    return typed


def _cases(test: str) -> list[Any]:
    return [
        pytest.param(case, id=case["name"])
        for case in load_vectors("resourceclaim_controller.json.gz")
        if case["test"] == test
    ]


@each_case("case", _cases("TestSyncHandler"))
async def test_the_result_of_syncing_a_key_agrees_with_upstream(case: JsonObject) -> None:
    world = _World(case["features"])
    for field in ("pods", "podGroups", "claims", "templates", "podsNotInInformer", "claimsOnlyInCache"):
        for obj in case[field] or []:
            world.api.add(_with_deletion(obj))
    if case["createClaimsFailsWithConflict"]:
        world.api.refuse = _conflict
    for field in ("claims", "templates", "podGroups", "pods"):
        if field == "podGroups" and not case["features"]["DRAWorkloadResourceClaims"]:
            continue
        world.store(*(case[field] or []))
    for obj in case["claimsOnlyInCache"] or []:
        there = world.api.get("resourceclaims", obj["metadata"]["namespace"], obj["metadata"]["name"])
        world.controller._views.created.add(_decode(there))

    expected = case["expect"]
    if expected["errorContains"]:
        with pytest.raises((SyncError, TemplateError, ApiError)) as raised:
            await world.controller.reconcile(case["key"])
        assert str(raised.value) == case["actual"]["error"]
    else:
        await world.controller.reconcile(case["key"])
        calls = case["actual"]["apiCalls"]
        assert [_normal(call) for call in _writes(world)] == [_normal_vector(call) for call in calls]
        claims = [_same(obj) for obj in world.api.of("resourceclaims")]
        cached = [obj["metadata"]["name"] for obj in case["claimsOnlyInCache"] or []]
        claims = [claim for claim in claims if claim["metadata"]["name"] not in cached]
        assert claims == [_same(obj) for obj in case["actual"]["claims"] if not _is_gone(obj)]
        for name, statuses in (expected["podStatuses"] or {}).items():
            pod = next(obj for obj in world.api.of("pods") if obj["metadata"]["name"] == name)
            assert (pod["status"].get("resourceClaimStatuses") or []) == (statuses or [])
        for name, statuses in (expected["podGroupStatuses"] or {}).items():
            group = next(obj for obj in world.api.of("podgroups") if obj["metadata"]["name"] == name)
            assert (group["status"].get("resourceClaimStatuses") or []) == (statuses or [])

    metrics = expected["metrics"]
    creates = "resourceclaim_controller_creates_total"
    success, failure = (
        {admin: world.metric(creates, status=status, admin_access=admin) for admin in ("true", "false")}
        for status in ("success", "failure")
    )
    assert success["false"] + failure["false"] == metrics["numCreated"]
    assert success["true"] + failure["true"] == metrics["numCreatedWithAdmin"]
    assert failure == {"false": metrics["numFailures"], "true": metrics["numFailureWithAdmin"]}
    await world.controller._views.recorder.flush()


def _is_gone(obj: JsonObject) -> bool:
    """True for a deleted object without finalizers. Upstream's fake client keeps it, a server does not."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and not meta.get("finalizers")


def _conflict(call: Call) -> tuple[int, str, str] | None:
    if call.verb != "create" or call.resource != "resourceclaims":
        return None
    message = 'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "fake name": fake conflict'
    return 409, "Conflict", message


def _writes(world: _World) -> list[Call]:
    return [call for call in world.api.calls if call.resource != "events"]


def _normal(call: Call) -> JsonObject:
    result: JsonObject = {"verb": call.verb, "resource": call.resource, "subresource": call.subresource}
    if call.verb == "patch":
        result |= {"patch": call.body, "patchType": call.content_type}
        assert call.params == {"fieldManager": "ResourceClaimController", "force": "true"}
    elif call.verb != "delete":
        body = call.body
        if call.verb == "create":
            body = {**body, "metadata": {k: v for k, v in body["metadata"].items() if k not in _CHOSEN}}
        result["object"] = _same(body)
    return result


# The server chose these values after the request.
_CHOSEN = ("name", "namespace")


def _normal_vector(call: JsonObject) -> JsonObject:
    result: JsonObject = {
        "verb": call["verb"],
        "resource": call["resource"],
        "subresource": call.get("subresource", ""),
    }
    if call["verb"] == "patch":
        result |= {"patch": call["patch"], "patchType": call["patchType"]}
    elif call["verb"] != "delete":
        result["object"] = _same(call["object"])
    return result


@each_case("case", _cases("TestEventHandlers"))
async def test_event_handlers_enqueue_the_same_keys_as_upstream(case: JsonObject) -> None:
    world = _World(case["features"])
    known = {
        kind for kind in _RESOURCES if kind != "PodGroup" or case["features"]["DRAWorkloadResourceClaims"]
    }
    world.store(*(obj for obj in case["initialObjects"] if obj["kind"] in known))
    queue = world.controller.queue
    while queue._ready:
        queue.done(await queue.get())
    world.store(*(obj for obj in case["createObjects"] if obj["kind"] in known))
    for obj in case["updateObjects"]:
        if obj["kind"] in known:
            world.store({**obj, "metadata": {**obj["metadata"], "resourceVersion": "2"}})
    for obj in case["deleteObjects"]:
        if obj["kind"] in known:
            world.delete(obj)
    expected = case["expect"]
    assert sorted(world.queued_keys()) == sorted(expected["queuedKeysInAnyOrder"] or [])
    for sample in expected["numClaimsMetric"] or []:
        labels = {
            "allocated": sample["labels"]["Allocated"],
            "admin_access": sample["labels"]["AdminAccess"],
            "source": sample["labels"]["Source"],
        }
        value = world.metric("resourceclaim_controller_resource_claims", **labels)
        assert value == sample["value"]


@each_case("case", _cases("TestEnqueuePodExtendedResourceClaims"))
async def test_extended_resource_claims_are_enqueued_as_upstream(case: JsonObject) -> None:
    world = _World({"DRAExtendedResource": case["featureGateEnabled"]})
    pod = _decode(case["pod"])
    if case["deleted"]:
        world.controller._pod_deleted(pod)
    else:
        world.controller._pod_changed(pod)
    assert sorted(world.queued_keys()) == sorted(case["actual"]["queuedKeys"] or [])


@each_case("case", _cases("TestGetAdminAccessMetricLabel"))
def test_admin_access_label_agrees_with_upstream(case: JsonObject) -> None:
    claim = _decode(case["claim"]) if case["claim"] is not None else None
    assert admin_access_label(claim) == case["expect"]["label"]
