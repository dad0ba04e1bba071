"""Test the validation of a pod's status as kubelets, the scheduler and controllers write it, against 1.36.2."""

import copy
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.kinds.pods.status import check_status_update
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

PODS = "/api/v1/namespaces/default/pods"
RESOURCES: JsonObject = {
    "requests": {"cpu": "1", "example.com/gpu": "1"},
    "limits": {"example.com/gpu": "1"},
    "claims": [{"name": "gpu", "request": "r"}],
}
POD: JsonObject = {
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "x", "resources": RESOURCES}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}],
        "restartPolicy": "OnFailure",
    },
}
NAME_OF_MAPPING = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
OF_CLAIM = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
    "'claim:<claimName>' if request is empty"
)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as made:
        assert (await made.post(PODS, json=POD)).status_code == 201
        yield made


async def put(client: httpx.AsyncClient, status: JsonObject) -> httpx.Response:
    obj: JsonObject = (await client.get(f"{PODS}/p")).json()
    obj["status"] = copy.deepcopy(status)
    return await client.put(f"{PODS}/p/status", json=obj)


async def causes(client: httpx.AsyncClient, status: JsonObject) -> list[tuple[str, str]]:
    answer = await put(client, status)
    assert answer.status_code == 422, answer.text
    return [(cause["field"], cause["message"]) for cause in answer.json()["details"]["causes"]]


async def test_invalid_pod_and_host_addresses_are_rejected(client: httpx.AsyncClient) -> None:
    text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    assert await causes(client, {"podIP": "a.b/c"}) == [
        ("status.podIPs[0]", f'Invalid value: "a.b/c": {text}')
    ]
    assert await causes(client, {"hostIPs": [{"ip": "1Gi"}]}) == [
        ("status.hostIPs[0].ip", 'Invalid value: "1Gi": must be equal to `hostIP`'),
        ("status.hostIPs[0]", f'Invalid value: "1Gi": {text}'),
    ]
    assert await causes(client, {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]}) == [
        (
            "status.podIPs",
            'Invalid value: [{"IP":"1.2.3.4"},{"IP":"1.2.3.5"}]: '
            "may specify no more than one IP for each IP family",
        )
    ]


async def test_a_single_pod_ip_is_copied_to_the_list(client: httpx.AsyncClient) -> None:
    status = (await put(client, {"podIP": "1.2.3.4"})).json()["status"]
    assert status["podIPs"] == [{"ip": "1.2.3.4"}]
    status = (await put(client, {"podIPs": [{"ip": "1.2.3.5"}, {"ip": "::1"}]})).json()["status"]
    assert status["podIP"] == "1.2.3.5"
    status = (await put(client, {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.5"}, {"ip": "::1"}]})).json()
    assert status["status"]["podIPs"] == [{"ip": "1.2.3.4"}]


async def test_the_claim_status_for_extended_resources_is_validated(client: httpx.AsyncClient) -> None:
    mapping = {"containerName": "a.b/c", "resourceName": "x", "requestName": "r"}
    status = {"resourceClaimName": "claim", "requestMappings": [mapping]}
    path = "status.extendedResourceClaimStatus"
    assert await causes(client, {"extendedResourceClaimStatus": status}) == [
        (f"{path}.requestMappings[0].containerName", f'Invalid value: "a.b/c": {NAME_OF_MAPPING}')
    ]
    mapping |= {"containerName": "c", "resourceName": "example.com/gpu"}
    assert (await put(client, {"extendedResourceClaimStatus": status})).status_code == 200
    assert await causes(client, {"extendedResourceClaimStatus": {"requestMappings": []}}) == [
        (f"{path}.requestMappings", "Required value: at least one request mapping is required"),
        (f"{path}.resourceClaimName", "Required value"),
    ]


async def test_device_health_in_a_container_status_must_name_a_claim_of_the_container(
    client: httpx.AsyncClient,
) -> None:
    device = {"resourceID": "gpu-0", "health": "Healthy"}
    resource = {"name": "claim:gpu", "resources": [device, {**device, "health": "Fine", "message": ""}]}
    status = {"name": "c", "image": "", "imageID": "", "ready": True, "restartCount": 0}
    path = "status.containerStatuses[0].allocatedResourcesStatus[0]"
    found = await causes(client, {"containerStatuses": [{**status, "allocatedResourcesStatus": [resource]}]})
    assert found == [
        (f"{path}.name", f'Invalid value: "claim:gpu": {OF_CLAIM}'),
        (
            f"{path}.resources[1].health",
            'Unsupported value: "Fine": supported values: "Healthy", "Unhealthy", "Unknown"',
        ),
        (f"{path}.resources[1].message", "Required value: must be non-empty if specified"),
        (f"{path}.resources[1].resourceID", 'Duplicate value: "gpu-0"'),
    ]
    resource = {"name": "claim:gpu/r", "resources": [device]}
    answer = await put(client, {"containerStatuses": [{**status, "allocatedResourcesStatus": [resource]}]})
    assert answer.status_code == 200, answer.text


async def test_only_restartable_containers_may_run_again(client: httpx.AsyncClient) -> None:
    def status(name: str, **state: JsonObject) -> JsonObject:
        return {"containerStatuses": [{"name": name, "state": state, "image": "", "imageID": ""}]}

    for name, code, allowed in (("c", 1, True), ("c", 0, False), ("stranger", 1, False)):
        made = await put(client, status(name, terminated={"exitCode": code}))
        assert made.status_code == 200, made.text
        answer = await put(client, status(name, waiting={}))
        assert (answer.status_code == 200) is allowed, (name, code, answer.text)
        assert (await put(client, {})).status_code == 200


async def test_the_observed_generation_is_kept_if_a_status_update_omits_it(client: httpx.AsyncClient) -> None:
    condition = {"type": "Ready", "status": "True"}
    observed = {"observedGeneration": 1, "conditions": [{**condition, "observedGeneration": 1}]}
    assert (await put(client, observed)).status_code == 200
    found = (await put(client, {"conditions": [{**condition, "status": "False"}]})).json()["status"]
    assert (found["observedGeneration"], found["conditions"][0]["observedGeneration"]) == (1, 1)
    assert await causes(client, {"observedGeneration": -1}) == [
        ("status.observedGeneration", "Invalid value: -1: must be a non-negative integer")
    ]


@pytest.mark.parametrize(("kubernetes", "known"), [(V1_36, False), (V1_37, True)])
def test_node_resources_of_the_extended_resource_claim_are_accepted(kubernetes: Version, known: bool) -> None:
    """Check a claim that neither the spec nor resourceClaimStatuses names (kubernetes/kubernetes#141556)."""
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    amount = {"resources": {"cpu": "1"}} if kubernetes == V1_36 else {}
    taken = {"resourceClaimName": "made", "containers": ["c"], **amount}
    status = {
        "extendedResourceClaimStatus": {"resourceClaimName": "made", "requestMappings": [mapping]},
        "nodeAllocatableResourceClaimStatuses": [taken],
    }
    found = check_status_update({**POD, "status": status}, POD, kubernetes)
    at = "status.nodeAllocatableResourceClaimStatuses[0].resourceClaimName"
    assert [error.field for error in found] == ([] if known else [at])
