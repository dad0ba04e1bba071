"""Test ``POST /insight/cel`` with the objects in the store."""

from typing import Any

import httpx

_SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def _slice(name: str, *devices: str) -> dict[str, Any]:
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": "d.example",
        "nodeName": "node-0",
        "pool": pool,
        "devices": [{"name": one} for one in devices],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def _ask(client: httpx.AsyncClient, expression: str) -> dict[str, Any]:
    answer = await client.post("/insight/cel", json={"expression": expression})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def test_each_cel_request_is_evaluated_with_the_current_devices(client: httpx.AsyncClient) -> None:
    assert (await _ask(client, "true"))["devices"] == 0
    assert (await client.post(_SLICES, json=_slice("a", "x", "y"))).status_code == 201
    report = await _ask(client, "device.driver == 'd.example'")
    assert (report["matches"], [one["device"] for one in report["findings"]]) == (2, ["x", "y"])
    assert (await client.delete(f"{_SLICES}/a")).status_code == 200
    assert (await _ask(client, "true"))["devices"] == 0


async def test_compile_errors_are_reported_and_long_expressions_rejected(client: httpx.AsyncClient) -> None:
    report = await _ask(client, "device.drivr")
    assert report["problems"] == [{"offset": 6, "message": "undefined field 'drivr'"}]
    too_long = await client.post("/insight/cel", json={"expression": "x" * 20_000})
    assert too_long.status_code == 422
