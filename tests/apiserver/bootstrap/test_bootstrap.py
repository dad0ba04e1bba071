"""What a new cluster has, and what is derived from its objects."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.bootstrap.policy import roles_and_bindings
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
PATIENCE = 60.0


async def names(client: httpx.AsyncClient, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in (await client.get(path)).json()["items"]}


async def until_listed(client: httpx.AsyncClient, path: str, name: str, listed: bool) -> None:
    async with asyncio.timeout(PATIENCE):
        while (name in await names(client, path)) is not listed:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)


async def test_the_api_servers_own_service(client: httpx.AsyncClient) -> None:
    service = (await client.get("/api/v1/namespaces/default/services/kubernetes")).json()
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    assert service["spec"]["ports"][0]["port"] == 443
    address = (await client.get(f"{ADDRESSES}/10.96.0.1")).json()
    assert address["spec"]["parentRef"] == {
        "resource": "services",
        "namespace": "default",
        "name": "kubernetes",
    }


@pytest.mark.parametrize(
    ("path", "some"),
    [
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"system-cluster-critical", "system-node-critical"}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"cluster-admin", "edit", "view", "system:node"}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"cluster-admin", "system:discovery"}),
        ("/apis/rbac.authorization.k8s.io/v1/roles", {"system::leader-locking-kube-scheduler"}),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", {"exempt", "probes", "catch-all"}),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", {"exempt", "workload-low"}),
        ("/apis/networking.k8s.io/v1/servicecidrs", {"kubernetes"}),
        (API_SERVICES, {"v1.", "v1.apps", "v2.autoscaling", "v1.resource.k8s.io"}),
    ],
)
async def test_the_defaults_are_there(client: httpx.AsyncClient, path: str, some: set[str]) -> None:
    assert some <= await names(client, path)


async def test_what_users_changed_stays_so_after_a_restart(tmp_path: Path) -> None:
    config = Config(port=0, data=tmp_path, relaxed=True)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user"
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        await client.patch(role, json={"rules": []}, headers={"content-type": "application/merge-patch+json"})
        before = (await client.get(role)).json()
        revision = (await client.get(API_SERVICES)).json()["metadata"]["resourceVersion"]
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        assert (await client.get(role)).json() == before
        # Nothing was missing, so nothing was written.
        assert (await client.get(API_SERVICES)).json()["metadata"]["resourceVersion"] == revision


async def test_every_address_of_a_service_has_an_object(client: httpx.AsyncClient) -> None:
    services = "/api/v1/namespaces/default/services"
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"clusterIP": "10.96.3.3", "ports": [{"port": 80}]},
    }
    assert (await client.post(services, json=body)).status_code == 201
    await until_listed(client, ADDRESSES, "10.96.3.3", True)
    await client.delete(f"{services}/s")
    await until_listed(client, ADDRESSES, "10.96.3.3", False)


async def test_a_custom_group_has_an_api_service(client: httpx.AsyncClient) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    assert (await client.post(definitions, json=body)).status_code == 201
    await until_listed(client, API_SERVICES, "v1.example.com", True)
    spec = (await client.get(f"{API_SERVICES}/v1.example.com")).json()["spec"]
    assert (spec["groupPriorityMinimum"], spec["versionPriority"]) == (1000, 100)
    await client.delete(f"{definitions}/foos.example.com")
    await until_listed(client, API_SERVICES, "v1.example.com", False)


def test_the_roles_as_they_are_written() -> None:
    made = {(obj["kind"], obj["metadata"]["name"]): obj for obj in roles_and_bindings()}
    everything = made["ClusterRole", "cluster-admin"]["rules"]
    assert everything == [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]
    edit = made["ClusterRole", "edit"]
    assert edit["rules"] is None
    assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"
    assert edit["aggregationRule"] == {
        "clusterRoleSelectors": [
            {"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
        ]
    }
    binding = made["RoleBinding", "system::leader-locking-kube-scheduler"]
    assert binding["roleRef"]["kind"] == "Role"
    assert {subject["kind"] for subject in binding["subjects"]} == {"User", "ServiceAccount"}
    kinds = [kind for kind, _ in made]
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    assert counts["ClusterRole"] > 60
    assert counts["ClusterRoleBinding"] > 45
