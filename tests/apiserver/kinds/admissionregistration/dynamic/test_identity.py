"""Test that webhooks and policies cannot change an object's identity: upstream rejects it, and lists stay
readable.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from dra_apiserver.server import ApiServer
from dra_apiserver.storage import Put
from dra_shared.jsontypes import JsonObject

from tests.apiserver.kinds.admissionregistration.dynamic.hook import Hook, patch_with
from tests.apiserver.kinds.admissionregistration.dynamic.objects import CONFIGMAPS, MERGE, configmap, create
from tests.apiserver.kinds.admissionregistration.dynamic.test_mutating import create_mutating_policy, patch
from tests.apiserver.kinds.admissionregistration.dynamic.test_webhooks import MUTATING, register, webhook
from tests.support.cases import each_case
from tests.support.sampling import sample
from tests.support.waiting import until

PODS = "/api/v1/namespaces/default/pods"
THINGS = "/apis/x.example.com/v1/namespaces/default/things"
EVERYTHING = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["CREATE", "UPDATE"],
    "resources": [
        "configmaps",
        "pods/*",
        "deployments",
        "deployments/scale",
        "things",
        "serviceaccounts/token",
    ],
}
SCHEME = 'in scheme "pkg/api/legacyscheme/scheme.go:30"'
MISMATCH = "the namespace of the provided object does not match the namespace sent on the request"
UNREAD = "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field"


def replace(path: str, value: Any) -> JsonObject:
    return {"op": "add", "path": path, "value": value}


@pytest.fixture
async def hook(client: httpx.AsyncClient) -> AsyncIterator[Hook]:
    async with Hook() as started:
        await register(client, MUTATING, webhook("m", started.url("/"), rules=[EVERYTHING]))
        yield started


@pytest.mark.parametrize(
    ("operation", "code", "message"),
    sample(
        [
            (
                replace("/kind", "Secret"),
                500,
                "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
            ),
            (
                replace("/kind", "Binding"),
                500,
                "converting (v1.Binding) to (core.ConfigMap): unknown conversion",
            ),
            (replace("/kind", "Thing"), 500, f'no kind "Thing" is registered for version "v1" {SCHEME}'),
            (replace("/kind", 5), 500, f"{UNREAD} .kind of type string"),
            (
                replace("/apiVersion", "v2"),
                500,
                f'no kind "ConfigMap" is registered for version "v2" {SCHEME}',
            ),
            (replace("/apiVersion", 5), 500, f"{UNREAD} .apiVersion of type string"),
            (replace("/apiVersion", "a/b/c"), 500, "unexpected GroupVersion string: a/b/c"),
            (replace("/metadata/namespace", "kube-system"), 400, MISMATCH),
            (
                replace("/metadata", []),
                500,
                "json: cannot unmarshal array into Go struct field ConfigMap.metadata",
            ),
            (replace("", 5), 500, ""),
        ],
        4,
    ),
    ids=str,
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "APPLY"])
async def test_admission_cannot_change_the_identity_of_an_object(
    client: httpx.AsyncClient, hook: Hook, operation: JsonObject, code: int, message: str, method: str
) -> None:
    body = configmap("c", a="b")
    if method in ("PUT", "PATCH"):
        await create(client, CONFIGMAPS, body)
    hook.behaviours["/"] = patch_with(operation)
    if method == "POST":
        answer = await client.post(CONFIGMAPS, json=body)
    elif method == "PUT":
        answer = await client.put(f"{CONFIGMAPS}/c", json=configmap("c", b="c"))
    elif method == "PATCH":
        answer = await client.patch(f"{CONFIGMAPS}/c", json={"data": {"c": "d"}}, headers=MERGE)
    else:
        headers = {"content-type": "application/apply-patch+yaml"}
        answer = await client.patch(f"{CONFIGMAPS}/c?fieldManager=m", json=body, headers=headers)
    assert answer.status_code == code, answer.text
    assert message in answer.json()["message"]
    stored = (await client.get(CONFIGMAPS)).json()["items"]
    expected = [] if method in ("POST", "APPLY") else [{"a": "b"}]
    assert [one["data"] for one in stored if one["metadata"]["name"] == "c"] == expected


@pytest.mark.parametrize(
    "operation", [{"op": "remove", "path": "/kind"}, {"op": "remove", "path": "/apiVersion"}]
)
async def test_kind_and_api_version_that_a_webhook_removes_are_restored(
    client: httpx.AsyncClient, hook: Hook, operation: JsonObject
) -> None:
    hook.behaviours["/"] = patch_with(operation)
    stored = await create(client, CONFIGMAPS, configmap("c"))
    assert (stored["kind"], stored["apiVersion"]) == ("ConfigMap", "v1")


async def test_a_created_object_is_stored_under_the_name_that_a_webhook_gives(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    hook.behaviours["/"] = patch_with(replace("/metadata/name", "other"))
    assert (await create(client, CONFIGMAPS, configmap("c")))["metadata"]["name"] == "other"
    assert (await client.get(f"{CONFIGMAPS}/other")).status_code == 200
    generated = configmap("") | {"metadata": {"generateName": "other"}}
    taken = await client.post(CONFIGMAPS, json=generated)
    assert (taken.status_code, taken.json()["reason"]) == (409, "AlreadyExists")
    hook.behaviours["/"] = patch_with(replace("/metadata/generateName", "made-"))
    named = await create(client, CONFIGMAPS, configmap("") | {"metadata": {"generateName": "other-"}})
    assert named["metadata"]["name"].startswith("made-")


async def test_a_webhook_cannot_rename_an_object_whose_name_is_in_the_path(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    await create(client, CONFIGMAPS, configmap("there"))
    hook.behaviours["/"] = patch_with(replace("/metadata/name", "other"))
    headers = {"content-type": "application/apply-patch+yaml"}
    created = await client.patch(f"{CONFIGMAPS}/c?fieldManager=m", json=configmap("c"), headers=headers)
    assert created.status_code == 400
    assert "(other) does not match the name on the URL (c)" in created.json()["message"]
    updated = await client.put(f"{CONFIGMAPS}/there", json=configmap("there", a="b"))
    assert (updated.status_code, updated.json()["reason"]) == (422, "Invalid")
    assert 'metadata.name: Invalid value: "other": field is immutable' in updated.json()["message"]


async def test_a_webhook_may_return_the_object_in_another_api_version(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    spec = {"driver": "d.example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
    old = {
        "spec": spec
        | {"nodeName": "n", "devices": [{"name": "a", "basic": {"attributes": {"x": {"int": 1}}}}]}
    }
    rule = EVERYTHING | {"resources": ["resourceslices"]}
    await client.delete(f"{MUTATING}/hooks")
    await register(client, MUTATING, webhook("m", hook.url("/"), rules=[rule]))
    hook.behaviours["/"] = patch_with(
        replace("/apiVersion", "resource.k8s.io/v1beta1"), replace("/spec", old["spec"])
    )
    sent = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    new = spec | {"nodeName": "n", "devices": [{"name": "b"}]}
    stored = await create(client, "/apis/resource.k8s.io/v1/resourceslices", sent | {"spec": new})
    assert stored["apiVersion"] == "resource.k8s.io/v1"
    assert stored["spec"]["devices"] == [{"name": "a", "attributes": {"x": {"int": 1}}}]


@pytest.mark.parametrize(
    ("path", "value", "code", "message"),
    [
        (
            "/kind",
            "Other",
            422,
            'Other.x.example.com "t" is invalid: kind: Invalid value: "Other": must be Thing',
        ),
        ("/kind", "", 500, "Object 'Kind' is missing in '"),
        ("/kind", 7, 500, "Object 'Kind' is missing in '"),
        (
            "/apiVersion",
            "x.example.com/v9",
            500,
            "convert CR from an invalid group/version: x.example.com/v9",
        ),
        (
            "/apiVersion",
            "v1",
            500,
            '/v1, Kind=Thing is unstructured and is not suitable for converting to "x.ex',
        ),
        ("/metadata/namespace", "kube-system", 400, MISMATCH),
        ("/metadata", "x", 500, "cannot unmarshal string into Go value of type v1.ObjectMeta"),
        ("/metadata", [], 500, "cannot unmarshal array into Go value of type v1.ObjectMeta"),
        ("/metadata/labels", 5, 500, "Go struct field ObjectMeta.metadata.labels of type map[string]string"),
    ],
)
async def test_admission_cannot_change_the_identity_of_a_custom_resource(
    client: httpx.AsyncClient, hook: Hook, path: str, value: Any, code: int, message: str
) -> None:
    await _define_things(client)
    hook.behaviours["/"] = patch_with(replace(path, value))
    thing = {"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    answer = await client.post(THINGS, json=thing)
    assert (answer.status_code, message in answer.json()["message"]) == (code, True), answer.text
    assert (await client.get(THINGS)).json()["items"] == []


async def _define_things(client: httpx.AsyncClient) -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    spec = {
        "group": "x.example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [version],
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.example.com"},
        "spec": spec,
    }
    await create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)

    async def is_served() -> bool:
        return (await client.get(THINGS)).status_code == 200

    await until(is_served)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            "replace', path: '/kind', value: 'Secret",
            "failed to convert object: converting (v1.Secret) to (core.",
        ),
        (
            "replace', path: '/apiVersion', value: 'v2",
            f'no kind "ConfigMap" is registered for version "v2" {SCHEME}',
        ),
        ("replace', path: '/metadata/namespace', value: 'kube-system", MISMATCH),
    ],
)
async def test_a_policy_cannot_change_the_identity_of_an_object(
    client: httpx.AsyncClient, operation: str, message: str
) -> None:
    await create_mutating_policy(client, "p", patch(f"[JSONPatch{{op: '{operation}'}}]"))
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    assert answer.status_code in (400, 500)
    assert message in answer.json()["message"]
    assert (await client.get(f"{CONFIGMAPS}/c")).status_code == 404


@pytest.mark.parametrize(
    ("path", "value"),
    [("/kind", "Secret"), ("/metadata", []), ("/spec", 5), ("/target", []), ("/deleteOptions", "x")],
)
async def test_a_webhook_cannot_change_the_kind_of_a_subresource_object(
    client: httpx.AsyncClient, hook: Hook, path: str, value: Any
) -> None:
    await create(client, "/api/v1/namespaces/default/serviceaccounts", _account())
    containers = [{"name": "c", "image": "i"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    await create(client, PODS, pod)
    await create(client, "/apis/apps/v1/namespaces/default/deployments", _deployment(containers))
    hook.behaviours["/"] = patch_with(replace(path, value))
    meta = {"metadata": {"name": "p"}}
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d"},
        "spec": {"replicas": 2},
    }
    for request in (
        client.post(
            f"{PODS}/p/binding", json={"apiVersion": "v1", "kind": "Binding", **meta, "target": {"name": "n"}}
        ),
        client.post(f"{PODS}/p/eviction", json={"apiVersion": "policy/v1", "kind": "Eviction", **meta}),
        client.post(
            "/api/v1/namespaces/default/serviceaccounts/driver/token",
            json={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"audiences": ["a"]},
            },
        ),
        client.put("/apis/apps/v1/namespaces/default/deployments/d/scale", json=scale),
    ):
        answer = await request
        # A field that the type does not have is ignored; a type that does not fit is an error with Go's words.
        if answer.status_code >= 400:
            words = ("cannot unmarshal", "unknown conversion", "is registered for version")
            assert any(text in answer.text for text in words), answer.text
        else:
            assert path in ("/spec", "/target", "/deleteOptions")


async def test_a_subresource_of_another_object_is_rejected(client: httpx.AsyncClient, hook: Hook) -> None:
    containers = [{"name": "c", "image": "i"}]
    for name in ("p", "q"):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": containers},
        }
        await create(client, PODS, pod)
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
    hook.behaviours["/"] = patch_with(replace("/metadata/name", "q"))
    bound = await client.post(f"{PODS}/p/binding", json=binding)
    assert (bound.status_code, bound.json()["message"]) == (
        400,
        "name in URL does not match name in Binding object",
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await client.post(f"{PODS}/p/eviction", json=eviction)).status_code == 400
    hook.behaviours["/"] = patch_with({"op": "remove", "path": "/target"})
    unbound = await client.post(f"{PODS}/p/binding", json=binding)
    assert (unbound.status_code, "target.name: Required value" in unbound.text) == (422, True)
    hook.behaviours["/"] = patch_with(replace("/metadata/namespace", "kube-system"))
    moved = await client.post(f"{PODS}/p/binding", json=binding)
    assert (moved.status_code, moved.json()["message"]) == (400, MISMATCH)


def _account() -> JsonObject:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "driver"}}


def _deployment(containers: list[JsonObject]) -> JsonObject:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


@each_case(
    "changed",
    [
        {"kind": "Secret"},
        {"apiVersion": "apps/v1"},
        {"metadata": {"name": "other", "namespace": "default"}},
        {"metadata": {"name": "c", "namespace": "kube-system"}},
        {"metadata": {"name": "c"}},
    ],
    ids=str,
)
async def test_the_store_rejects_an_object_that_does_not_match_its_key(
    server: ApiServer, changed: JsonObject
) -> None:
    obj = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "c", "namespace": "default"},
        **changed,
    }
    for dry_run in (True, False):
        with pytest.raises(Exception, match="cannot be stored as"):
            await server.store.write(("", "configmaps"), "default/c", lambda _: Put(obj), dry_run)
    assert server.store.get(("", "configmaps"), "default/c") is None


async def test_webhooks_see_a_name_that_begins_with_the_generate_name(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    # As the pods of a StatefulSet, whose operators read the ordinal from the name.
    await create(client, CONFIGMAPS, configmap("") | {"metadata": {"generateName": "web-", "name": "web-0"}})
    request = hook.reviews[0]["request"]
    assert (request["name"], request["object"]["metadata"]["name"]) == ("web-0", "web-0")
