"""Test that YAML that would exhaust the server is rejected with kube-apiserver's texts on every route for YAML."""

import asyncio
from typing import Any

import httpx

from tests.support.cases import each_case
from tests.support.yamltexts import bomb

COLLECTION = "/api/v1/namespaces/default/configmaps"
YAML = {"content-type": "application/yaml"}
APPLY = {"content-type": "application/apply-patch+yaml"}
BODIES = [
    (b"[" * 25_000, "yaml: exceeded max depth of 10000"),
    (b"apiVersion: v1\ndata: " + b"{a: " * 25_000, "yaml: exceeded max depth of 10000"),
    (bomb(9, 10), "yaml: document contains excessive aliasing"),
    (b"apiVersion: v1\nkind: ConfigMap\n" + bomb(12, 10), "yaml: document contains excessive aliasing"),
    (b"a: &a [*a]", "yaml: anchor 'a' value contains itself"),
]
# Method, path, headers, and the text before the error.
REQUESTS: list[tuple[str, str, dict[str, str], str]] = [
    ("POST", COLLECTION, YAML, "(must be of type ConfigMap): couldn't get version/kind; "),
    ("POST", f"{COLLECTION}?dryRun=All", YAML, "(must be of type ConfigMap): couldn't get version/kind; "),
    ("PUT", f"{COLLECTION}/a", YAML, "(must be of type ConfigMap): couldn't get version/kind; "),
    ("DELETE", f"{COLLECTION}/a", YAML, "couldn't get version/kind; "),
    (
        "PATCH",
        f"{COLLECTION}/a?fieldManager=me",
        APPLY,
        "error decoding YAML: error converting YAML to JSON: ",
    ),
    (
        "PATCH",
        f"{COLLECTION}/a?fieldManager=me&dryRun=All",
        APPLY,
        "error decoding YAML: error converting YAML",
    ),
    (
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        YAML,
        "(must be of type SelfSubjectAccess",
    ),
    ("POST", "/api/v1/namespaces/default/pods/p/binding", YAML, "(must be of type Binding): couldn't get"),
    ("POST", "/api/v1/namespaces/default/pods/p/eviction", YAML, "(must be of type Eviction): couldn't get"),
]


@each_case(("method", "path", "headers", "before"), REQUESTS)
async def test_yaml_that_would_exhaust_the_server_is_rejected(
    client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], before: str
) -> None:
    for body, problem in BODIES:
        answer = await client.request(method, path, content=body, headers=headers)
        assert answer.status_code == 400, answer.text[:300]
        message = answer.json()["message"]
        assert before in message
        assert problem in message


@each_case("content_type", ["application/json", "application/merge-patch+json"])
async def test_json_that_is_nested_too_deeply_is_rejected(
    client: httpx.AsyncClient, content_type: str
) -> None:
    patching = "patch" in content_type
    method, path = ("PATCH", f"{COLLECTION}/a") if patching else ("POST", COLLECTION)
    await client.post(COLLECTION, json=_configmap("a"))
    for opening in (b"[", b'{"a":'):
        answer = await client.request(
            method, path, content=opening * 25_000, headers={"content-type": content_type}
        )
        assert answer.status_code == 400
        assert f"invalid character '{chr(opening[0])}' exceeded max depth" in answer.json()["message"]


async def test_parsing_a_large_yaml_body_does_not_delay_other_requests(client: httpx.AsyncClient) -> None:
    await client.post(COLLECTION, json=_configmap("small"))
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nother: [" + b"1," * 150_000 + b"]\n"
    writing = asyncio.create_task(client.post(COLLECTION, content=body, headers=YAML))
    served = 0
    while not writing.done():
        assert (await client.get(f"{COLLECTION}/small")).status_code == 200
        served += 1
    assert (await writing).status_code == 201
    assert served > 5


async def test_large_yaml_documents_are_applied_like_small_ones(client: httpx.AsyncClient) -> None:
    data = "".join(f"  key{number}: value\n" for number in range(2000))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata:\n{data}"
    for _ in range(2):
        answer = await client.patch(f"{COLLECTION}/big?fieldManager=me", content=text.encode(), headers=APPLY)
        assert answer.status_code in (200, 201)
    made = answer.json()
    assert len(made["data"]) == 2000
    assert made["metadata"]["managedFields"][0]["operation"] == "Apply"
    repeated = await client.patch(
        f"{COLLECTION}/big?fieldManager=me&fieldValidation=Strict",
        content=text.encode() + b"  key0: other\n",
        headers=APPLY,
    )
    assert repeated.status_code == 400
    assert 'line 2005: key "key0" already set in map' in repeated.json()["message"]


def _configmap(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
