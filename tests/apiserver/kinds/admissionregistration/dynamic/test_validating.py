"""Test decisions of ValidatingAdmissionPolicies. The texts are those of kube-apiserver 1.36.2."""

from typing import Any

import httpx
import pytest

from tests.apiserver.kinds.admissionregistration.dynamic.objects import (
    CONFIGMAP_RULE,
    CONFIGMAPS,
    GROUP,
    MERGE,
    SLICES,
    configmap,
    create,
    create_policy,
    slice_on,
)

ACCOUNT = "system:serviceaccount:dra:dra-sa"
# The policy in the chart of the DRA example driver. NVIDIA's has the same form.
CHART: dict[str, Any] = {
    "failurePolicy": "Fail",
    "matchConstraints": {
        "resourceRules": [
            {
                "apiGroups": ["resource.k8s.io"],
                "apiVersions": ["v1beta1", "v1beta2", "v1"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": ["resourceslices"],
            }
        ]
    },
    "matchConditions": [
        {"name": "isRestrictedUser", "expression": f'request.userInfo.username == "{ACCOUNT}"'}
    ],
    "variables": [
        {
            "name": "userNodeName",
            "expression": "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0].orValue('')",
        },
        {
            "name": "objectNodeName",
            "expression": '(request.operation == "DELETE" ? oldObject : object).spec.?nodeName.orValue("")',
        },
    ],
    "validations": [
        {"expression": 'variables.userNodeName != ""', "message": "no node association found for user"},
        {
            "expression": "variables.userNodeName == variables.objectNodeName",
            "messageExpression": '"this user running on node \'"+variables.userNodeName+"\' may not modify " + '
            '(variables.objectNodeName == "" ?"cluster resourceslices" : '
            '"resourceslices on node \'"+variables.objectNodeName+"\'")',
        },
    ],
}


def on(node: str) -> dict[str, str]:
    return {
        "Impersonate-User": ACCOUNT,
        "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name": node,
    }


async def test_the_policy_of_a_driver_chart_limits_plugins_to_slices_of_their_node(
    client: httpx.AsyncClient,
) -> None:
    await create_policy(client, "slices", CHART)
    assert (await client.post(SLICES, json=slice_on("admin", "n2"))).status_code == 201
    assert (await client.post(SLICES, json=slice_on("mine", "n1"), headers=on("n1"))).status_code == 201

    refused = await client.post(SLICES, json=slice_on("other", "n2"), headers=on("n1"))
    message = (
        "ValidatingAdmissionPolicy 'slices' with binding 'slices' denied request: "
        "this user running on node 'n1' may not modify resourceslices on node 'n2'"
    )
    assert refused.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'resourceslices.resource.k8s.io "other" is forbidden: {message}',
        "reason": "Invalid",
        "details": {
            "name": "other",
            "group": "resource.k8s.io",
            "kind": "resourceslices",
            "causes": [{"message": message}],
        },
        "code": 422,
    }
    patched = await client.patch(
        f"{SLICES}/mine", json={"metadata": {"labels": {"a": "b"}}}, headers=MERGE | on("n2")
    )
    deleted = await client.delete(f"{SLICES}/mine", headers=on("n2"))
    assert (patched.status_code, deleted.status_code) == (422, 422)
    every = await client.delete(SLICES, headers=on("n2"))
    assert 'resourceslices.resource.k8s.io "Unknown" is forbidden' in every.json()["message"]
    old = slice_on("old", "n2") | {"apiVersion": "resource.k8s.io/v1beta1"}
    assert (await client.post(SLICES.replace("v1", "v1beta1"), json=old, headers=on("n1"))).status_code == 422


async def test_userinfo_extra_is_absent_in_expressions_for_a_user_without_it(
    client: httpx.AsyncClient,
) -> None:
    await create_policy(client, "slices", CHART)
    refused = await client.post(SLICES, json=slice_on("s", "n1"), headers={"Impersonate-User": ACCOUNT})
    assert refused.json()["details"]["causes"] == [
        {
            "message": "ValidatingAdmissionPolicy 'slices' with binding 'slices' denied request: expression "
            '\'variables.userNodeName != ""\' resulted in error: composited variable "userNodeName" fails to '
            "evaluate: no such key: extra"
        }
    ]


async def denial(client: httpx.AsyncClient, obj: dict[str, Any], path: str = CONFIGMAPS) -> str:
    """Return the message of the denial, or ""."""
    answer = await client.post(path, json=obj, params={"dryRun": "All"})
    if answer.status_code == 201:
        return ""
    expected: str = answer.json()["message"]
    return expected.partition("denied request: ")[2] or expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("object.data.x == '1'", ""),
        ("object.data.y == '1'", "expression 'object.data.y == '1'' resulted in error: no such key: y"),
        ("object.data.size() > 1", "failed expression: object.data.size() > 1"),
        ("oldObject == null && object.kind == 'ConfigMap'", ""),
        ("request.name == 'c' && request.operation == 'CREATE' && request.dryRun", ""),
        ("request.options.kind == 'CreateOptions' && request.options.dryRun == ['All']", ""),
        ("request.resource.resource == 'configmaps' && request.kind.group == ''", ""),
        ("'system:masters' in request.userInfo.groups", ""),
        ("namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'", ""),
        ("authorizer.requestResource.check('create').allowed()", ""),
        ("authorizer.group('').resource('pods').namespace('d').check('get').reason() == ''", ""),
        (
            "authorizer.path('').check('get').allowed()",
            "expression 'authorizer.path('').check('get').allowed()' resulted in error: path must not be empty",
        ),
        (
            "lists.range(1000).all(a, lists.range(1000).all(b, true))",
            "expression 'lists.range(1000).all(a, lists.range(1000).all(b, true))' resulted in error: "
            "operation cancelled: actual cost limit exceeded",
        ),
    ],
)
async def test_policy_expressions_can_read_the_admission_request(
    client: httpx.AsyncClient, expression: str, expected: str
) -> None:
    await create_policy(client, "p", {"validations": [{"expression": expression}]})
    assert await denial(client, configmap("c", x="1")) == expected


async def test_denials_have_message_and_reason_of_the_validation(client: httpx.AsyncClient) -> None:
    validations = [
        {"expression": "object.data.a == '1'", "message": " plain ", "reason": "Forbidden"},
        {"expression": "object.data.b == '1'", "messageExpression": "'b is ' + object.data.b"},
        {
            "expression": "object.data.c == '1'",
            "messageExpression": "string(object.data.none)",
            "message": "instead",
        },
        {"expression": "object.data.d == '1'", "messageExpression": "'two\\nlines'"},
    ]
    await create_policy(client, "p", {"validations": validations})
    fine = {"a": "1", "b": "1", "c": "1", "d": "1"}
    answer = await client.post(CONFIGMAPS, json=configmap("c", **fine | {"a": "2"}))
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert answer.json()["message"].endswith(" denied request: plain")
    assert await denial(client, configmap("c", **fine | {"b": "2"})) == "b is 2"
    assert await denial(client, configmap("c", **fine | {"c": "2"})) == "instead"
    assert (
        await denial(client, configmap("c", **fine | {"d": "2"})) == "failed expression: object.data.d == '1'"
    )
    assert await denial(client, configmap("c", **fine)) == ""


async def test_warnings_and_audits_let_requests_pass(client: httpx.AsyncClient) -> None:
    await create_policy(
        client,
        "p",
        {"validations": [{"expression": "false", "message": "never"}]},
        validationActions=["Warn", "Audit"],
    )
    answer = await client.post(CONFIGMAPS, json=configmap("c"))
    assert answer.status_code == 201
    assert answer.headers["warning"] == (
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': never\""
    )


async def test_ignored_failures_do_not_deny_requests(client: httpx.AsyncClient) -> None:
    validations = [{"expression": "object.data.none == '1'"}, {"expression": "object.data.x == '1'"}]
    await create_policy(client, "p", {"failurePolicy": "Ignore", "validations": validations})
    assert await denial(client, configmap("c", x="1")) == ""
    assert await denial(client, configmap("c", x="2")) == "failed expression: object.data.x == '1'"


async def test_bindings_and_policies_select_requests(client: httpx.AsyncClient) -> None:
    await create_policy(
        client,
        "p",
        {
            "matchConstraints": {
                "resourceRules": [CONFIGMAP_RULE],
                "excludeResourceRules": [{**CONFIGMAP_RULE, "resourceNames": ["free"]}],
                "objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
            },
            "matchConditions": [
                {"name": "big", "expression": "!has(object.data) || !('small' in object.data)"}
            ],
            "validations": [{"expression": "false"}],
        },
        matchResources={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}},
    )
    denied = "failed expression: false"
    assert await denial(client, configmap("c")) == denied
    assert await denial(client, configmap("free")) == ""
    assert await denial(client, configmap("c", {"skip": "yes"})) == ""
    assert await denial(client, configmap("c", small="yes")) == ""
    assert await denial(client, configmap("c"), "/api/v1/namespaces/kube-system/configmaps") == ""


async def test_expressions_read_the_parameters_of_the_binding(client: httpx.AsyncClient) -> None:
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "judged", "expression": "object.metadata.name == 'c'"}],
        "validations": [
            {
                "expression": "object.data.x == params.data.x",
                "messageExpression": "'must be ' + params.data.x",
            }
        ],
    }
    await create(client, CONFIGMAPS, configmap("limit", {"use": "a"}, x="1"))
    await create(client, CONFIGMAPS, configmap("other", {"use": "b"}, x="2"))
    await create_policy(client, "named", spec, paramRef={"name": "limit", "parameterNotFoundAction": "Deny"})
    assert await denial(client, configmap("c", x="2")) == "must be 1"
    await client.delete(f"{GROUP}/validatingadmissionpolicybindings/named")

    selector = {"matchExpressions": [{"key": "use", "operator": "Exists"}]}
    await create_policy(
        client, "chosen", spec, paramRef={"selector": selector, "parameterNotFoundAction": "Deny"}
    )
    assert await denial(client, configmap("c", x="1")) == "must be 2"
    await client.delete(f"{GROUP}/validatingadmissionpolicybindings/chosen")

    missing = {"name": "missing", "namespace": "default"}
    await create_policy(client, "missing", spec, paramRef={**missing, "parameterNotFoundAction": "Deny"})
    assert await denial(client, configmap("c", x="1")) == (
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    await client.delete(f"{GROUP}/validatingadmissionpolicybindings/missing")
    await create_policy(client, "allowed", spec, paramRef={**missing, "parameterNotFoundAction": "Allow"})
    assert await denial(client, configmap("c", x="1")) == ""


async def test_a_policy_without_a_binding_does_nothing(client: httpx.AsyncClient) -> None:
    await create_policy(client, "p", {"validations": [{"expression": "false"}]})
    assert (await client.post(CONFIGMAPS, json=configmap("c"))).status_code == 422
    await client.delete(f"{GROUP}/validatingadmissionpolicybindings/p")
    assert (await client.post(CONFIGMAPS, json=configmap("c"))).status_code == 201
