"""Test which objects policies can read in requests for subresources, compared with kube-apiserver 1.36.2."""

import httpx
import pytest
from dra_shared.jsontypes import JsonObject

from tests.apiserver.kinds.admissionregistration.dynamic.objects import MERGE, create, create_policy

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RULE = {
    "apiGroups": ["", "apps"],
    "apiVersions": ["v1"],
    "operations": ["*"],
    "resources": ["pods/*", "deployments/*", "serviceaccounts/token"],
}
TELLING = (
    "request.operation + ' ' + request.subResource + ' ' + request.kind.group + '/' + request.kind.kind + ' ' + "
    "request.name"
)
CONTAINERS = [{"name": "c", "image": "i"}]


@pytest.fixture
async def client_with_policies(client: httpx.AsyncClient) -> httpx.AsyncClient:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    await create(client, "/api/v1/nodes", node)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "driver"}}
    await create(client, "/api/v1/namespaces/default/serviceaccounts", account)
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    await create(client, DEPLOYMENTS, deployment)
    for name, more in (("a", {}), ("b", {"nodeName": "n"})):
        pod = {"containers": CONTAINERS, **more}
        await create(
            client, PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod}
        )
    telling = {"expression": "request.userInfo.username != 'bob'", "messageExpression": TELLING}
    await create_policy(
        client, "p", {"matchConstraints": {"resourceRules": [RULE]}, "validations": [telling]}
    )
    return client


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        (
            "POST",
            f"{PODS}/a/binding",
            {
                "kind": "Binding",
                "apiVersion": "v1",
                "metadata": {"name": "a"},
                "target": {"kind": "Node", "name": "n"},
            },
            "CREATE binding /Binding a",
        ),
        (
            "POST",
            f"{PODS}/b/eviction",
            {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "b"}},
            "CREATE eviction policy/Eviction b",
        ),
        (
            "PUT",
            f"{DEPLOYMENTS}/d/scale",
            {
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": {"name": "d"},
                "spec": {"replicas": 3},
            },
            "UPDATE scale autoscaling/Scale d",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/driver/token",
            {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}},
            "CREATE token authentication.k8s.io/TokenRequest driver",
        ),
        ("PATCH", f"{PODS}/a/status", {"status": {"phase": "Running"}}, "UPDATE status /Pod a"),
    ],
)
async def test_policies_apply_to_subresources(
    client_with_policies: httpx.AsyncClient, method: str, path: str, body: JsonObject, expected: str
) -> None:
    headers = MERGE if method == "PATCH" else {}
    refused = await client_with_policies.request(
        method, path, json=body, headers=headers | {"Impersonate-User": "bob"}
    )
    assert refused.status_code == 422
    assert refused.json()["message"].endswith(f"denied request: {expected}")
    allowed = await client_with_policies.request(method, path, json=body, headers=headers)
    assert allowed.status_code in (200, 201)


async def test_policies_can_read_the_command_of_an_exec_request(
    client_with_policies: httpx.AsyncClient,
) -> None:
    answer = await client_with_policies.post(
        f"{PODS}/b/exec", params={"command": "ls", "stdout": "1"}, headers={"Impersonate-User": "bob"}
    )
    assert answer.json()["message"].endswith("denied request: CONNECT exec /PodExecOptions b")
