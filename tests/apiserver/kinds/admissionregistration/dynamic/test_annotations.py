"""Test that policies and webhooks add annotations with kube-apiserver's keys to the audit log."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from dra_apiserver.config import AuditOptions, Config
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject

from tests.apiserver.kinds.admissionregistration.dynamic.hook import Hook, patch_with
from tests.apiserver.kinds.admissionregistration.dynamic.objects import (
    CONFIGMAP_RULE,
    CONFIGMAPS,
    GROUP,
    configmap,
    create,
    create_policy,
    registration,
)

Annotations = Callable[[str], dict[str, str]]
_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, users: ["system:admin"], namespaces: [quiet], omitStages: [RequestReceived]}
- {level: Request, resources: [{group: "", resources: [configmaps]}], omitStages: [RequestReceived]}
- {level: None}
"""
_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_MUTATION = "mutation.webhook.admission.k8s.io/"
_PATCH = "patch.webhook.admission.k8s.io/"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    policy = tmp_path / "policy.yaml"
    policy.write_text(_POLICY)
    audit = AuditOptions(policy, str(tmp_path / "audit.log"))
    return Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true", audit=audit)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook() as started:
        yield started


@pytest.fixture
def annotations(tmp_path: Path) -> Annotations:
    """Return a function that finds the annotations of the last request for a config map."""

    def find(name: str) -> dict[str, str]:
        events = map(orjson.loads, (tmp_path / "audit.log").read_bytes().splitlines())
        found = [event for event in events if event["objectRef"].get("name") == name]
        shown: dict[str, str] = found[-1].get("annotations", {})
        return {key: value for key, value in shown.items() if not key.startswith("authorization.")}

    return find


async def _register(client: httpx.AsyncClient, mutating: bool, *webhooks: JsonObject) -> None:
    side = "Mutating" if mutating else "Validating"
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{side}WebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": list(webhooks),
    }
    await create(client, f"{GROUP}/{side.lower()}webhookconfigurations", configuration)


def _webhook(name: str, config: JsonObject, **more: Any) -> JsonObject:
    return {
        "name": f"{name}.example.com",
        "clientConfig": config,
        "rules": [CONFIGMAP_RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
        **more,
    }


def _annotate(**annotations: str) -> Callable[[JsonObject, JsonObject], None]:
    def answer(_request: JsonObject, response: JsonObject) -> None:
        response["auditAnnotations"] = annotations

    return answer


async def test_audited_failures_are_recorded_and_admitted(
    client: httpx.AsyncClient, annotations: Annotations
) -> None:
    validations = [
        {"expression": "true"},
        {"expression": "false", "message": "a < b & c"},
        {"expression": "false", "message": "not recorded: the first value of a key stays"},
    ]
    await create_policy(client, "p", {"validations": validations}, validationActions=["Audit", "Warn"])
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    assert answer.status_code == 201
    assert "a < b & c" in answer.headers["warning"]
    assert annotations("c") == {
        _FAILURE: (
            '[{"message":"a \\u003c b \\u0026 c","policy":"p","binding":"p","expressionIndex":1,'
            '"validationActions":["Audit","Warn"]}]'
        )
    }


async def test_errors_count_as_audited_failures(client: httpx.AsyncClient, annotations: Annotations) -> None:
    validations = [{"expression": "object.data.missing == 'x'"}]
    await create_policy(client, "p", {"validations": validations}, validationActions=["Audit"])
    assert (await client.post(CONFIGMAPS, json=configmap("c", a="b"))).status_code == 201
    (failure,) = orjson.loads(annotations("c")[_FAILURE])
    assert (
        failure["message"]
        == "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
    )


async def test_audit_annotations_of_all_bindings_are_joined(
    client: httpx.AsyncClient, annotations: Annotations
) -> None:
    for name in ("one", "two"):
        await create(client, CONFIGMAPS, configmap(name, {"param": "yes"}, text=f" {name} "))
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "auditAnnotations": [
            {"key": "texts", "valueExpression": "string(params.data.text)"},
            {"key": "same", "valueExpression": "'x'"},
            {"key": "none", "valueExpression": "null"},
            {"key": "blank", "valueExpression": "' '"},
            {"key": "long", "valueExpression": "string(object.data.long)"},
        ],
    }
    reference = {"selector": {"matchLabels": {"param": "yes"}}, "parameterNotFoundAction": "Deny"}
    await create_policy(client, "p.example.com", spec, paramRef={**reference, "namespace": "default"})
    await create(client, CONFIGMAPS, configmap("c", long="x" * 11_000))
    assert annotations("c") == {
        "p.example.com/texts": "one, two",
        "p.example.com/same": "x",
        "p.example.com/long": "x" * 10 * 1024,
    }


async def test_annotations_of_denied_requests_are_recorded(
    client: httpx.AsyncClient, annotations: Annotations
) -> None:
    spec = {
        "validations": [{"expression": "false"}],
        "auditAnnotations": [{"key": "who", "valueExpression": "request.userInfo.username"}],
    }
    await create_policy(client, "p", spec)
    assert (await client.post(CONFIGMAPS, json=configmap("c"))).status_code == 422
    assert annotations("c") == {"p/who": "system:admin"}


async def test_calls_of_mutating_webhooks_are_recorded_in_audit_annotations(
    client: httpx.AsyncClient, hook: Hook, annotations: Annotations
) -> None:
    hook.behaviours["/patch"] = patch_with({"op": "add", "path": "/data/a", "value": "<"})
    hook.behaviours["/note"] = _annotate(seen="yes", **{"not/a name": "dropped"})
    await _register(
        client,
        True,
        _webhook("note", hook.url("/note"), reinvocationPolicy="IfNeeded"),
        _webhook("patch", hook.url("/patch")),
    )
    await create(client, CONFIGMAPS, configmap("c", x="1"))
    note = '{"configuration":"hooks","webhook":"note.example.com","mutated":false}'
    assert annotations("c") == {
        "note.example.com/seen": "yes",
        f"{_MUTATION}round_0_index_0": note,
        f"{_MUTATION}round_0_index_1": (
            '{"configuration":"hooks","webhook":"patch.example.com","mutated":true}'
        ),
        f"{_MUTATION}round_1_index_0": note,
        f"{_PATCH}round_0_index_1": (
            '{"configuration":"hooks","webhook":"patch.example.com",'
            '"patch":[{"op":"add","path":"/data/a","value":"\\u003c"}],"patchType":"JSONPatch"}'
        ),
    }


async def test_patches_with_empty_values_mutate_nothing(
    client: httpx.AsyncClient, hook: Hook, annotations: Annotations
) -> None:
    hook.behaviours["/empty"] = patch_with(
        {"op": "add", "path": "/binaryData", "value": {}},
        {"op": "add", "path": "/metadata/labels", "value": {}},
    )
    await _register(
        client,
        True,
        _webhook("empty", hook.url("/empty"), reinvocationPolicy="IfNeeded", failurePolicy="Fail"),
    )
    await create(client, CONFIGMAPS, configmap("c", x="1"))
    assert [key for key in annotations("c") if key.startswith(_MUTATION)] == [f"{_MUTATION}round_0_index_0"]
    assert '"mutated":false' in annotations("c")[f"{_MUTATION}round_0_index_0"]


async def test_patches_are_not_recorded_at_level_metadata(
    client: httpx.AsyncClient, hook: Hook, annotations: Annotations
) -> None:
    hook.behaviours["/patch"] = patch_with({"op": "add", "path": "/data/a", "value": "b"})
    await _register(client, True, _webhook("patch", hook.url("/patch")))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quiet"}}
    await create(client, "/api/v1/namespaces", namespace)
    await create(client, CONFIGMAPS.replace("default", "quiet"), configmap("c", x="1"))
    assert list(annotations("c")) == [f"{_MUTATION}round_0_index_0"]


async def test_failures_of_validating_webhooks_are_recorded_in_audit_annotations(
    client: httpx.AsyncClient, hook: Hook, annotations: Annotations
) -> None:
    def deny(request: JsonObject, response: JsonObject) -> None:
        response["allowed"] = False
        response["auditAnnotations"] = {"why": "no"}

    hook.behaviours["/deny"] = deny
    await _register(client, False, _webhook("deny", hook.url("/deny")))
    assert (await client.post(CONFIGMAPS, json=configmap("c"))).status_code == 400
    assert annotations("c") == {"deny.example.com/why": "no"}


@pytest.mark.parametrize(
    ("mutating", "expected"),
    [
        (
            True,
            {
                f"failed-open.{_MUTATION}round_0_index_0": "away.example.com",
                f"{_MUTATION}round_0_index_0": (
                    '{"configuration":"hooks","webhook":"away.example.com","mutated":false}'
                ),
            },
        ),
        (
            False,
            {"failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "away.example.com"},
        ),
    ],
)
async def test_failures_of_webhooks_with_failure_policy_ignore_are_recorded(
    client: httpx.AsyncClient, annotations: Annotations, mutating: bool, expected: dict[str, str]
) -> None:
    away = {"url": "https://127.0.0.1:1/"}
    await _register(client, mutating, _webhook("away", away, failurePolicy="Ignore"))
    await create(client, CONFIGMAPS, configmap("c"))
    assert annotations("c") == expected


async def test_mutating_policies_add_no_audit_annotations(
    client: httpx.AsyncClient, annotations: Annotations
) -> None:
    mutation = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{data: {'a': 'b'}}"},
    }
    spec = {
        "matchConstraints": {"resourceRules": [{**CONFIGMAP_RULE, "operations": ["CREATE"]}]},
        "mutations": [mutation],
        "reinvocationPolicy": "Never",
    }
    await create(
        client, f"{GROUP}/mutatingadmissionpolicies", registration("MutatingAdmissionPolicy", "m", spec)
    )
    binding = registration("MutatingAdmissionPolicyBinding", "m", {"policyName": "m"})
    await create(client, f"{GROUP}/mutatingadmissionpolicybindings", binding)
    stored = await create(client, CONFIGMAPS, configmap("c", x="1"))
    assert stored["data"] == {"a": "b", "x": "1"}
    assert annotations("c") == {}
