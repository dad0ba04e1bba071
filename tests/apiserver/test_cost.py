"""Test that requests take no more Python calls and memory than recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.support.cost import Cost, check, measure

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


async def _check(client: httpx.AsyncClient, send: Send, *recorded: float) -> None:
    async def step(number: int) -> None:
        answer = await send(number)
        assert answer.is_success, answer.text

    async def still(number: int) -> None:
        await client.get("/livez")

    calls, builtins, kibibytes = recorded
    check(await measure(step, still), Cost(int(calls), int(builtins), kibibytes))


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


@pytest.mark.parametrize(
    ("path", "recorded"),
    [(f"{_CLAIMS}/base", (44, 48, 0)), (_CLAIMS, (77, 65, 0)), (f"{_PODS}/base", (44, 48, 0))],
)
async def test_a_read_executes_no_more_python_calls_than_recorded(
    base: httpx.AsyncClient, path: str, recorded: tuple[float, ...]
) -> None:
    await _check(base, lambda _: base.get(path), *recorded)


@pytest.mark.parametrize(
    ("path", "obj", "recorded"), [(_CLAIMS, _CLAIM, (290, 351, 5)), (_PODS, _POD, (352, 523, 5))]
)
async def test_a_create_executes_no_more_python_calls_than_recorded(
    base: httpx.AsyncClient, path: str, obj: dict[str, Any], recorded: tuple[float, ...]
) -> None:
    await _check(base, lambda number: base.post(path, json=_with_name(obj, number)), *recorded)


@pytest.mark.parametrize(
    ("path", "recorded"), [(f"{_CLAIMS}/base", (316, 416, 5)), (f"{_PODS}/base", (501, 699, 6.5))]
)
async def test_a_patch_executes_no_more_python_calls_than_recorded(
    base: httpx.AsyncClient, path: str, recorded: tuple[float, ...]
) -> None:
    await _check(base, lambda number: base.patch(path, json=_annotate(number), headers=_MERGE), *recorded)


def _status(number: int) -> dict[str, Any]:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0"}
    consumer = {"name": "p", "resource": "pods", "uid": str(number)}
    return {"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}}


async def test_a_status_update_executes_no_more_python_calls_than_recorded(base: httpx.AsyncClient) -> None:
    path = f"{_CLAIMS}/base/status"
    await _check(base, lambda number: base.patch(path, json=_status(number), headers=_MERGE), 514, 760, 7)


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


async def test_a_status_update_of_the_kubelet_executes_no_more_python_calls_than_recorded(
    base: httpx.AsyncClient,
) -> None:
    path = f"{_PODS}/base/status"
    headers = {"content-type": "application/strategic-merge-patch+json"}
    await _check(
        base, lambda number: base.patch(path, json=_kubelets_status(number), headers=headers), 555, 1030, 12
    )
