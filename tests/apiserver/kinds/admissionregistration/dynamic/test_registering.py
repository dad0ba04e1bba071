"""Test that invalid policies, bindings and webhooks are rejected. The texts are those of kube-apiserver 1.36.2."""

import httpx
from dra_shared.jsontypes import JsonObject

from tests.apiserver.kinds.admissionregistration.dynamic.objects import (
    CONFIGMAP_RULE,
    GROUP,
    MERGE,
    create,
    registration,
)
from tests.support.cases import each_case

CHANGING = {**CONFIGMAP_RULE, "operations": ["CREATE"]}


async def problems(client: httpx.AsyncClient, path: str, obj: JsonObject) -> list[str]:
    """Return the field and message of each cause of a rejection, or nothing."""
    answer = await client.post(f"{GROUP}/{path}", json=obj)
    if answer.status_code == 201:
        return []
    assert answer.status_code == 422, answer.text
    return [f"{cause['field']}: {cause['message']}" for cause in answer.json()["details"]["causes"]]


@each_case(
    ("spec", "expected"),
    [
        ({}, []),
        (
            {"validations": [{"expression": "foo"}]},
            [
                'spec.validations[0].expression: Invalid value: "foo": compilation failed: ERROR: <input>:1:1: '
                "undeclared reference to 'foo' (in container '')\n | foo\n | ^"
            ],
        ),
        (
            {"validations": [{"expression": "object.x"}]},
            ['spec.validations[0].expression: Invalid value: "object.x": must evaluate to bool but got dyn'],
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1", "reason": "Other"}]},
            [
                'spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int',
                'spec.validations[0].reason: Unsupported value: "Other": supported values: "Forbidden", "Invalid", '
                '"RequestEntityTooLarge"',
            ],
        ),
        (
            {"validations": [{"expression": "params.x == 1"}]},
            [
                'spec.validations[0].expression: Invalid value: "params.x == 1": compilation failed: ERROR: '
                "<input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^"
            ],
        ),
        (
            {
                "variables": [
                    {"name": "a", "expression": "1"},
                    {"name": "b", "expression": "variables.a + 'x'"},
                ]
            },
            [
                "spec.variables[1].expression: Invalid value: \"variables.a + 'x'\": compilation failed: ERROR: "
                "<input>:1:13: found no matching overload for '_+_' applied to '(int, string)'\n"
                " | variables.a + 'x'\n | ............^"
            ],
        ),
        (
            {"matchConditions": [{"name": "a b", "expression": "variables.a"}]},
            [
                'spec.matchConditions[0].expression: Invalid value: "variables.a": compilation failed: ERROR: '
                "<input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.a\n | ^",
                'spec.matchConditions[0].name: Invalid value: "a b": name part must consist of alphanumeric '
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  "
                "or 'my.name',  or '123-abc', regex used for validation is "
                "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ],
        ),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "1"}]},
            [
                'spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of '
                "[string null_type] but got int"
            ],
        ),
        (
            {
                "matchConstraints": {
                    "resourceRules": [{**CHANGING, "resources": ["*/*", "pods"], "scope": "Some"}]
                }
            },
            [
                'spec.matchConstraints.resourceRules[0].resources: Invalid value: ["*/*","pods"]: if \'*/*\' is '
                "present, must not specify other resources",
                'spec.matchConstraints.resourceRules[0].scope: Unsupported value: "Some": supported values: "*", '
                '"Cluster", "Namespaced"',
            ],
        ),
    ],
)
async def test_validating_policies_are_validated(
    client: httpx.AsyncClient, spec: JsonObject, expected: list[str]
) -> None:
    whole = {
        "matchConstraints": {"resourceRules": [CONFIGMAP_RULE]},
        "validations": [{"expression": "true"}],
        **spec,
    }
    policy = registration("ValidatingAdmissionPolicy", "p", whole)
    assert await problems(client, "validatingadmissionpolicies", policy) == expected


@each_case(
    ("spec", "expected"),
    [
        ({}, []),
        (
            {"validationActions": ["Deny", "Warn"]},
            [
                'spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn '
                "(repeating the same validation failure information in the API response and headers serves no "
                "purpose)"
            ],
        ),
        (
            {"validationActions": None},
            ["spec.validationActions: Required value: at least one validation action is required"],
        ),
        (
            {"paramRef": {}},
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
        ),
    ],
)
async def test_invalid_policy_bindings_are_rejected(
    client: httpx.AsyncClient, spec: JsonObject, expected: list[str]
) -> None:
    whole = {"policyName": "p", "validationActions": ["Deny"], **spec}
    binding = registration("ValidatingAdmissionPolicyBinding", "b", whole)
    assert await problems(client, "validatingadmissionpolicybindings", binding) == expected


@each_case(
    ("webhook", "expected"),
    [
        ({}, []),
        (
            {
                "name": "a.b",
                "clientConfig": {"url": "http://a?b=c"},
                "sideEffects": "Some",
                "timeoutSeconds": 31,
            },
            [
                'webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated '
                "by dots",
                'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; "
                "desired format: https://host[/path]",
                'webhooks[0].clientConfig.url: Invalid value: "b=c": query parameters are not permitted in the URL',
            ],
        ),
        (
            {"clientConfig": {}, "admissionReviewVersions": ["v2"]},
            [
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
                'webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1',
            ],
        ),
    ],
)
async def test_invalid_webhooks_are_rejected(
    client: httpx.AsyncClient, webhook: JsonObject, expected: list[str]
) -> None:
    whole = {
        "name": "a.b.c",
        "clientConfig": {"url": "https://a.b/c"},
        "rules": [CONFIGMAP_RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **webhook,
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "h"},
        "webhooks": [whole],
    }
    assert await problems(client, "validatingwebhookconfigurations", configuration) == expected


@each_case(
    ("mutation", "expected"),
    [
        ({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}, []),
        (
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object.spec{}"}},
            [
                'spec.mutations[0].applyConfiguration.expression: Invalid value: "Object.spec{}": must evaluate to '
                "Object but got Object.spec"
            ],
        ),
        (
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 1}]"}},
            [
                'spec.mutations[0].jsonPatch.expression: Invalid value: "[JSONPatch{op: 1}]": compilation failed: '
                "ERROR: <input>:1:14: expected type of field 'op' is 'string' but provided type is 'int'\n"
                " | [JSONPatch{op: 1}]\n | .............^"
            ],
        ),
        (
            {"patchType": "JSONPatch"},
            ["spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"],
        ),
    ],
)
async def test_mutating_policies_are_validated(
    client: httpx.AsyncClient, mutation: JsonObject, expected: list[str]
) -> None:
    spec = {
        "matchConstraints": {"resourceRules": [CHANGING]},
        "reinvocationPolicy": "Never",
        "mutations": [mutation],
    }
    policy = registration("MutatingAdmissionPolicy", "m", spec)
    assert await problems(client, "mutatingadmissionpolicies", policy) == expected


async def test_mutating_bindings_reject_the_operation_delete(client: httpx.AsyncClient) -> None:
    spec = {"policyName": "p", "matchResources": {"resourceRules": [CONFIGMAP_RULE]}}
    binding = registration("MutatingAdmissionPolicyBinding", "b", spec)
    assert await problems(client, "mutatingadmissionpolicybindings", binding) == [
        'spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", '
        '"CONNECT", "CREATE", "UPDATE"'
    ]


async def test_an_update_must_name_its_resource_version(client: httpx.AsyncClient) -> None:
    spec = {
        "matchConstraints": {"resourceRules": [CONFIGMAP_RULE]},
        "validations": [{"expression": "true"}],
    }
    policy = registration("ValidatingAdmissionPolicy", "p", spec)
    await create(client, f"{GROUP}/validatingadmissionpolicies", policy)
    blind = await client.put(f"{GROUP}/validatingadmissionpolicies/p", json=policy)
    assert blind.json()["details"]["causes"][0]["field"] == "metadata.resourceVersion"
    broken = await client.patch(
        f"{GROUP}/validatingadmissionpolicies/p",
        json={"spec": {"validations": [{"expression": "foo"}]}},
        headers=MERGE,
    )
    assert broken.status_code == 422
