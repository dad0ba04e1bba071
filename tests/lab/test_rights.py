"""The policy that limits the drivers of a node to that node, on an API server with RBAC."""

import copy
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_apiserver.user import UserInfo
from dra_driverkit.resources import DriverResources, Pool, PoolSlice
from dra_lab.rights import grant
from dra_node_agent.drivers.profile.cluster import ClusterPools
from dra_shared.api.resource import Device
from dra_shared.client.rest import Client
from dra_shared.clock import SystemClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35

from tests.support.reference import REPOSITORY
from tests.support.waiting import until

# One server for all: starting one takes longer than any test here.
pytestmark = pytest.mark.asyncio(loop_scope="module")


_DRA, _CORE = "/apis/resource.k8s.io/v1", "/api/v1"
_SLICES = f"{_DRA}/resourceslices"
_CLAIMS = f"{_DRA}/namespaces/default/resourceclaims"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_TOKEN = "token-of-drivers-of-n1"
_MERGE = {"content-type": "application/merge-patch+json"}
_SHARED: dict[str, JsonObject] = {
    "allNodes": {"allNodes": True},
    "nodeSelector": {
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
            ]
        }
    },
    "perDeviceNodeSelection": {
        "perDeviceNodeSelection": True,
        "devices": [{"name": "d", "nodeName": "n2"}],
    },
}


def _as(user: str) -> dict[str, str]:
    return {"impersonate-user": user, "impersonate-group": "dralab:drivers"}


_DRIVER = _as("dralab:driver:n1")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    # Before 1.36, the API server lets every user that may update a claim's status change its allocation.
    config = Config(
        port=0,
        data=tmp_path_factory.mktemp("rights"),
        database=IN_MEMORY,
        authorization_mode="RBAC",
        features=FeatureGates(V1_35, DRAPartitionableDevices=True),
        runtime_config="api/all=true",
        known_tokens={_TOKEN: UserInfo("dralab:driver:n1", groups=("dralab:drivers",))},
    )
    async with (
        ApiServer(config) as server,
        Client(server.url) as administrator,
        httpx.AsyncClient(base_url=server.url, timeout=30) as made,
    ):
        await grant(administrator, nodes=True)
        yield made


def _slice(name: str, driver: str = "gpu.example.com", version: str = "v1", **spec: Any) -> JsonObject:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "pool": pool, **copy.deepcopy(spec)},
    }


def _refusal(answer: httpx.Response) -> str:
    assert answer.status_code == 422, answer.text
    text: str = answer.json()["message"].partition("denied request: ")[2]
    return text


async def _permit(client: httpx.AsyncClient, driver: str) -> None:
    """Apply the role and binding of the documentation for a driver."""
    page = (REPOSITORY / "docs" / "authorization.md").read_text()
    manifest = page.partition("<!-- shared pools -->\n```yaml\n")[2].partition("```")[0]
    role, binding = yaml.safe_load_all(manifest.replace("fabric.example.com", driver))
    name = driver.partition(".")[0]
    role["metadata"]["name"] = binding["metadata"]["name"] = binding["roleRef"]["name"] = name
    await _create(client, f"{_RBAC}/clusterroles", role)
    await _create(client, f"{_RBAC}/clusterrolebindings", binding)


async def _create(client: httpx.AsyncClient, path: str, obj: JsonObject) -> JsonObject:
    answer = await client.post(path, json=obj)
    assert answer.status_code == 201, answer.text
    found: JsonObject = answer.json()
    return found


async def test_drivers_write_only_the_slices_of_their_node(client: httpx.AsyncClient) -> None:
    assert (await client.post(_SLICES, json=_slice("own", nodeName="n1"), headers=_DRIVER)).status_code == 201
    own = f"{_SLICES}/own"
    label = {"metadata": {"labels": {"a": "b"}}}
    assert (await client.patch(own, json=label, headers={**_DRIVER, **_MERGE})).status_code == 200
    assert (await client.delete(own, headers=_DRIVER)).status_code == 200

    refused = "the drivers of node n1 may not write the slices of node n2"
    assert _refusal(await client.post(_SLICES, json=_slice("x", nodeName="n2"), headers=_DRIVER)) == refused
    await _create(client, _SLICES, _slice("theirs", nodeName="n2"))
    theirs = f"{_SLICES}/theirs"
    assert _refusal(await client.patch(theirs, json=label, headers={**_DRIVER, **_MERGE})) == refused
    assert _refusal(await client.delete(theirs, headers=_DRIVER)) == refused


@pytest.mark.parametrize("kind", _SHARED)
async def test_drivers_without_permission_cannot_write_slices_without_a_node(
    client: httpx.AsyncClient, kind: str
) -> None:
    refused = (
        "the drivers of node n1 may not write slices that belong to no node without the permission "
        "arbitrary-node:{} on resourceslices/driver gpu.example.com"
    )
    name = f"shared-{kind.lower()}"
    hiding = _slice(name, **_SHARED[kind])
    assert _refusal(await client.post(_SLICES, json=hiding, headers=_DRIVER)) == refused.format("create")
    await _create(client, _SLICES, hiding)
    label = {"metadata": {"labels": {"a": "b"}}}
    changed = await client.patch(f"{_SLICES}/{name}", json=label, headers={**_DRIVER, **_MERGE})
    assert _refusal(changed) == refused.format("update")
    assert _refusal(await client.delete(f"{_SLICES}/{name}", headers=_DRIVER)) == refused.format("delete")


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_the_policy_applies_to_older_api_versions(client: httpx.AsyncClient, version: str) -> None:
    path = f"/apis/resource.k8s.io/{version}/resourceslices"
    for spec in ({"nodeName": "n2"}, {"allNodes": True}):
        body = _slice(f"old-{version}", version=version, **spec)
        assert "may not write" in _refusal(await client.post(path, json=body, headers=_DRIVER))


async def test_permission_to_publish_for_all_nodes_is_limited_to_the_named_driver(
    client: httpx.AsyncClient,
) -> None:
    await _permit(client, "fabric.example.com")
    shared = _slice("fabric", "fabric.example.com", allNodes=True)
    assert (await client.post(_SLICES, json=shared, headers=_DRIVER)).status_code == 201
    more = {"spec": {"devices": [{"name": "d"}]}}
    path = f"{_SLICES}/fabric"
    assert (await client.patch(path, json=more, headers={**_DRIVER, **_MERGE})).status_code == 200
    assert (await client.delete(path, headers=_DRIVER)).status_code == 200
    other = _slice("other", allNodes=True)
    assert "resourceslices/driver gpu.example.com" in _refusal(
        await client.post(_SLICES, json=other, headers=_DRIVER)
    )
    elsewhere = _slice("elsewhere", "fabric.example.com", nodeName="n2")
    assert "the slices of node n2" in _refusal(await client.post(_SLICES, json=elsewhere, headers=_DRIVER))


async def test_a_user_without_a_node_in_its_name_writes_no_slices(client: httpx.AsyncClient) -> None:
    for user in ("eve", "dralab:driver:", "someone-else:n1"):
        answer = await client.post(_SLICES, json=_slice("eve", nodeName="n1"), headers=_as(user))
        assert _refusal(answer) == ("no node association found for user, its name must be dralab:driver:NODE")


async def test_drivers_change_neither_allocation_nor_reservation_of_claims(
    client: httpx.AsyncClient,
) -> None:
    claim = await _create(
        client,
        _CLAIMS,
        {
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}},
        },
    )
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d"}
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    path = f"{_CLAIMS}/c/status"
    answer = await client.put(path, json={**claim, "status": status}, headers={})
    assert answer.status_code == 200, answer.text

    headers = {**_DRIVER, **_MERGE}
    report = {"driver": "gpu.example.com", "pool": "n1", "device": "d"}
    answer = await client.patch(path, json={"status": {"devices": [report]}}, headers=headers)
    assert answer.status_code == 200, answer.text
    refused = "the drivers of node n1 may not change the allocation or the reservations of a claim"
    for changed in ({"allocation": None, "reservedFor": None, "devices": None}, {"reservedFor": None}):
        assert _refusal(await client.patch(path, json={"status": changed}, headers=headers)) == refused


async def test_drivers_patch_only_pods_that_are_bound_to_their_node(client: httpx.AsyncClient) -> None:
    pods = f"{_CORE}/namespaces/default/pods"
    label = {"metadata": {"labels": {"a": "b"}}}
    for name, spec, code in (
        ("mine", {"nodeName": "n1"}, 200),
        ("theirs", {"nodeName": "n2"}, 422),
        ("unbound", {}, 422),
    ):
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
        await _create(client, pods, body)
        answer = await client.patch(f"{pods}/{name}", json=label, headers={**_DRIVER, **_MERGE})
        assert answer.status_code == code, answer.text


async def test_a_profiles_shared_pools_are_published_once_their_driver_has_permission(
    client: httpx.AsyncClient,
) -> None:
    driver = "switch.example.com"
    device = PoolSlice((Device(name="port"),))
    await _permit(client, driver)
    pools = ClusterPools(driver, DriverResources({"ports": Pool((device,), all_nodes=True)}), None)
    async with Client(str(client.base_url), token=_TOKEN) as own, pools.join(own, SystemClock()):

        async def is_published() -> bool:
            slices = (await client.get(_SLICES)).json()["items"]
            return any(one["spec"]["driver"] == driver for one in slices)

        await until(is_published)
