"""Test calls of webhooks, their effects and failures. The texts are those of kube-apiserver 1.36.2."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from dra_shared.jsontypes import JsonObject

from tests.apiserver.kinds.admissionregistration.dynamic.hook import BUNDLE, Hook, patch_with
from tests.apiserver.kinds.admissionregistration.dynamic.objects import (
    CONFIGMAP_RULE,
    CONFIGMAPS,
    GROUP,
    MERGE,
    configmap,
    create,
)

VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook() as started:
        yield started


def webhook(name: str, config: JsonObject, **more: Any) -> JsonObject:
    return {
        "name": f"{name}.example.com",
        "clientConfig": config,
        "rules": [CONFIGMAP_RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
        **more,
    }


async def register(client: httpx.AsyncClient, path: str, *webhooks: JsonObject) -> None:
    kind = "ValidatingWebhookConfiguration" if path == VALIDATING else "MutatingWebhookConfiguration"
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "hooks"},
        "webhooks": list(webhooks),
    }
    await create(client, path, configuration)


async def test_an_admission_review_contains_every_field_of_the_request(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    await register(client, VALIDATING, webhook("v", hook.url("/check")))
    stored = await create(client, f"{CONFIGMAPS}?fieldManager=me", configmap("c", x="1"))
    assert hook.paths == ["/check?timeout=30s"]
    (review,) = hook.reviews
    assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    request = review["request"]
    seen = request.pop("object")
    seen["metadata"].pop("managedFields")
    assert seen["metadata"].keys() == {"name", "namespace", "uid", "creationTimestamp"}
    assert seen["metadata"]["uid"] == stored["metadata"]["uid"]
    assert request.pop("uid")
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    assert request == {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "c",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
    }
    await client.request("DELETE", f"{CONFIGMAPS}/c", json={"gracePeriodSeconds": 0})
    request = hook.reviews[-1]["request"]
    assert (request["operation"], request["object"]) == ("DELETE", None)
    assert request["oldObject"]["data"] == {"x": "1"}
    assert request["options"] == {
        "kind": "DeleteOptions",
        "apiVersion": "meta.k8s.io/v1",
        "gracePeriodSeconds": 0,
    }


async def test_a_proxy_request_works_with_a_mutating_webhook_for_all_resources(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    """Check a request whose object, the options of a proxy, has no metadata."""
    await register(client, MUTATING, webhook("m", hook.url("/change")))
    answer = await client.get("/api/v1/nodes/unknown/proxy/metrics")
    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, (400, "", "denied the request without explanation")),
        (
            {"message": "no way", "code": 403, "reason": "Forbidden"},
            (403, "Forbidden", "denied the request: no way"),
        ),
        ({"reason": "TooBad"}, (400, "TooBad", "denied the request: TooBad")),
        ({"code": 200, "message": "m", "status": "Success"}, (400, "", "denied the request: m")),
    ],
)
async def test_a_webhook_denies_a_request(
    client: httpx.AsyncClient, hook: Hook, status: JsonObject | None, expected: tuple[int, str, str]
) -> None:
    def deny(_request: JsonObject, response: JsonObject) -> None:
        response.update(allowed=False, **({"status": status} if status else {}))

    hook.behaviours["/deny"] = deny
    await register(client, VALIDATING, webhook("v", hook.url("/deny")))
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    code, reason, text = expected
    found = answer.json()
    assert (answer.status_code, found["code"], found.get("reason", "")) == (code, code, reason)
    assert (found["status"], found["message"]) == ("Failure", f'admission webhook "v.example.com" {text}')


async def test_warnings_of_a_webhook_are_returned(client: httpx.AsyncClient, hook: Hook) -> None:
    hook.behaviours["/"] = lambda _request, response: response.update(warnings=["one", "two"])
    await register(client, VALIDATING, webhook("v", hook.url("/")))
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    assert answer.headers.get_list("warning") == ['299 - "one"', '299 - "two"']


async def test_a_webhook_changes_objects(client: httpx.AsyncClient, hook: Hook) -> None:
    hook.behaviours["/"] = patch_with({"op": "add", "path": "/data/by", "value": "hook"})
    await register(client, MUTATING, webhook("m", hook.url("/")))
    stored = await create(client, CONFIGMAPS, configmap("c", x="1"))
    assert stored["data"] == {"x": "1", "by": "hook"}
    seen = hook.reviews[0]["request"]["object"]["metadata"]
    assert "uid" not in seen
    assert "creationTimestamp" not in seen
    changed = await client.patch(f"{CONFIGMAPS}/c", json={"data": {"by": None}}, headers=MERGE)
    assert changed.json()["data"] == {"x": "1", "by": "hook"}
    put = await client.put(f"{CONFIGMAPS}/c", json=configmap("c", y="2"))
    assert (put.status_code, put.json()["data"]) == (200, {"y": "2", "by": "hook"})
    assert put.json()["metadata"]["uid"] == stored["metadata"]["uid"]
    named = await create(client, CONFIGMAPS, configmap("", z="3") | {"metadata": {"generateName": "g-"}})
    assert "name" not in hook.reviews[-1]["request"]["object"]["metadata"]
    assert named["data"] == {"z": "3", "by": "hook"}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            {"op": "remove", "path": "/nope"},
            "error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
        ),
        (
            {"op": "add", "path": "/metadata/labels", "value": "x"},
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
    ],
)
async def test_an_invalid_patch_of_a_webhook_is_an_internal_error(
    client: httpx.AsyncClient, hook: Hook, operation: JsonObject, message: str
) -> None:
    hook.behaviours["/"] = patch_with(operation)
    await register(client, MUTATING, webhook("m", hook.url("/")))
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    assert (answer.status_code, answer.json()["message"]) == (500, f"Internal error occurred: {message}")


async def test_a_webhook_is_called_again_after_later_changes(client: httpx.AsyncClient, hook: Hook) -> None:
    def count(request: JsonObject, response: JsonObject) -> None:
        number = int(request["object"]["data"].get("count", "0")) + 1
        patch_with({"op": "add", "path": "/data/count", "value": str(number)})(request, response)

    hook.behaviours["/count"] = count
    hook.behaviours["/other"] = patch_with({"op": "add", "path": "/data/other", "value": "yes"})
    await register(
        client,
        MUTATING,
        webhook("first", hook.url("/count"), reinvocationPolicy="IfNeeded"),
        webhook("second", hook.url("/other")),
    )
    stored = await create(client, CONFIGMAPS, configmap("c", x="1"))
    assert stored["data"] == {"x": "1", "count": "2", "other": "yes"}


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_an_unreachable_webhook_fails_by_its_failure_policy(
    client: httpx.AsyncClient, policy: str
) -> None:
    closed_port = {"url": "https://127.0.0.1:1/x", "caBundle": BUNDLE}
    await register(client, VALIDATING, webhook("v", closed_port, failurePolicy=policy))
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    if policy == "Ignore":
        assert answer.status_code == 201
        return
    assert (answer.status_code, answer.json()["message"]) == (
        500,
        'Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: Post '
        '"https://127.0.0.1:1/x?timeout=30s": dial tcp 127.0.0.1:1: connect: connection refused',
    )


async def test_a_webhook_with_an_untrusted_certificate_is_not_called(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    other = base64.b64encode(b"nothing").decode()
    await register(client, VALIDATING, webhook("v", {**hook.url("/"), "caBundle": other}))
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    assert answer.json()["message"].endswith(
        "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    )
    assert hook.reviews == []


async def test_a_dry_run_calls_only_webhooks_without_side_effects(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    await register(client, VALIDATING, webhook("v", hook.url("/"), sideEffects="NoneOnDryRun"))
    answer = await client.post(CONFIGMAPS, json=configmap("c"), params={"dryRun": "All"})
    assert (answer.status_code, hook.reviews[0]["request"]["dryRun"]) == (201, True)


async def test_a_response_with_another_uid_is_invalid(client: httpx.AsyncClient, hook: Hook) -> None:
    hook.behaviours["/"] = lambda _request, response: response.update(uid="other")
    await register(client, VALIDATING, webhook("v", hook.url("/")))
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    uid = hook.reviews[0]["request"]["uid"]
    assert answer.json()["message"].endswith(
        f'received invalid webhook response: expected response.uid="{uid}", got "other"'
    )


async def test_webhooks_are_not_called_if_a_match_condition_is_false(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    condition = {"name": "big", "expression": "object.data.size == 'big'"}
    await register(client, VALIDATING, webhook("v", hook.url("/"), matchConditions=[condition]))
    assert (await client.post(CONFIGMAPS, json=configmap("small", size="small"))).status_code == 201
    assert hook.reviews == []
    refused = await client.post(CONFIGMAPS, json=configmap("c"))
    assert (refused.status_code, refused.json()["message"]) == (
        403,
        "configmaps \"c\" is forbidden: expression 'object.data.size == 'big'' resulted in error: "
        "no such key: data",
    )


def service(port: int, **spec: Any) -> JsonObject:
    meta = {"name": "hook", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"ports": [{"name": "https", "port": port}], **spec},
    }


async def test_a_webhook_service_is_reached_at_its_external_name(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    await create(
        client,
        "/api/v1/namespaces/default/services",
        service(443, type="ExternalName", externalName="localhost"),
    )
    config = {
        "service": {"name": "hook", "namespace": "default", "path": "/check", "port": hook.port},
        "caBundle": BUNDLE,
    }
    await register(client, VALIDATING, webhook("v", config))
    assert (await client.post(CONFIGMAPS, json=configmap("c"))).status_code == 201
    assert hook.paths == ["/check?timeout=30s"]


async def test_a_webhook_service_is_reached_at_its_endpoint_slices(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    config = {"service": {"name": "hook", "namespace": "default", "path": "/check"}, "caBundle": BUNDLE}
    await register(client, VALIDATING, webhook("v", config))

    async def message() -> str:
        found: str = (await client.post(CONFIGMAPS, json=configmap("c"))).json()["message"]
        return found.rpartition('"https://hook.default.svc:443/check?timeout=30s": ')[2]

    assert await message() == 'service "hook" not found'
    await create(client, "/api/v1/namespaces/default/services", service(443))
    assert await message() == 'no endpoints available for service "hook"'
    await create(
        client,
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "hook", "labels": {"kubernetes.io/service-name": "hook"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": hook.port}],
            "endpoints": [{"addresses": ["127.0.0.1"]}],
        },
    )
    assert (await client.post(CONFIGMAPS, json=configmap("c"))).status_code == 201
    assert hook.paths == ["/check?timeout=30s"]


async def test_webhooks_are_called_again_if_the_object_changed_meanwhile(
    client: httpx.AsyncClient, hook: Hook
) -> None:
    await create(client, CONFIGMAPS, configmap("c", x="1"))
    await register(client, MUTATING, webhook("m", hook.url("/")))
    patches = [
        client.patch(f"{CONFIGMAPS}/c", json={"data": {f"k{number}": "v"}}, headers=MERGE)
        for number in range(5)
    ]
    answers = await asyncio.gather(*patches)
    assert [answer.status_code for answer in answers] == [200] * 5
    stored = (await client.get(f"{CONFIGMAPS}/c")).json()
    assert stored["data"] == {"x": "1", **{f"k{number}": "v" for number in range(5)}}


async def test_webhooks_are_not_called_about_webhook_configurations(client: httpx.AsyncClient) -> None:
    everything = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["*/*"],
    }
    closed_port = {"url": "https://127.0.0.1:1/x", "caBundle": BUNDLE}
    await register(client, VALIDATING, webhook("v", closed_port, rules=[everything]))
    assert (await client.post(CONFIGMAPS, json=configmap("c"))).status_code == 500
    assert (await client.delete(f"{VALIDATING}/hooks")).status_code == 200
    assert (await client.post(CONFIGMAPS, json=configmap("c"))).status_code == 201


_DECODE = "json: cannot unmarshal"


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (
            "response",
            "x",
            f"{_DECODE} string into Go struct field AdmissionReview.response of type v1.AdmissionResponse",
        ),
        ("kind", 5, f"{_DECODE} number into Go struct field .kind of type string"),
        ("apiVersion", [], f"{_DECODE} array into Go struct field .apiVersion of type string"),
        ("apiVersion", "a/b/c", "unexpected GroupVersion string: a/b/c"),
        (
            "response.allowed",
            "yes",
            f"{_DECODE} string into Go struct field AdmissionResponse.response.allowed of type bool",
        ),
        (
            "response.uid",
            5,
            f"{_DECODE} number into Go struct field AdmissionResponse.response.uid of type types.UID",
        ),
        (
            "response.warnings",
            "w",
            f"{_DECODE} string into Go struct field AdmissionResponse.response.warnings of type []str",
        ),
        (
            "response.warnings",
            [5],
            f"{_DECODE} number into Go struct field AdmissionResponse.response.warnings of type string",
        ),
        (
            "response.patch",
            5,
            f"{_DECODE} number into Go struct field AdmissionResponse.response.patch of type []uint8",
        ),
        ("response.patch", "%%", "illegal base64 data at input byte 0"),
        (
            "response.patchType",
            {},
            f"{_DECODE} object into Go struct field AdmissionResponse.response.patchType of type v1.P",
        ),
        (
            "response.auditAnnotations",
            {"a": 1},
            f"{_DECODE} number into Go struct field AdmissionResponse.response.audit",
        ),
        (
            "response.status",
            "no",
            f"{_DECODE} string into Go struct field AdmissionResponse.response.status of type v1.Status",
        ),
        (
            "response.status",
            {"details": "no"},
            f"{_DECODE} string into Go struct field Status.response.status.details of t",
        ),
        (
            "response.status",
            {"details": {"causes": "x"}},
            "StatusDetails.response.status.details.causes of type []v1.St",
        ),
        (
            "response.status",
            {"code": "400"},
            f"{_DECODE} string into Go struct field Status.response.status.code of type int32",
        ),
        ("response.status", {"code": 10**30}, "Status.response.status.code of type int32"),
        ("response.status", {"message": 5}, "Status.response.status.message of type string"),
    ],
)
async def test_a_response_with_wrong_types_is_invalid(
    client: httpx.AsyncClient, hook: Hook, path: str, value: Any, text: str
) -> None:
    hook.answers["/"] = lambda answer: _put(answer, path.split("."), value)
    await register(client, MUTATING, webhook("m", hook.url("/")))
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    message = answer.json()["message"]
    assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
    assert message.startswith(
        'Internal error occurred: failed calling webhook "m.example.com": failed to call webhook: '
    )
    assert text in message


def _put(answer: JsonObject, path: list[str], value: Any) -> None:
    for step in path[:-1]:
        answer = answer[step]
    answer[path[-1]] = value


@pytest.mark.parametrize(
    ("code", "expected"), [(-5, 400), (399, 400), (599, 599), (600, 600), (999, 999), (1000, 500)]
)
async def test_a_denial_has_the_status_code_of_the_webhook(
    client: httpx.AsyncClient, hook: Hook, code: int, expected: int
) -> None:
    hook.behaviours["/"] = lambda _request, response: response.update(allowed=False, status={"code": code})
    await register(client, VALIDATING, webhook("v", hook.url("/")))
    for accept in ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io, application/json"):
        answer = await client.post(CONFIGMAPS, json=configmap("c"), headers={"accept": accept})
        assert (answer.status_code, answer.json()["code"]) == (expected, expected)
