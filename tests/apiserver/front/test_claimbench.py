"""Test ``POST /insight/claim`` with the objects in the store."""

from typing import Any

import httpx

from tests.support.cases import each_case

_DRA = "/apis/resource.k8s.io/v1"
_SLICE = {
    "metadata": {"name": "a"},
    "spec": {
        "driver": "d.example",
        "nodeName": "node-0",
        "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "x"}, {"name": "y"}],
    },
}
_TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t}
spec:
  spec:
    devices:
      requests:
      - name: any
        exactly: {deviceClassName: all, allocationMode: All}
"""


async def _ask(client: httpx.AsyncClient, manifest: str) -> dict[str, Any]:
    answer = await client.post("/insight/claim", json={"manifest": manifest})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def test_each_claim_request_is_evaluated_with_the_current_classes_and_devices(
    client: httpx.AsyncClient,
) -> None:
    (request,) = (await _ask(client, _TEMPLATE))["requests"]
    assert request["problem"] == 'device class "all" does not exist'
    assert (await client.post(f"{_DRA}/resourceslices", json=_SLICE)).status_code == 201
    made = {"metadata": {"name": "all"}, "spec": {}}
    assert (await client.post(f"{_DRA}/deviceclasses", json=made)).status_code == 201
    answer = await _ask(client, _TEMPLATE)
    assert (answer["requests"][0]["matches"], answer["requests"][0]["mode"]) == (2, "All")
    assert (answer["claim"]["kind"], answer["claim"]["metadata"]) == ("ResourceClaim", {"name": "t"})
    assert answer["claim"]["spec"]["devices"]["requests"][0]["name"] == "any"


@each_case(
    ("manifest", "problem"),
    [
        ("[", "line 1: did not find expected node content"),
        ("a claim", "a ResourceClaim or ResourceClaimTemplate is wanted"),
        ("kind: Pod", "kind must be ResourceClaim or ResourceClaimTemplate"),
        (
            "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1beta1}",
            "apiVersion must be resource.k8s.io/v1",
        ),
        (
            "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, spec: {devices: {requests: 1}}}",
            "Expected `array`, got `int` - at `$.spec.devices.requests`",
        ),
    ],
)
async def test_a_manifest_that_is_not_a_claim_is_rejected(
    client: httpx.AsyncClient, manifest: str, problem: str
) -> None:
    assert problem in (await _ask(client, manifest))["problem"]


async def test_stored_classes_report_the_devices_that_they_select(client: httpx.AsyncClient) -> None:
    assert (await client.post(f"{_DRA}/resourceslices", json=_SLICE)).status_code == 201
    expression = "device.driver == 'other.example'"
    for name, selectors in (("all", []), ("none", [{"cel": {"expression": expression}}])):
        made = {"metadata": {"name": name}, "spec": {"selectors": selectors}}
        assert (await client.post(f"{_DRA}/deviceclasses", json=made)).status_code == 201
    answer = (await client.get("/insight/classes")).json()
    assert answer["devices"] == ["d.example/node-0/x", "d.example/node-0/y"]
    assert answer["classes"] == [
        {"name": "all", "devices": [0, 1], "problem": ""},
        {"name": "none", "devices": [], "problem": ""},
    ]
