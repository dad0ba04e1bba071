"""Test the cost of requests in calls of the project's functions, because times differ between machines."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import httpx
import pytest

_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_PODS = "/api/v1/namespaces/default/pods"
_MERGE = {"content-type": "application/merge-patch+json"}
_CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "base"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
}
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "base"},
    "spec": {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "busybox"}]},
}
Send = Callable[[int], Awaitable[httpx.Response]]


async def _calls(send: Send) -> int:
    """Return the smallest number of calls of several requests, because the first ones fill caches."""
    found = []
    for number in range(4):
        count = 0

        def profile(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call" and "/dra_" in frame.f_code.co_filename

        sys.setprofile(profile)
        try:
            answer = await send(number)
        finally:
            sys.setprofile(None)
        assert answer.is_success, answer.text
        found.append(count)
    return min(found)


def _with_name(obj: dict[str, Any], number: int) -> dict[str, Any]:
    return {**obj, "metadata": {"name": f"made-{number}"}}


def _annotate(number: int) -> dict[str, Any]:
    return {"metadata": {"annotations": {"number": str(number)}}}


@pytest.fixture
async def base(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return a client of a server that has one pod and one claim."""
    await client.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "default"}})
    for path, obj in ((_CLAIMS, _CLAIM), (_PODS, _POD)):
        answer = await client.post(path, json=obj)
        assert answer.is_success, answer.text
    return client


@pytest.mark.parametrize(("path", "bound"), [(f"{_CLAIMS}/base", 46), (_CLAIMS, 77), (f"{_PODS}/base", 46)])
async def test_a_read_costs_few_calls(base: httpx.AsyncClient, path: str, bound: int) -> None:
    assert await _calls(lambda _: base.get(path)) <= bound


@pytest.mark.parametrize(("path", "obj", "bound"), [(_CLAIMS, _CLAIM, 298), (_PODS, _POD, 348)])
async def test_a_create_costs_few_calls(
    base: httpx.AsyncClient, path: str, obj: dict[str, Any], bound: int
) -> None:
    assert await _calls(lambda number: base.post(path, json=_with_name(obj, number))) <= bound


@pytest.mark.parametrize(("path", "bound"), [(f"{_CLAIMS}/base", 374), (f"{_PODS}/base", 613)])
async def test_a_patch_costs_few_calls(base: httpx.AsyncClient, path: str, bound: int) -> None:
    assert await _calls(lambda number: base.patch(path, json=_annotate(number), headers=_MERGE)) <= bound


def _status(number: int) -> dict[str, Any]:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0"}
    consumer = {"name": "p", "resource": "pods", "uid": str(number)}
    return {"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}}


async def test_a_status_update_costs_few_calls(base: httpx.AsyncClient) -> None:
    path = f"{_CLAIMS}/base/status"
    assert await _calls(lambda number: base.patch(path, json=_status(number), headers=_MERGE)) <= 538


def _kubelets_status(number: int) -> dict[str, Any]:
    since = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": since}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]
    address = [{"ip": "10.0.0.1"}]
    container = {"name": "c", "image": "i", "imageID": "i", "ready": True, "restartCount": number}
    return {
        "status": {
            "phase": "Running",
            "$setElementOrder/conditions": [{"type": condition["type"]} for condition in conditions],
            "conditions": conditions,
            "$setElementOrder/podIPs": address,
            "podIPs": address,
            "podIP": address[0]["ip"],
            "containerStatuses": [{**container, "state": {"running": {"startedAt": since}}}],
        }
    }


async def test_a_status_update_of_the_kubelet_costs_few_calls(base: httpx.AsyncClient) -> None:
    path = f"{_PODS}/base/status"
    headers = {"content-type": "application/strategic-merge-patch+json"}
    assert (
        await _calls(lambda number: base.patch(path, json=_kubelets_status(number), headers=headers)) <= 558
    )
